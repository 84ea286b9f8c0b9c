"""Check the example corpus and write it as one Parquet file, beside this script.

Usage: python examples/make_corpus.py
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
FAMILIES = ("financial_entities", "pii", "insurance_claims", "table_analysis")
KINDS = frozenset(
    {
        "wrong_span",
        "swapped_fields",
        "invented_value",
        "overlooked_value",
        "wrong_date_format",
        "off_amount",
    }
)
TEXT_KEYS = ("id", "family", "document", "instructions", "generator")
JSON_KEYS = ("json_schema", "output", "ground_truth")
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

Record = dict[str, Any]


class CorpusError(Exception):
    """A record of the corpus breaks one of its rules."""


def read_corpus(folder: Path) -> list[Record]:
    """The records of the four JSONL files in `folder`, family by family, all checked.

    Raises CorpusError for a record that breaks a rule, and for an id that occurs twice.
    """
    records = [record for family in FAMILIES for record in _read_family(folder, family)]
    seen: set[str] = set()
    for record in records:
        if record["id"] in seen:
            raise CorpusError(f"{record['id']}: the id is not unique")
        seen.add(record["id"])
    return records


def check_record(record: Mapping[str, Any]) -> None:
    """Raise CorpusError unless the keys are right and `planted` says where the output is wrong."""
    name = record.get("id")
    if set(record) != set(SCHEMA.names):
        raise CorpusError(f"{name}: keys are {sorted(record)}, not {sorted(SCHEMA.names)}")
    wrong_type = [key for key in TEXT_KEYS if not isinstance(record[key], str)]
    wrong_type += [key for key in JSON_KEYS if not isinstance(record[key], dict)]
    if wrong_type:
        raise CorpusError(f"{name}: wrong type in {wrong_type}")
    unknown = {mistake["kind"] for mistake in record["planted"]} - KINDS
    if unknown:
        raise CorpusError(f"{name}: unknown kinds {sorted(unknown)}")
    planted = [mistake["field"] for mistake in record["planted"]]
    differing = differing_fields(record["output"], record["ground_truth"])
    if planted != differing:
        raise CorpusError(f"{name}: planted in {planted}, but {differing} differ")


def differing_fields(output: Mapping[str, Any], truth: Mapping[str, Any]) -> list[str]:
    """The top-level keys, in the order of `truth`, whose JSON is not the same in both."""
    keys = [*truth, *(key for key in output if key not in truth)]
    return [
        key
        for key in keys
        if key not in output
        or key not in truth
        or _canonical(output[key]) != _canonical(truth[key])
    ]


def to_table(records: list[Record]) -> pa.Table:
    """One row a record; schema, output and ground truth become JSON text."""
    rows = [
        {**record, **{key: json.dumps(record[key], ensure_ascii=False) for key in JSON_KEYS}}
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write_corpus(folder: Path, path: Path) -> int:
    """Write the corpus in `folder` to the Parquet file `path`; the number of its records."""
    records = read_corpus(folder)
    pq.write_table(to_table(records), path, compression="zstd")
    return len(records)


def _read_family(folder: Path, family: str) -> Iterator[Record]:
    with (folder / f"{family}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            record: Record = json.loads(line)
            check_record(record)
            if record["family"] != family:
                raise CorpusError(f"{record['id']}: family {record['family']} in {family}.jsonl")
            yield record


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


if __name__ == "__main__":
    target = HERE / "corpus.parquet"
    print(f"{write_corpus(HERE / 'corpus', target)} records in {target}")
