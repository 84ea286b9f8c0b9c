"""export-batch and import-batch as a user runs them: real processes, real files."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.batch import answered, request_lines, result_line, write_lines
from tests.support.command import COMMAND, ROOT, construct_beam
from tests.support.scripted import says_good

RECORD = {
    "document": "Invoice 12 of ACME Ltd. Total 40.00 EUR.",
    "output": '{"vendor": "ACME Ltd", "total": "40.00"}',
}


def without_key(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, without a key."""
    environment = {k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"}
    return construct_beam(*arguments, env=environment)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "in.parquet"
    rows = [{"id": f"r{i}", **RECORD} for i in range(6)]
    pq.write_table(pa.Table.from_pylist([*rows, {"id": "bad", **RECORD, "output": "{"}]), path)
    return path


def test_export_then_import(corpus: Path, tmp_path: Path) -> None:
    """No key is needed; both say what was done and what to do next; every record is placed."""
    batch, out = tmp_path / "batch", tmp_path / "out"
    done = without_key(
        "export-batch", f"--input={corpus}", f"--output={batch}", "--verifier=openai:gpt-x"
    )
    assert done.returncode == 0, done.stderr
    assert "7 records from" in done.stdout
    assert "6  with 30 requests in 1 file " in done.stdout
    assert "1  dead letter" in done.stdout
    assert f"import-batch --batch {batch}" in done.stdout
    results = write_lines(tmp_path / "results.jsonl", answered(batch)[0])
    done = without_key(
        "import-batch", f"--batch={batch}", f"--results={results}", f"--output={out}"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "30 results, 0 requests without one" in done.stdout
    assert "6  auto accept" in done.stdout
    assert "1  dead letter" in done.stdout
    summary = json.loads((out / "run.json").read_text("utf-8"))
    assert summary["placed"] == {"auto_accept": 6, "human_review": 0, "dead_letter": 1}
    assert summary["settings"]["export"]["verifier"] == "openai:gpt-x"


def test_a_partial_batch(corpus: Path, tmp_path: Path) -> None:
    """With --rest nothing is placed, status 1, and a second upload completes it; without, what is
    missing counts as failed, with a warning."""
    batch, out, rest = tmp_path / "batch", tmp_path / "out", tmp_path / "rest"
    done = without_key(
        "export-batch", f"--input={corpus}", f"--output={batch}", "--verifier=openai:gpt-x"
    )
    assert done.returncode == 0, done.stderr
    first = write_lines(tmp_path / "results" / "first.jsonl", answered(batch)[0][:-4])
    arguments = ["import-batch", f"--batch={batch}", f"--results={first.parent}", f"--output={out}"]
    done = without_key(*arguments, f"--rest={rest}")
    assert done.returncode == 1
    assert "4 requests lack an answer (4 no_result); nothing was placed" in done.stderr
    assert not out.exists()
    lines = [result_line(r, says_good(r["body"])) for r in request_lines(rest)]
    assert len(lines) == 4
    done = without_key(*arguments)
    assert done.returncode == 0, done.stderr
    assert "4 requests have no result" in done.stderr
    assert "1  human review" in done.stdout
    write_lines(first.parent / "second.jsonl", lines)
    done = without_key(*arguments, f"--rest={rest}", "--overwrite")
    assert done.returncode == 0, done.stderr
    assert "6  auto accept" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export-batch", "--output=o"], "--input is needed; --verifier is needed"),
        (["export-batch", "--input=x", "--output=o", "--verifier=embedded"], "no batch mode"),
        (["import-batch", "--batch=no", "--results=r", "--output=o"], "no finished export"),
        (["import-batch", "--output=o"], "--batch is needed; --results is needed"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    """Status 2 and one line that says what to do."""
    done = without_key(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_flag_leaves_a_finished_export_alone(corpus: Path, tmp_path: Path) -> None:
    """Flags are checked before the output folder is emptied."""
    batch = tmp_path / "batch"
    arguments = ["export-batch", f"--input={corpus}", f"--output={batch}", "--verifier=openai:x"]
    assert without_key(*arguments).returncode == 0
    done = without_key(*arguments, "--overwrite", "--max_request_per_file=5")
    assert done.returncode == 2
    assert "did you mean --max_requests_per_file?" in done.stderr
    assert (batch / "batch.json").exists()


def test_ctrl_c_ends_an_export_which_then_begins_anew(tmp_path: Path) -> None:
    """Status 130 within seconds and no batch.json; the same command again completes."""
    source, batch = tmp_path / "in.parquet", tmp_path / "batch"
    rows = [{"id": f"r{i}", **RECORD, "document": f"{i} " + "word " * 500} for i in range(20_000)]
    pq.write_table(pa.Table.from_pylist(rows), source)
    arguments = ["export-batch", f"--input={source}", f"--output={batch}", "--verifier=openai:x"]
    process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    for _ in range(600):
        if list((batch / "partial").glob("*.jsonl")):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said == "stopped: nothing is finished. The same command starts again.\n"
    assert list((batch / "partial").iterdir())
    assert not (batch / "batch.json").exists()
    assert not list((batch / "requests").iterdir())
    pq.write_table(pa.Table.from_pylist(rows[:10]), source)
    done = without_key(*arguments)
    assert done.returncode == 0, done.stderr
    assert len(request_lines(batch)) == 50
    assert not list((batch / "partial").iterdir())
