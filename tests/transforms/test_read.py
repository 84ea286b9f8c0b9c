"""Reading Parquet: every row is a record or a dead letter, in one piece or in ranges."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.dead_letter import DeadLetter
from schemas.errors import UsageError
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.source import Source
from transforms import read, read_parquet
from transforms.plan import check_clashes, plan_input
from transforms.read import ReadSpan, SplitFile
from transforms.read_parquet import read_batches, records_of, row_ranges

PLAIN = Source(pa.schema([("id", pa.string()), ("document", pa.string()), ("output", pa.string())]))


def plan_parquet(pattern: str) -> Any:
    return plan_input(pattern, Source(pa.schema([])), None)


def write(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, **options)
    return path


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{i}", "document": f"d{i}", "output": f'{{"a": {i}}}'} for i in range(count)]


def test_ranges_cover_every_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups are cut into ranges; reading all ranges gives every row once, in order."""
    path = write(tmp_path / "a.parquet", rows(100), row_group_size=40)
    monkeypatch.setattr(read_parquet, "RANGE_BYTES", 300)
    monkeypatch.setattr(read_parquet, "BATCH_BYTES", 100)
    spans = list(row_ranges(str(path)))
    ids = [i for s in spans for b in read_batches(s) for i in b.column("id").to_pylist()]
    assert len(spans) > 3
    assert ids == [f"r{i}" for i in range(100)]


def test_a_small_file_is_one_range(tmp_path: Path) -> None:
    """A row group under the range size is not cut."""
    path = write(tmp_path / "a.parquet", rows(10))
    assert [(s.start, s.stop) for s in row_ranges(str(path))] == [(0, 10)]


def test_a_bad_row_becomes_a_dead_letter_between_its_neighbours() -> None:
    """The dead letter keeps the whole row, names the reason, and the others are read."""
    data = rows(3)
    data[1]["output"] = "{not json"
    batch = pa.RecordBatch.from_pylist(data)
    first, bad, last = records_of(batch, PLAIN, "a.parquet")
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(bad, DeadLetter)
    assert (bad.id, bad.reason, bad.source) == ("r1", FailureReason.INVALID_JSON, "a.parquet")
    assert json.loads(bad.payload) == data[1]


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"not parquet at all", b"PAR1" + b"x" * 100 + b"PAR1"]
)
def test_an_unreadable_file_is_a_dead_letter_with_its_name(tmp_path: Path, content: bytes) -> None:
    """Zero-byte, cut-off and foreign files name themselves and stop nothing."""
    path = tmp_path / "broken.parquet"
    path.write_bytes(content)
    (tagged,) = list[Any](SplitFile(PLAIN).process(str(path)))
    assert tagged.tag == read.DEAD_LETTERS
    assert tagged.value.reason is FailureReason.UNREADABLE_FILE
    assert str(path) in tagged.value.message


def test_a_file_that_breaks_in_the_middle_gives_a_dead_letter(tmp_path: Path) -> None:
    """The footer can be fine and the data not: the part that is lost is named."""
    path = write(tmp_path / "a.parquet", rows(2000), compression="snappy")
    (span,) = row_ranges(str(path))
    data = bytearray(path.read_bytes())
    data[20:400] = b"\xff" * 380
    path.write_bytes(data)
    results = list[Any](ReadSpan(PLAIN).process(span))
    assert results[-1].tag == read.DEAD_LETTERS
    assert "row group 0" in results[-1].value.message


def test_columns_of_several_files_are_united(tmp_path: Path) -> None:
    """The plan holds the union of the schemas and the number of readable rows."""
    write(tmp_path / "a.parquet", [{"document": "d", "output": "{}", "n": 1}])
    write(tmp_path / "b.parquet", [{"document": "d", "output": "{}", "extra": "x"}])
    (tmp_path / "c.parquet").write_bytes(b"")
    plan = plan_parquet(str(tmp_path / "*.parquet"))
    assert plan.source.schema.names == ["document", "output", "n", "extra"]
    assert (len(plan.files), plan.rows) == (3, 2)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"document": ["d"]}, "no column `output`; found: document"),
        ({"output": ["{}"], "text": ["d"]}, "one of the columns messages, prompt, document"),
    ],
)
def test_unfit_columns_are_refused_by_name(
    tmp_path: Path, columns: dict[str, list[str]], message: str
) -> None:
    """A missing column, or one that we write ourselves, is named with the remedy."""
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match=message):
        plan_parquet(str(tmp_path / "a.parquet"))


def test_columns_of_our_output_are_refused() -> None:
    """With the remedy."""
    schema = pa.schema([("output", pa.string()), ("route", pa.string())])
    with pytest.raises(UsageError, match="route; rename them, like --columns old_route=route"):
        check_clashes(schema, ["route", "signals"])
    check_clashes(schema, ["x_route", "x_signals"])


def test_conflicting_columns_are_refused(tmp_path: Path) -> None:
    """A column that is text here and a number there is named."""
    write(tmp_path / "a.parquet", [{"document": "d", "output": "{}", "n": 1}])
    write(tmp_path / "b.parquet", [{"document": "d", "output": "{}", "n": "one"}])
    with pytest.raises(UsageError, match="conflict"):
        plan_parquet(str(tmp_path))


@pytest.mark.parametrize("pattern", ["missing.parquet", "missing/*.parquet"])
def test_nothing_to_read_is_an_error(tmp_path: Path, pattern: str) -> None:
    """A missing file and an empty glob are errors, not empty runs."""
    with pytest.raises(UsageError, match="no such file"):
        plan_parquet(str(tmp_path / pattern))
