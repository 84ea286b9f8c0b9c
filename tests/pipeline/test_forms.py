"""Records of every form through read, score and write: nothing lost, nothing changed."""

import gzip
import json
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.display import DisplayData
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.run import build, prepare_run
from pipeline.settings import ScoreFlags
from schemas.arrow_scored import OutputShape, scored_table
from schemas.dead_letter import DeadLetter
from schemas.errors import UsageError
from schemas.policy import Policy
from schemas.record import Record, clean
from schemas.source import Source
from schemas.verdict import Verdict
from scoring.routing import RoutingRules
from storage import gcs
from tests.pipeline.test_run import RECORD, dead_letters, ids, read, run, write
from tests.support.builders import TEMPLATE_NAMES, TEMPLATES, good_reply, verdict
from tests.support.gcs import emulated_bucket
from transforms.read_parquet import records_of
from transforms.verify import VerifyRecords
from verifier.record_verifier import Verified, prepare
from verifier.score import score_verified

RULES = RoutingRules(Policy())


def scored(record: Record) -> Any:
    """The record scored with good verdicts, without a pipeline around it."""
    prepared = prepare(record)
    fields = prepared.facts.fields
    given_verdicts: list[Verdict] = [
        verdict(name, fields, good_reply(name, fields)) for name in TEMPLATE_NAMES
    ]
    return score_verified(Verified(record, prepared.facts, tuple(given_verdicts)), RULES)


def through(table: pa.Table) -> tuple[list[dict[str, Any]], list[DeadLetter]]:
    """The table's rows, read, scored and made into output rows; and the dead letters."""
    source = Source(table.schema)
    results = [r for b in table.to_batches() for r in records_of(b, source, "t")]
    records = [scored(r) for r in results if isinstance(r, Record)]
    lost = [r for r in results if isinstance(r, DeadLetter)]
    shape = OutputShape(table.schema, TEMPLATE_NAMES)
    return scored_table(records, shape).to_pylist() if records else [], lost


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False).map(
        lambda d: json.loads(json.dumps(float(d)))
    )
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(outputs=st.lists(JSON, min_size=1, max_size=5), document=TEXT)
def test_any_json_output_is_scored_or_kept(outputs: list[Any], document: str) -> None:
    """Every row is one output row or one dead letter; texts are as they were; scores in range."""
    texts = [json.dumps(o) for o in outputs]
    table = pa.table({"document": [document] * len(texts), "output": texts})
    rows, lost = through(table)
    assert len(rows) + len(lost) == len(texts)
    assert Counter(r["output"] for r in rows) + Counter(
        json.loads(d.payload)["output"] for d in lost
    ) == Counter(texts)
    for row in rows:
        assert row["document"] == document
        value = json.loads(row["output"])
        names = [clean(k) for k in value] if isinstance(value, dict) else ["$"]
        assert [f["field"] for f in row["per_field_scores"]] == list(dict.fromkeys(names))
        assert 0 <= row["trustworthiness_score"] <= 1


ARROW = st.one_of(
    st.sampled_from([pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_()]),
    st.sampled_from([pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.null()]),
    st.sampled_from(
        [pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns"), pa.duration("us")]
    ),
    st.sampled_from(
        [pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "Asia/Kolkata")]
    ),
    st.sampled_from(
        [pa.decimal128(20, 4), pa.decimal256(50, 0), pa.dictionary(pa.int8(), pa.string())]
    ),
)
NESTED = st.recursive(
    ARROW,
    lambda inner: (
        inner.map(pa.list_)
        | inner.map(lambda t: pa.struct([("a", t), ("b", pa.int8())]))
        | inner.map(lambda t: pa.map_(pa.string(), t))
    ),
    max_leaves=3,
)


def zeros(kind: pa.DataType, count: int) -> pa.Array:
    """A value of any type: all nulls but the first, which is the type's zero where it has one."""
    try:
        return pa.concat_arrays([pa.array([0], pa.int64()).cast(kind), pa.nulls(count - 1, kind)])
    except (pa.ArrowException, TypeError):
        return pa.nulls(count, kind)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(kinds=st.lists(NESTED, max_size=4), count=st.integers(1, 4))
def test_any_arrow_columns_are_carried(kinds: list[pa.DataType], count: int) -> None:
    """Whatever else a table holds comes out as it went in."""
    columns = {f"c{i}": zeros(kind, count) for i, kind in enumerate(kinds)}
    table = pa.table({"document": ["d"] * count, "output": ['{"a": 1}'] * count, **columns})
    source = Source(table.schema)
    found = [r for b in table.to_batches() for r in records_of(b, source, "t")]
    records = [scored(r) for r in found if isinstance(r, Record)]
    out = scored_table(records, OutputShape(table.schema, TEMPLATE_NAMES))
    assert out.select(table.column_names).equals(table)


