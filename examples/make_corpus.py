"""Makes `corpus.parquet` from the hand-written sources in `corpus/` and a generator of tables.

  python examples/make_corpus.py

The result depends on the sources alone. `planted` marks each mistake in an output by field and
kind; everything else in an output equals the ground truth.
"""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from table_questions import table_records

HERE = Path(__file__).resolve().parent
KINDS = (
    "wrong_span",
    "swapped_fields",
    "invented_value",
    "overlooked_value",
    "wrong_date_format",
    "off_amount",
)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("family", pa.string()),
        ("document", pa.string()),
        ("instructions", pa.string()),
        ("json_schema", pa.string()),
        ("output", pa.string()),
        ("ground_truth", pa.string()),
        ("generator", pa.string()),
        ("planted", pa.list_(pa.struct([("field", pa.string()), ("kind", pa.string())]))),
    ]
)
Json = dict[str, Any]
TEXT = {"type": "string"}
NUMBERS = frozenset({"year", "amount"})
DATES = frozenset({"date_of_birth", "last_update"})


def records() -> Iterator[Json]:
    """All records of the corpus, as rows of SCHEMA."""
    for family in ("financial_entities", "pii", "insurance_claims"):
        source = yaml.safe_load((HERE / "corpus" / f"{family}.yaml").read_text("utf-8"))
        for number, record in enumerate(source["records"], 1):
            yield _row(family, number, source, record)
    for number, record in enumerate(table_records(random.Random(20260318)), 1):  # noqa: S311 - a fixed seed is the point
        yield _row("table_analysis", number, record, record)


def _row(family: str, number: int, source: Json, record: Json) -> Json:
    truth = _truth(source, record)
    output = copy.deepcopy(truth)
    planted = []
    for path, (kind, value) in (record.get("planted") or {}).items():
        _replace(output, path.split("."), _plain(value))
        mistake = {"field": path.split(".")[0], "kind": kind}
        planted += [mistake] if mistake not in planted else []
    row = {
        "id": f"{family}-{number:02}",
        "family": family,
        "document": record["document"],
        "instructions": source["instructions"].strip(),
        "json_schema": _dump(_schema(source, truth)),
        "output": _dump(output),
        "ground_truth": _dump(truth),
        "generator": "example-generator",
        "planted": planted,
    }
    _check(row, truth, output)
    return row


def _truth(source: Json, record: Json) -> Json:
    """The true output, with nulls for the fields of the family that the record does not name."""
    names = source.get("list_fields") or source.get("text_fields") or list(record["truth"])
    return {name: _plain(record["truth"].get(name)) for name in names}


def _plain(value: Any) -> Any:
    """YAML reads dates; the corpus holds them as ISO text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _replace(output: Json, path: list[str], value: Any) -> None:
    for key in path[:-1]:
        output = output[key]
    output[path[-1]] = value


def _schema(source: Json, truth: Json) -> Json:
    """A schema that allows what the family's outputs may hold."""
    if "list_fields" in source:
        return _object({name: {"type": ["array", "null"], "items": TEXT} for name in truth})
    if "text_fields" in source:
        return _object({name: _part(name, "") for name in truth})
    return _object({name: _part(name, value) for name, value in truth.items()})


def _object(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _part(name: str, value: Any) -> Json:
    """The schema of one value, by its name and by what it is in the truth."""
    if isinstance(value, dict):
        return _object({key: _part(key, item) for key, item in value.items()})
    if isinstance(value, list):
        return {"type": "array", "items": TEXT}
    if isinstance(value, int | float) or (value is None and name in NUMBERS):
        return {"type": ["number", "null"]}
    date = {"format": "date"} if name.endswith("date") or name in DATES else {}
    return {"type": ["string", "null"], **date}


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _check(row: Json, truth: Json, output: Json) -> None:
    """An output is wrong exactly where it says so."""
    wrong = {name for name in truth if truth[name] != output[name]}
    marked = {mistake["field"] for mistake in row["planted"]}
    if wrong != marked:
        raise ValueError(f"{row['id']}: wrong in {sorted(wrong)}, marked {sorted(marked)}")
    unknown = {mistake["kind"] for mistake in row["planted"]} - set(KINDS)
    if unknown:
        raise ValueError(f"{row['id']}: unknown kinds {sorted(unknown)}")


def main() -> None:
    """Write the corpus beside this file."""
    table = pa.Table.from_pylist(list(records()), schema=SCHEMA)
    pq.write_table(table, HERE / "corpus.parquet", compression="zstd")


if __name__ == "__main__":
    main()
