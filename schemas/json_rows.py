"""Rows that come as JSON objects: their Arrow form, and what they carry."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from schemas.arrow_json import dump_json
from schemas.errors import UsageError
from schemas.record import RECORD_KEYS, invalid

EXTRA = "extra"
"""The column with all keys of a JSON row that are not the record's own, as one JSON object."""

_TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "json": pa.string(),
}


def parse_carry(text: str | None) -> pa.Schema | None:
    """The columns that `--carry name:type,…` names. Raises UsageError."""
    if text is None:
        return None
    fields = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, colon, kind = part.rpartition(":")
        if not colon or kind not in _TYPES:
            raise UsageError(f"--carry {part}: write name:type, type one of {', '.join(_TYPES)}")
        if name in RECORD_KEYS:
            raise UsageError(f"--carry {part}: {name} is the record's own and carried anyway")
        fields.append(
            pa.field(name, _TYPES[kind], metadata={"json": "1"} if kind == "json" else {})
        )
    return pa.schema(fields)


def json_row_schema(carry: pa.Schema | None) -> pa.Schema:
    """The columns of JSON rows: the record's keys as text, then what is carried."""
    keys = [pa.field(key, pa.string()) for key in RECORD_KEYS]
    return pa.schema([*keys, *(carry if carry is not None else [pa.field(EXTRA, pa.string())])])


def row_cells(values: Mapping[str, Any], carry: pa.Schema | None) -> dict[str, Any]:
    """A JSON row's cells by column. Raises RecordError for a value that its column cannot hold."""
    cells = {key: _text(values.get(key)) for key in RECORD_KEYS}
    if carry is None:
        extra = {k: v for k, v in values.items() if k not in cells}
        return cells | {EXTRA: dump_json(extra) if extra else None}
    return cells | {field.name: _carried(values.get(field.name), field) for field in carry}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else dump_json(value)


def _carried(value: Any, field: pa.Field) -> Any:
    if value is None:
        return None
    if (field.metadata or {}).get(b"json"):
        return dump_json(value)
    try:
        if isinstance(value, str) and not pa.types.is_string(field.type):
            return pa.array([value]).cast(field.type)[0].as_py()
        if pa.types.is_string(field.type):
            return _text(value)
        return pa.array([value]).cast(field.type)[0].as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise invalid(f"{field.name} is no {field.type}: {value!r}"[:200]) from error


def rows_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of cells as one batch of `schema`."""
    arrays = [pa.array([row[f.name] for row in rows], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