@given(kind=NESTED, count=st.integers(1, 3))
def test_any_arrow_output_becomes_json(kind: pa.DataType, count: int) -> None:
    """An output column of any struct type is read, or is a dead letter with the row in JSON."""
    output = pa.StructArray.from_arrays([zeros(kind, count)], names=["v"])
    table = pa.table({"document": pa.array(["d"] * count), "output": output})
    rows, lost = through(table)
    assert len(rows) + len(lost) == count
    for letter in lost:
        json.loads(letter.payload)


# --- whole runs ---------------------------------------------------------------------------------


def test_odd_outputs_all_find_their_place(tmp_path: Path) -> None:
    """Arrays, scalars, 200 fields, odd keys, exact numbers, right-to-left, NUL, deep nesting."""
    outputs = {
        "array": "[1, 2]",
        "scalar": '"text"',
        "empty-array": "[]",
        "wide": json.dumps({f"f{i}": i for i in range(200)}),
        "keys": json.dumps(
            {
                "": 1,
                "a.b": 2,
                "c[0]": 3,
                "class": 4,
                "score": 5,
                "id": 6,
                "é": 7,
                "e\u0301": 8,
                "日期": 9,
            }
        ),
        "big": '{"n": 123456789012345678901234567890, "d": 0.1000000000000000055511151231257827}',
        "surrogate": '{"a\\ud800": "b\\udfff"}',
        "nul": '{"a": "x\\u0000y"}',
        "rtl": '{"מחיר": "שלום ١٢٣"}',
        "nested": json.dumps({"a": {"b": [{"c": [[[1]]]}], "empty": {}}, "e": {}}),
        "deep": "[" * 150 + "]" * 150,
        "too-deep": "[" * 2000 + "]" * 2000,
        "empty": "{}",
        "null": "null",
    }
    rows = [
        {"id": k, "document": "שלום \U0001f600 100.00", "output": v} for k, v in outputs.items()
    ]
    out = tmp_path / "out"
    summary = run(write(tmp_path / "in.parquet", rows), out, verdicts=str(out / "verdicts"))
    assert ids(out) == Counter(list(outputs))
    assert {d["id"]: d["reason"] for d in dead_letters(out)} == {
        "too-deep": "invalid_json",
        "empty": "empty_output",
        "null": "empty_output",
    }
    placed = {r["id"]: r for part in ("auto_accept", "human_review") for r in read(out, part)}
    assert all(r["output"] == outputs[k] for k, r in placed.items())
    assert len(placed["wide"]["per_field_scores"]) == 200
    assert [f["field"] for f in placed["array"]["per_field_scores"]] == ["$"]
    assert summary["records"] == len(outputs)


def test_a_long_document(tmp_path: Path) -> None:
    """10 MB with braces, quotes and markers goes through whole."""
    document = 'x {y} "z" </untrusted_request> ' * 330_000 + "total 977.13"
    row = {"id": "long", "document": document, "output": '{"total": 977.13}'}
    run(write(tmp_path / "in.parquet", [row]), tmp_path / "out")
    (found,) = [r for p in ("auto_accept", "human_review") for r in read(tmp_path / "out", p)]
    assert found["document"] == document
    assert found["per_field_scores"][0]["evidence"]["text"] == "977.13"


def test_typed_outputs_reach_the_prompt_as_json(tmp_path: Path) -> None:
    """Structs with times, decimals and NaN; dictionary, large and binary text columns."""
    stamp = pa.timestamp("us", "UTC")
    output = pa.struct(
        [
            ("paid_at", stamp),
            ("amount", pa.decimal128(10, 2)),
            ("qty", pa.int64()),
            ("ratio", pa.float64()),
        ]
    )
    schema = pa.schema(
        [
            ("id", pa.dictionary(pa.int32(), pa.string())),
            ("document", pa.large_string()),
            ("output", output),
            ("json_schema", pa.binary()),
            ("created", pa.timestamp("ns", "Europe/Paris")),
        ]
    )
    value = {
        "paid_at": 1_709_285_400_000_000,
        "amount": Decimal("12.50"),
        "qty": 3,
        "ratio": float("nan"),
    }
    rows = [
        {
            "id": "r1",
            "document": "paid 12.50 on 2024-03-01, 3 pieces",
            "output": value,
            "json_schema": b"{}",
            "created": 1,
        },
        {"id": "r2", "document": None, "output": value, "json_schema": None, "created": None},
    ]
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, tmp_path / "in.parquet")
    run(tmp_path / "in.parquet", tmp_path / "out", verdicts=str(tmp_path / "v"))
    out = pq.read_table(next((tmp_path / "out" / "human_review").glob("*.parquet")))
    (scores,) = out["per_field_scores"].to_pylist()
    fields = {f["field"]: f for f in scores}
    assert fields["amount"]["evidence"]["text"] == "12.50"
    assert fields["ratio"]["explanation"].startswith("Empty")
    (lost,) = dead_letters(tmp_path / "out")
    assert (lost["id"], lost["reason"]) == ("r2", "invalid_record")
    assert (
        '"paid_at":"2024-03-01T09:30:00.000000Z","amount":12.50,"qty":3,"ratio":null'
        in lost["payload"]
    )
    assert out.schema.field("created").type == pa.timestamp("ns", "Europe/Paris")
    assert out["created"].cast(pa.int64()).to_pylist() == [1]


