"""The batch run as a whole, on the in-process runner with the embedded verifier."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.run import build, prepare_run
from pipeline.settings import ScoreFlags
from schemas.errors import UsageError
from tests.support.scripted import scripted_server, target
from verifier import backoff
from verifier.faults import FaultKind, Faults

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
RECORD = {
    "document": "Invoice 12 of ACME Ltd, dated 3 March 2025. Total 40.00 EUR.",
    "instructions": "Extract vendor, total and date.",
    "output": '{"vendor": "ACME Ltd", "total": "40.00", "date": "2025-03-03"}',
}
Rows = list[dict[str, Any]]


def write(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def run(source: Path, output: Path, **more: Any) -> dict[str, Any]:
    settings = {"verifier": "embedded", "accept_literal_evidence": True, **more}
    prepared = prepare_run(ScoreFlags(input=str(source), output=str(output), **settings))
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        build(pipeline, prepared)
    return dict(json.loads((output / "run.json").read_text("utf-8")))


def read(output: Path, part: str) -> Rows:
    return [
        row
        for path in sorted((output / part).glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def dead_letters(output: Path) -> Rows:
    paths = sorted((output / "dead_letter").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def ids(output: Path) -> Counter[str]:
    placed = [*read(output, "auto_accept"), *read(output, "human_review"), *dead_letters(output)]
    return Counter(row["id"] for row in placed)


def test_every_record_is_in_exactly_one_place(tmp_path: Path) -> None:
    """Good, doubtful, broken and empty records are all placed, and run.json agrees."""
    rows: Rows = [
        {"id": "good", **RECORD},
        {"id": "invented", **RECORD, "output": '{"vendor": "Globex", "total": "977.13"}'},
        {"id": "not-json", **RECORD, "output": "the total is 40"},
        {"id": "empty", **RECORD, "output": "{}"},
        {"id": "no-document", "document": None, "instructions": "x", "output": "{}"},
    ]
    source = write(tmp_path / "in.parquet", rows)
    out = tmp_path / "out"
    summary = run(source, out, verdicts=str(out / "verdicts"))
    assert ids(out) == Counter({row["id"]: 1 for row in rows})
    assert [r["id"] for r in read(out, "auto_accept")] == ["good"]
    assert [r["id"] for r in read(out, "human_review")] == ["invented"]
    assert summary["placed"] == {"auto_accept": 1, "human_review": 1, "dead_letter": 3}
    assert summary["dead_letter_reasons"] == {
        "empty_output": 1,
        "invalid_json": 1,
        "invalid_record": 1,
    }
    verdicts = Counter(row["record_id"] for row in read(out, "verdicts"))
    assert verdicts == {"good": 5, "invented": 5}
    assert summary["calls"] == 10


def test_output_rows_carry_scores_evidence_and_the_input(tmp_path: Path) -> None:
    """An output row has the input's columns unchanged and all of the score columns."""
    source = write(tmp_path / "in.parquet", [{"id": 7, **RECORD, "batch": "b-1"}])
    run(source, tmp_path / "out")
    (row,) = read(tmp_path / "out", "auto_accept")
    assert (row["id"], row["batch"], row["output"]) == ("7", "b-1", RECORD["output"])
    assert 0.85 <= row["trustworthiness_score"] <= 1
    assert [f["field"] for f in row["per_field_scores"]] == ["vendor", "total", "date"]
    evidence = row["per_field_scores"][1]["evidence"]
    start, end = evidence["start"], evidence["end"]
    assert RECORD["document"][start:end] == evidence["text"] == "40.00"
    assert row["verifier_model"] == "literal-evidence"
    assert row["signals"]["n_verdicts"] == 5
    assert row["usage"]["calls"] == 5
    assert row["untrustworthy_fields"] == row["review_reasons"] == []


def test_a_second_run_gives_the_same_scores_and_routes(tmp_path: Path) -> None:
    """Nothing in scores or routes depends on timing or order."""
    rows = [
        {"id": f"r{i}", **RECORD, "output": json.dumps({"vendor": "ACME", "total": i})}
        for i in range(40)
    ]
    source = write(tmp_path / "in.parquet", rows)

    def scores(folder: str) -> set[tuple[Any, ...]]:
        run(source, tmp_path / folder)
        placed = [r for p in ("auto_accept", "human_review") for r in read(tmp_path / folder, p)]
        assert len(placed) == 40
        return {(r["id"], r["trustworthiness_score"], r["route"]) for r in placed}

    assert scores("one") == scores("two")


def test_literal_evidence_alone_accepts_nothing(tmp_path: Path) -> None:
    """Without --accept_literal_evidence every record of the embedded verifier is reviewed."""
    source = write(tmp_path / "in.parquet", [{"id": "good", **RECORD}])
    summary = run(source, tmp_path / "out", accept_literal_evidence=False)
    assert summary["placed"]["auto_accept"] == 0
    assert summary["review_reasons"] == {"literal_evidence_only": 1}


def test_a_good_file_among_broken_ones_is_scored(tmp_path: Path) -> None:
    """The broken files are dead letters with their names; the good rows are all scored."""
    write(tmp_path / "in" / "good.parquet", [{"id": f"r{i}", **RECORD} for i in range(3)])
    (tmp_path / "in" / "empty.parquet").write_bytes(b"")
    (tmp_path / "in" / "text.parquet").write_text("hello")
    summary = run(tmp_path / "in", tmp_path / "out")
    assert summary["placed"] == {"auto_accept": 3, "human_review": 0, "dead_letter": 2}
    assert {Path(d["source"]).name for d in dead_letters(tmp_path / "out")} == {
        "empty.parquet",
        "text.parquet",
    }


