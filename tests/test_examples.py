"""The example corpus is what it says: sources, truth, and mistakes where they are marked."""

import json
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ROWS = pq.read_table(EXAMPLES / "corpus.parquet").to_pylist()


def test_the_parquet_file_is_what_the_sources_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """make_corpus.py was run after the last change of a source."""
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    assert list(import_module("make_corpus").records()) == ROWS


def test_size_and_variety() -> None:
    """At least 80 records in four families, and six or more mistakes of each kind."""
    assert len(ROWS) >= 80
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert min(Counter(row["family"] for row in ROWS).values()) >= 16
    kinds = Counter(mistake["kind"] for row in ROWS for mistake in row["planted"])
    assert len(kinds) == 6
    assert min(kinds.values()) >= 6


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_outputs_are_wrong_exactly_where_marked(row: dict[str, Any]) -> None:
    """Elsewhere the output is the truth, and the truth fits the schema."""
    output, truth = json.loads(row["output"]), json.loads(row["ground_truth"])
    wrong = {name for name in truth if truth[name] != output[name]}
    assert wrong == {mistake["field"] for mistake in row["planted"]}
    jsonschema.validate(
        truth, json.loads(row["json_schema"]), format_checker=jsonschema.FormatChecker()
    )


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r["family"] == "table_analysis"], ids=lambda row: row["id"]
)
def test_table_answers_follow_from_the_table(row: dict[str, Any]) -> None:
    """Counts, highest and mean are computed again from the text of the document."""
    truth = json.loads(row["ground_truth"])
    title, body, _ = row["document"].split("\n\n")
    lines = [line for line in body.splitlines() if "---" not in line]
    table = [
        [cell.strip() for cell in line.strip("|").replace(";", "|").split("|")] for line in lines
    ]
    columns, rows = table[0], table[1:]
    measured = columns.index(title.removeprefix("Table: "))
    values = [float(cells[measured]) for cells in rows]
    assert truth["columns"] == columns
    assert truth["row_count"] == len(rows)
    assert truth["highest"] == max(values)
    assert truth["mean"] == pytest.approx(sum(values) / len(values), abs=0.00501)
    assert rows[values.index(max(values))][0] == truth["highest_row"]
    assert truth["empty_cells"] == sum(cell == "" for cells in rows for cell in cells)