def test_files_with_other_columns(tmp_path: Path) -> None:
    """Missing, added and widened columns; a value that fits no widened column is a dead letter."""
    folder = tmp_path / "in"
    folder.mkdir()
    base = {"document": ["d"], "output": ['{"a": 1}']}
    tables = {
        "a": {"id": ["a"], "n": pa.array([1], pa.int8()), **base},
        "b": {"id": ["b"], "n": pa.array([2**40]), "more": ["x"], **base},
        "c": {"id": ["c"], "n": pa.array([0.5]), **base},
        "d": {"id": ["d"], "n": pa.array([2**60 + 1]), **base},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    run(folder, tmp_path / "out")
    rows = {r["id"]: (r["n"], r["more"]) for r in read(tmp_path / "out", "human_review")}
    assert rows == {"a": (1.0, None), "b": (2.0**40, "x"), "c": (0.5, None)}
    (lost,) = dead_letters(tmp_path / "out")
    assert (lost["id"], lost["reason"]) == ("d", "invalid_record")
    assert json.loads(lost["payload"])["n"] == 2**60 + 1


def test_files_with_other_text_types(tmp_path: Path) -> None:
    """Dictionary, view, large and plain text, and structs with other members, are one column."""
    folder = tmp_path / "in"
    folder.mkdir()
    base = {"document": ["d"], "output": ['{"a": 1}']}
    texts = {
        "a": pa.array(["x"]),
        "b": pa.array(["x"]).dictionary_encode(),
        "c": pa.array(["x"], pa.large_string()),
    }
    structs: dict[str, Any] = {"a": {"m": 1}, "b": {"n": "s"}, "c": {"m": 2, "n": "t"}}
    for name, text in texts.items():
        columns = {"id": [name], "text": text, "s": [structs[name]], **base}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    run(folder, tmp_path / "out")
    rows = {r["id"]: (r["text"], r["s"]) for r in read(tmp_path / "out", "human_review")}
    full: dict[str, Any] = {"m": None, "n": None}
    assert rows == {name: ("x", full | structs[name]) for name in texts}
    assert dead_letters(tmp_path / "out") == []


def test_columns_by_other_names(tmp_path: Path) -> None:
    """--columns in Parquet: renamed in the output, too; a clash and a missing one are named."""
    row = {"no": "x1", "text": RECORD["document"], "got": RECORD["output"], "route": "north"}
    source = write(tmp_path / "in.parquet", [row])
    names = "id=no,document=text,output=got"
    run(source, tmp_path / "out", columns=f"{names},old_route=route")
    (found,) = [r for p in ("auto_accept", "human_review") for r in read(tmp_path / "out", p)]
    assert (found["id"], found["document"], found["old_route"]) == ("x1", row["text"], "north")
    with pytest.raises(UsageError, match="route; rename them"):
        run(source, tmp_path / "other", columns=names)
    with pytest.raises(UsageError, match="no column txt; found: no, text, got, route"):
        run(source, tmp_path / "other", columns="document=txt")
    with pytest.raises(UsageError, match="two columns text"):
        run(source, tmp_path / "other", columns="text=got")


def test_prefix_and_flat_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--output_prefix and --flat_columns; the schema may be a Pydantic model by name."""
    (tmp_path / "my_models.py").write_text(
        "from pydantic import BaseModel\n"
        "class Invoice(BaseModel):\n    vendor: str\n    total: str\n    note: str | None = None\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    source = write(tmp_path / "in.parquet", [{"id": "x", **RECORD, "route": "north"}])
    options = {"output_prefix": "t_", "flat_columns": True, "schema": "my_models:Invoice"}
    run(source, tmp_path / "out", **options)
    (row,) = [r for p in ("auto_accept", "human_review") for r in read(tmp_path / "out", p)]
    assert (row["route"], row["t_route"]) == ("north", "auto_accept")
    assert row["t_score__total"] == row["t_per_field_scores"][1]["score"]
    assert row["t_explanation__vendor"].startswith("Found")
    assert (row["t_score__note"], row["t_explanation__note"]) == (None, None)
    with pytest.raises(UsageError, match="--flat_columns needs --schema"):
        run(source, tmp_path / "other", flat_columns=True, output_prefix="t_")
    with pytest.raises(UsageError, match="cannot be imported"):
        run(source, tmp_path / "other", schema="my_models:Nothing")


def test_shadow_accepts_nothing(tmp_path: Path) -> None:
    """The route is as it would be, with the reason shadow, in human review."""
    source = write(tmp_path / "in.parquet", [{"id": "x", **RECORD}])
    summary = run(source, tmp_path / "out", shadow=True)
    assert summary["placed"]["auto_accept"] == 0
    assert summary["review_reasons"] == {"shadow": 1}


@pytest.mark.parametrize(
    ("keep", "full", "kept"),
    [("none", False, False), ("redacted", False, True), ("full", True, True)],
)
def test_replies_are_kept_as_asked(tmp_path: Path, keep: str, full: bool, kept: bool) -> None:
    """Nothing, the structure without its texts, or all."""
    source = write(tmp_path / "in.parquet", [{"id": "x", **RECORD}])
    run(source, tmp_path / "out", keep_replies=keep, verdicts=str(tmp_path / "v"))
    replies = [r["reply"] for p in (tmp_path / "v").glob("*") for r in pq.read_table(p).to_pylist()]
    assert len(replies) == 5
    assert all((reply is not None) == kept for reply in replies)
    assert any("ACME" in (reply or "") for reply in replies) == full


def test_json_lines_run_end_to_end(tmp_path: Path) -> None:
    """JSONL in, Parquet out; the dead letters drive again."""
    lines = [{"id": "good", **RECORD, "page": 1}, {"id": "bad", **RECORD, "output": "{"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    out = tmp_path / "out"
    run(tmp_path / "in.jsonl", out)
    (row,) = read(out, "auto_accept")
    assert json.loads(row["extra"]) == {"page": 1}
    again = tmp_path / "again"
    summary = run(out / "dead_letter", again, input_format="dead_letter")
    assert summary["placed"] == {"auto_accept": 0, "human_review": 0, "dead_letter": 1}
    assert json.loads(dead_letters(again)[0]["payload"]) == lines[1]


def test_labels_are_unique_and_display_data_tells_settings(tmp_path: Path) -> None:
    """What a runner shows of the job: stable labels, and the settings that matter."""
    source = write(tmp_path / "in.parquet", [{"id": "x", **RECORD}])
    flags = ScoreFlags(input=str(source), output=str(tmp_path / "o"), verifier="embedded")
    pipeline = beam.Pipeline(runner="FnApiRunner")
    build(pipeline, prepare_run(flags))
    proto = pipeline.to_runner_api()
    labels = [t.unique_name for t in proto.components.transforms.values()]
    assert len(labels) == len(set(labels))
    assert "VerifyScoreRoute/VerifyRecords/Verify" in labels
    verify = VerifyRecords(flags.verifier_settings(), TEMPLATES)
    shown = DisplayData.create_from(verify).items
    assert {item.key: item.value for item in shown}["max_concurrency"] == flags.max_concurrency


@pytest.mark.parametrize("name", ["in.parquet", "in.jsonl", "in.jsonl.gz"])
def test_input_on_gs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Parquet and JSON lines, packed or not, are read from gs:// as from a disk."""
    row = {"id": "x", **RECORD}
    local = tmp_path / name
    if name.endswith("parquet"):
        write(local, [row])
    else:
        line = (json.dumps(row) + "\n").encode()
        local.write_bytes(gzip.compress(line) if name.endswith("gz") else line)
    with emulated_bucket(monkeypatch) as bucket:
        gcs.write_bytes(f"{bucket}/in/{name}", local.read_bytes())
        for source in (f"{bucket}/in/{name}", f"{bucket}/in/", f"{bucket}/**/in.*"):
            flags = {"input": source, "output": str(tmp_path / "out"), "overwrite": True}
            prepared = prepare_run(ScoreFlags(verifier="embedded", **flags))
            with beam.Pipeline(runner="FnApiRunner") as pipeline:
                build(pipeline, prepared)
            assert ids(tmp_path / "out") == Counter({"x": 1})
        missing = ScoreFlags(verifier="embedded", input=f"{bucket}/no/*.parquet", output="o")
        with pytest.raises(UsageError, match="no such file"):
            prepare_run(missing)
