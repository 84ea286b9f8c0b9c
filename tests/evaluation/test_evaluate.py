"""A scored run and what is right: items, groups, templates, and the command."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluation.agreement import Comparisons
from evaluation.evaluate import evaluate
from evaluation.items import (
    DocumentItem,
    MissingGold,
    document_item,
    read_documents,
    read_rows,
    scored_files,
    truth_by_gold,
    truth_by_labels,
)
from evaluation.labels import Label, read_labels, write_labels
from schemas.errors import UsageError
from tests.support.command import construct_beam


def row(name: str, output: Any, gold: Any, scores: dict[str, float | None], **more: Any) -> Any:
    fields = [
        {"field": f, "score": s, "explanation": None, "evidence": None} for f, s in scores.items()
    ]
    known = [s for s in scores.values() if s is not None]
    return {
        "id": name,
        "document": "d" * 10,
        "output": json.dumps(output),
        "ground_truth": None if gold is None else json.dumps(gold),
        "trustworthiness_score": sum(known) / len(known) if known else None,
        "per_field_scores": fields,
        "signals": {"n_verdicts": 5},
        "route": "auto_accept",
        "review_probability": 0.0,
        **more,
    }


ROWS = [
    row("r0", {"a": "x", "b": 1}, {"a": "X", "b": 1}, {"a": 0.9, "b": 0.8}),
    row("r1", {"a": "x", "b": 1}, {"a": "y", "b": 1}, {"a": 0.2, "b": 0.7}),
    row("r2", {"a": "x", "b": None}, {"a": "x", "b": 5}, {"a": 0.6, "b": 0.3}, route="human_review"),
    row("r3", {"a": "x"}, None, {"a": 0.5}),
    row("r4", {"a": "x", "b": 2}, {"a": "x"}, {"a": 0.9, "b": None}),
]  # fmt: skip


def documents(missing: MissingGold = MissingGold.EXCLUDE) -> list[DocumentItem]:
    return list(read_documents(ROWS, truth_by_gold(Comparisons(), missing)))


def scored_run(folder: Path) -> Path:
    for route in ("auto_accept", "human_review"):
        rows = [r for r in ROWS if r["route"] == route]
        (folder / route).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / route / "part-0.parquet")
    return folder


def test_what_is_right_by_gold() -> None:
    """A field without gold is left out, or one that should be null; a record without it, whole."""
    found = {d.id: {f.name: f.correct for f in d.fields} for d in documents()}
    assert found == {
        "r0": {"a": True, "b": True},
        "r1": {"a": False, "b": True},
        "r2": {"a": True, "b": False},
        "r3": {},
        "r4": {"a": True},
    }
    strict = {d.id: {f.name: f.correct for f in d.fields} for d in documents(MissingGold.NULL)}
    assert strict["r4"] == {"a": True, "b": False}


def test_what_is_right_by_labels() -> None:
    """What is not labelled is not known."""
    item = document_item(ROWS[0], truth_by_labels({("r0", "b"): False, ("r1", "a"): True}), 4.0)
    assert [(f.name, f.correct) for f in item.fields] == [("b", False)]
    assert (item.weight, item.correct) == (4.0, False)


def test_the_figures_of_a_small_run() -> None:
    """Four documents of which two are wrong, seven fields of which two are."""
    result = evaluate(documents(), replicates=200)
    assert (result["records"], result["without_truth"]) == (5, 1)
    assert (result["documents"]["items"], result["documents"]["errors"]) == (4, 2)
    assert (result["fields"]["items"], result["fields"]["errors"]) == (7, 2)
    assert result["documents"]["auroc"]["value"] == 1.0
    assert result["fields"]["auroc"]["value"] == 1.0
    assert result["fields"]["error_rate"]["low"] <= 2 / 7 <= result["fields"]["error_rate"]["high"]
    assert result["accepted"]["documents"] == 3
    assert result["accepted"]["incorrect_documents"] == 1
    by_field = {g["group"]: g["errors"] for g in result["groups"]["fields"]["field"]}
    assert by_field == {"a": 1, "b": 1}
    json.dumps(result, allow_nan=False)
    assert evaluate(documents(), replicates=200) == result


@pytest.mark.parametrize("chosen", [[0], [1], [0, 4], []])
def test_runs_without_errors_or_with_nothing_else(chosen: list[int]) -> None:
    """Figures are null, never NaN, and nothing raises."""
    some = [documents()[i] for i in chosen]
    result = evaluate(some, replicates=20)
    assert result["documents"]["auroc"]["value"] is None
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
def test_label_files(tmp_path: Path, suffix: str) -> None:
    """In each form; the weight is 1 unless given."""
    path = tmp_path / f"labels.{suffix}"
    labels = [Label("r0", "a", True, 2.5), Label("r0", "b", False)]
    if suffix == "parquet":
        write_labels(str(path), labels)
    elif suffix == "jsonl":
        path.write_text(
            '{"id": "r0", "field": "a", "correct": true, "weight": 2.5}\n\n'
            '{"id": "r0", "field": "b", "correct": false}\n'
        )
    else:
        path.write_text("id,field,correct,weight\nr0,a,true,2.5\nr0,b,No,\n")
    assert read_labels(str(path)) == labels


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "r", "correct": true}', "row 1 lacks field"),
        ('{"id": "r", "field": "a", "correct": "maybe"}', "'maybe', not true or false"),
        ('{"id": "r", "field": "a", "correct": true, "weight": -1}', "weight is -1"),
        ("[1]", "row 1 is no object"),
        ("{", "cannot be read as labels"),
    ],
)
def test_labels_that_are_refused(tmp_path: Path, line: str, words: str) -> None:
    """With the file and the row."""
    path = tmp_path / "labels.jsonl"
    path.write_text(line)
    with pytest.raises(UsageError, match=words):
        read_labels(str(path))


def test_a_run_is_read_from_its_folder(tmp_path: Path) -> None:
    """Both routes; a folder without any, and a file that is not scored, are refused."""
    files = scored_files(str(scored_run(tmp_path / "run")))
    assert sorted(r["id"] for r in read_rows(files)) == ["r0", "r1", "r2", "r3", "r4"]
    with pytest.raises(UsageError, match="no scored Parquet files"):
        scored_files(str(tmp_path / "none"))
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"id": ["r"]}), plain)
    with pytest.raises(UsageError, match="it lacks output"):
        list(read_rows([str(plain)]))


def test_the_command(tmp_path: Path) -> None:
    """A table for a person, JSON for a program; another gold file, and rules by field."""
    run = scored_run(tmp_path / "run")
    gold = tmp_path / "gold.parquet"
    pq.write_table(
        pa.table({"id": ["r0", "r1"], "ground_truth": ['{"a": "z"}', '{"a": "x"}']}), gold
    )
    out = tmp_path / "eval.json"
    done = construct_beam(
        "evaluate", str(run), f"--ground_truth={gold}", "--compare=a=exact", "--replicates=10",
        f"--json={out}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 documents, 1 of them incorrect" in done.stdout
    result = json.loads(out.read_text())
    assert result["without_truth"] == 3
    assert result["documents"]["auroc"]["value"] == 0.0
    for wrong, words in (
        ([str(tmp_path / "no")], "no scored Parquet files"),
        ([str(run), "--compare=a=odd"], "--compare a=odd"),
        ([str(run), "--labels=x.csv"], "cannot be read as labels"),
    ):
        done = construct_beam("evaluate", *wrong)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
