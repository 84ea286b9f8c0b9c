"""The label file: which fields of which records are right.

Columns: `id`, `field`, `correct` (true or false), and `weight` (1 unless given): the inverse of the
probability with which the record was looked at. Parquet, or JSON lines or CSV by the file's name.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

import storage
from schemas.errors import UsageError

LABEL_SCHEMA = pa.schema(
    [("id", pa.string()), ("field", pa.string()), ("correct", pa.bool_()), ("weight", pa.float64())]
)
_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


class Label(NamedTuple):
    """Whether one field of one record is right, and for how many such records it stands."""

    id: str
    field: str
    correct: bool
    weight: float = 1.0


def read_labels(path: str) -> list[Label]:
    """The labels in a file, in order. Raises UsageError that names the row at fault."""
    try:
        rows = _rows(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"{path} cannot be read as labels: {error}") from error
    return [_label(path, number, row) for number, row in enumerate(rows, 1)]


def write_labels(path: str, labels: Iterable[Label]) -> None:
    """Write a Parquet label file. Raises OSError."""
    rows = [label._asdict() for label in labels]
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, LABEL_SCHEMA), buffer)
    storage.write_bytes(path, buffer.getvalue().to_pybytes())


def _rows(path: str) -> list[dict[str, Any]]:
    with storage.open_input(path) as file:
        data = file.read()
    if path.endswith(".parquet"):
        table: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).to_pylist()
        return table
    text = data.decode("utf-8-sig")
    if path.endswith(".csv"):
        return list(csv.DictReader(io.StringIO(text)))
    return [orjson.loads(line) for line in text.splitlines() if line.strip()]


def _label(path: str, number: int, row: Any) -> Label:
    where = f"{path} row {number}"
    if not isinstance(row, Mapping):
        raise UsageError(f"{where} is no object with id, field and correct")
    missing = [key for key in ("id", "field", "correct") if row.get(key) in (None, "")]
    if missing:
        raise UsageError(f"{where} lacks {missing[0]}: a label has id, field, correct, weight")
    correct = row["correct"]
    if not isinstance(correct, bool):
        correct = _WORDS.get(str(correct).strip().lower())
    if correct is None:
        raise UsageError(f"{where}: correct is {row['correct']!r}, not true or false")
    return Label(str(row["id"]), str(row["field"]), correct, _weight(where, row.get("weight")))


def _weight(where: str, value: Any) -> float:
    if value in (None, ""):
        return 1.0
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = -1.0
    if not 0 < weight < float("inf"):
        raise UsageError(f"{where}: weight is {value!r}, not a positive number")
    return weight