def test_a_misbehaving_server_loses_nothing_and_accepts_nothing_thin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow, cut-off, rubbish and missing answers: every record is placed, and what is accepted
    has enough verdicts, one graded rating and one audit a field, counted from the verdict log."""
    monkeypatch.setattr(backoff, "BASE_S", 0.01)
    kinds = set(FaultKind) - {FaultKind.AUTH, FaultKind.SLOW, FaultKind.RATE_LIMIT}
    faults = Faults(dict.fromkeys(sorted(kinds), 0.04), seed=5)
    rows: Rows = [{"id": f"r{i}", **RECORD} for i in range(60)]
    out = tmp_path / "out"
    with scripted_server(faults=faults, delay_ms=5) as (server, _):
        summary = run(
            write(tmp_path / "in.parquet", rows),
            out,
            verdicts=str(out / "verdicts"),
            verifier=target(server),
            cache="none",
            attempt_timeout=0.5,
            call_timeout=2,
            record_timeout=4,
            max_attempts=2,
        )
    assert ids(out) == Counter({row["id"]: 1 for row in rows})
    good: dict[str, set[str]] = {}
    for verdict in read(out, "verdicts"):
        if verdict["status"] == "ok":
            good.setdefault(verdict["record_id"], set()).add(verdict["template"])
    accepted = [row["id"] for row in read(out, "auto_accept")]
    assert 0 < len(accepted) < 60
    assert summary["placed"]["auto_accept"] == len(accepted)
    for record_id in accepted:
        assert len(good[record_id]) >= 3
        assert good[record_id] & {"fields_numeric", "fields_likert"}
        assert good[record_id] & {"accuracy_audit", "confidence_audit"}


def test_an_empty_file_gives_an_empty_run(tmp_path: Path) -> None:
    """No rows: all outputs exist, with their columns, and the counts are zero."""
    schema = pa.schema([("document", pa.string()), ("output", pa.string())])
    pq.write_table(schema.empty_table(), tmp_path / "in.parquet")
    summary = run(tmp_path / "in.parquet", tmp_path / "out")
    assert summary["records"] == 0
    (path,) = (tmp_path / "out" / "auto_accept").glob("*.parquet")
    assert "trustworthiness_score" in pq.read_schema(path).names


def test_a_finished_run_is_not_overwritten_unasked(tmp_path: Path) -> None:
    """The folder of a finished run is refused; with --overwrite it is replaced."""
    one = write(tmp_path / "one.parquet", [{"id": "one", **RECORD}])
    two = write(tmp_path / "two.parquet", [{"id": "two", **RECORD}])
    run(one, tmp_path / "out")
    with pytest.raises(UsageError, match="--overwrite"):
        run(two, tmp_path / "out")
    run(two, tmp_path / "out", overwrite=True)
    assert ids(tmp_path / "out") == Counter({"two": 1})


@pytest.mark.parametrize(
    ("setting", "content", "message"),
    [
        ("schema", "{not json", "--schema .* is not JSON"),
        ("schema", '{"type": "nonsense"}', "--schema .* json_schema is invalid"),
        ("schema", "", "--schema .* is empty"),
        ("policy", "accept: {document: 2}", "accept.document"),
        ("policy", "accept: [", "is not YAML"),
        ("policy", "acept: {}", "acept"),
    ],
)
def test_unfit_files_are_refused_at_submission(
    tmp_path: Path, setting: str, content: str, message: str
) -> None:
    """A bad schema or policy is an error before anything is read or sent."""
    source = write(tmp_path / "in.parquet", [{"id": "good", **RECORD}])
    (tmp_path / "file").write_text(content)
    with pytest.raises(UsageError, match=message):
        run(source, tmp_path / "out", **{setting: str(tmp_path / "file")})


def test_the_runs_schema_applies_to_records_without_one(tmp_path: Path) -> None:
    """--schema FILE validates outputs that bring no schema of their own."""
    source = write(tmp_path / "in.parquet", [{"id": "good", **RECORD}])
    (tmp_path / "schema.json").write_text('{"properties": {"total": {"type": "number"}}}')
    summary = run(source, tmp_path / "out", schema=str(tmp_path / "schema.json"))
    assert summary["review_reasons"]["schema_violation"] == 1


@pytest.mark.parametrize(("name", "dead"), [("receipts", 0), ("trials", 2)])
def test_real_corpora_are_placed_in_full(tmp_path: Path, name: str, dead: int) -> None:
    """On real outputs: one place a record, five verdicts a scored record, counts that agree."""
    source = SHARED / f"{name}.parquet"
    if not source.exists():
        pytest.skip(f"{source} is not here")
    out = tmp_path / "out"
    summary = run(source, out, verdicts=str(out / "verdicts"))
    expected = Counter(pq.read_table(source, columns=["id"])["id"].to_pylist())
    assert ids(out) == expected
    placed = {part: len(read(out, part)) for part in ("auto_accept", "human_review")}
    assert summary["placed"] == {**placed, "dead_letter": dead}
    assert len(dead_letters(out)) == dead
    assert len(read(out, "verdicts")) == 5 * (expected.total() - dead) == summary["verdicts"]
