"""The commands as a user runs them: real processes, real files."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import COMMAND, ROOT, construct_beam

RECORD = {
    "document": "Invoice 12 of ACME Ltd. Total 40.00 EUR.",
    "output": '{"vendor": "ACME Ltd", "total": "40.00"}',
}


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "in.parquet"
    rows = [{"id": f"r{i}", **RECORD} for i in range(60)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_score_prints_where_records_went(corpus: Path, tmp_path: Path) -> None:
    """A run ends with status 0, a summary, and no progress line where there is no terminal."""
    out = str(tmp_path / "out")
    done = construct_beam("score", "--input", str(corpus), "--output", out, "--verifier=embedded")
    assert done.returncode == 0, done.stderr
    assert "Literal evidence, no LLM: blind to swapped fields and wrong spans" in done.stdout
    assert "60 records" in done.stdout
    assert "uncalibrated defaults" in done.stdout
    assert "records/s" not in done.stderr


def test_rescore_gives_the_scores_of_the_run(corpus: Path, tmp_path: Path) -> None:
    """Scoring again from the verdict log gives equal scores and routes, without a call."""
    out, again = tmp_path / "out", tmp_path / "again.jsonl"
    common = ["--verifier=embedded", "--accept_literal_evidence", f"--verdicts={out}/verdicts"]
    done = construct_beam("score", f"--input={corpus}", f"--output={out}", *common)
    assert done.returncode == 0, done.stderr
    done = construct_beam(
        "rescore", f"--verdicts={out}/verdicts", f"--output={again}", "--accept_literal_evidence"
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in again.read_text("utf-8").splitlines()]
    rows = [row for p in out.glob("*_*/*.parquet") for row in pq.read_table(p).to_pylist()]
    keys = ("trustworthiness_score", "route", "trustworthiness_explanation")
    assert len(lines) == 60
    assert {x["id"]: [x[k] for k in keys] for x in lines} == {
        row["id"]: [row[k] for k in keys] for row in rows
    }


def test_rescore_replies(tmp_path: Path) -> None:
    """Raw replies give scores; a reply that is not there is left out and noticed by routing."""
    line = {
        "id": "x",
        "output": {"a": 1},
        "replies": {
            "accuracy_audit": '{"explanation": "e", "incorrect_fields": [], "confidence_score": 90}'
        },
    }
    path = tmp_path / "replies.jsonl"
    path.write_text(json.dumps(line) + "\n\n", "utf-8")
    done = construct_beam("rescore", f"--replies={path}")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["id"], row["trustworthiness_score"]) == ("x", 0.9)
    assert row["per_field_scores"] == [{"field": "a", "score": 0.999, "explanation": None}]
    assert row["review_reasons"] == ["too_few_verdicts", "thin_field:a"]


def test_rescore_diff_writes_only_what_is_decided_otherwise(tmp_path: Path) -> None:
    """Both decisions of each record that changes, and the counts; a bad policy touches no file."""
    replies = {
        "accuracy_audit": {"explanation": "e", "incorrect_fields": [], "confidence_score": 90}
    }
    lines = [{"id": i, "output": {"a": None if i else 1}, "replies": replies} for i in range(3)]
    source, policy, out = tmp_path / "r.jsonl", tmp_path / "p.yaml", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    policy.write_text("accept: {required: [a]}", "utf-8")
    common = ["rescore", f"--replies={source}", f"--output={out}", "--diff=default"]
    done = construct_beam(*common, f"--policy={policy}")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["1", "2"]
    added = set(rows[0]["new"]["review_reasons"]) - set(rows[0]["old"]["review_reasons"])
    assert added == {"required_field_missing:a"}
    assert "2 of 3 records are decided otherwise" in done.stderr
    before = out.read_bytes()
    assert construct_beam(*common, f"--policy={tmp_path}/none").returncode == 2
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not JSON"),
        ('{"output": {"a": 1}}', "line 2 must be"),
        ('{"output": {"a": 1}, "replies": {"nope": "x"}}', "line 2: nope is none of"),
        ('{"output": "{", "replies": {}}', "line 2: output is not JSON"),
    ],
)
def test_rescore_names_the_bad_line(tmp_path: Path, line: str, message: str) -> None:
    """A line that is not as documented is named, with what is wrong."""
    path = tmp_path / "replies.jsonl"
    path.write_text('{"output": {"a": 1}, "replies": {}}\n' + line + "\n", "utf-8")
    done = construct_beam("rescore", f"--replies={path}")
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "missing.parquet"], "--input missing.parquet: no such file"),
        (["--input", "{tmp}/*.nothing"], "no such file"),
        (["--input", "{corpus}", "--policy", "none.yaml"], "--policy none.yaml cannot be read"),
        (["--input", "{corpus}", "--templates", "none"], "--templates none: no such folder"),
        (["--input", "{corpus}", "--verifier", "gpt-4"], "--verifier 'gpt-4' is not understood"),
        (["--input", "{corpus}", "--verifier", "openai:m"], "OPENAI_API_KEY is not set"),
        (["--input", "{corpus}", "--output", "{corpus}"], "in.parquet cannot be used"),
    ],
)
def test_errors_name_the_thing_and_the_remedy(
    corpus: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    """Status 2 and one clear line, no traceback."""
    given = [a.format(tmp=tmp_path, corpus=corpus) for a in arguments]
    verifier = [] if "--verifier" in given else ["--verifier=embedded"]
    environment = {k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"}
    output = [] if "--output" in given else [f"--output={tmp_path / 'out'}"]
    done = construct_beam("score", *given, *verifier, *output, env=environment)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def _base_url(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    match = re.match(r"--verifier (\S+)", server.stdout.readline())
    assert match is not None
    return match[1]


def _wait_for_requests(verifier: str) -> None:
    """Until the server that a `--verifier=URL` flag names has seen a request."""
    url = verifier.removeprefix("--verifier=").replace("/v1", "/health").split("#")[0]
    for _ in range(600):
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - loopback
            if json.load(answer)["requests"]:
                return
        time.sleep(0.1)
    raise AssertionError("no request was sent")


def test_the_verifier_alone_serves_a_run(corpus: Path, tmp_path: Path) -> None:
    """`construct-beam verifier` is an endpoint like any other; Ctrl-C ends it with status 0."""
    out = tmp_path / "out"
    with started("verifier", "--port=0", "--fault=rate_limit:0.0") as server:
        url = _base_url(server)
        arguments = (f"--input={corpus}", f"--output={out}", "--cache=none", "--verifier", url)
        done = construct_beam("score", *arguments)
        assert done.returncode == 0, done.stderr
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 0
    summary = json.loads((out / "run.json").read_text("utf-8"))
    assert summary["calls"] == 300
    assert summary["review_reasons"] == {"literal_evidence_only": 60}


def test_a_bad_key_stops_the_run_with_one_error(corpus: Path, tmp_path: Path) -> None:
    """Status 1 and the endpoint's words; no record is scored, nothing is a dead letter."""
    with started("verifier", "--port=0", "--fault=auth:1") as server:
        url = _base_url(server)
        out = tmp_path / "out"
        done = construct_beam("score", f"--input={corpus}", f"--output={out}", "--verifier", url)
    assert done.returncode == 1
    assert "auth" in done.stderr.splitlines()[-1]
    assert not (out / "run.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_within_seconds_and_says_what_was_done(
    corpus: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """A run against a slow verifier ends soon after the signal, with counts and status 130."""
    out = tmp_path / "out"
    with started("verifier", "--port=0", "--delay_ms=1500") as server:
        flags = [f"--input={corpus}", f"--output={out}", f"--verifier={_base_url(server)}"]
        with started("score", *flags, "--max_concurrency=5") as run:
            _wait_for_requests(flags[2])
            assert run.poll() is None
            run.send_signal(number)
            before = time.monotonic()
            _, errors = run.communicate(timeout=20)
            assert run.returncode == 130
            assert time.monotonic() - before < 10
    assert re.search(r"stopped: \d+ of 60 records were verified with \d+ calls", errors)
    assert "Traceback" not in errors
    assert not (out / "run.json").exists()
