"""The API key is nowhere but in the requests; what the log says of failures holds no content."""

import json
import logging
import traceback
from pathlib import Path
from typing import Any

import apache_beam as beam
import cloudpickle
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipeline.run import build, prepare_run
from pipeline.settings import ScoreFlags
from tests.pipeline.test_run import ids, run, write
from tests.support.scripted import Asked, RawServer, Says, raw_server, says_error
from transforms.verify import Verify

KEY = "marker-0123456789abcdef"
CONTENT = "Zanzibar"
ROWS = [
    {"id": f"r{i}", "document": f"{CONTENT} {i}", "output": f'{{"place": "{CONTENT} {i}"}}'}
    for i in range(4)
]


@pytest.fixture(autouse=True)
def everything_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    caplog.set_level(logging.DEBUG)


def settings(server: RawServer, folder: Path) -> dict[str, Any]:
    return {
        "verifier": server.target,
        "api_key_env": "THE_KEY",
        "cache": f"file:{folder}/cache",
        "verdicts": f"{folder}/log",
        "keep_replies": "full",
        "max_attempts": 2,
    }


def quotes_the_key(asked: Asked) -> Says | None:
    """Errors of several kinds that quote it; the last record is refused outright."""
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    quoted = f"you sent {asked.headers['Authorization']}, which is {KEY}"
    if f"{CONTENT} 3" in asked.text:
        return says_error(400, quoted)
    kinds = [says_error(500, quoted), Says(502, quoted.encode()), None, None, None]
    return kinds[asked.number % len(kinds)]


def files_with(folder: Path, word: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [str(path) for path in files if word.encode() in path.read_bytes()]


def logged(caplog: pytest.LogCaptureFixture) -> str:
    texts = [record.getMessage() for record in caplog.records]
    texts += [str(record.exc_info) for record in caplog.records if record.exc_info]
    return "\n".join(texts)


def test_a_run_leaves_no_key_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in outputs, dead letters, verdicts and cache, nor in any line of any log."""
    source = write(tmp_path / "in.parquet", ROWS)
    with raw_server(quotes_the_key) as server:
        run(source, tmp_path / "out", **settings(server, tmp_path))
    assert sorted(ids(tmp_path / "out")) == ["r0", "r1", "r2", "r3"]
    assert (tmp_path / "out" / "run.json").exists()
    assert (tmp_path / "cache").exists()
    assert not files_with(tmp_path, KEY)
    assert KEY not in logged(caplog)


def test_the_job_graph_holds_no_key(tmp_path: Path) -> None:
    """Nor does a pickled DoFn, also after it was set up."""
    source = write(tmp_path / "in.parquet", ROWS)
    with raw_server() as server:
        flags = ScoreFlags(
            input=str(source), output=str(tmp_path / "out"), **settings(server, tmp_path)
        )
        prepared = prepare_run(flags)
        pipeline = beam.Pipeline(runner=FnApiRunner())
        build(pipeline, prepared)
        proto = pipeline.to_runner_api().SerializeToString()
        dofn = Verify(prepared.verifier, prepared.templates)
        fresh = cloudpickle.dumps(dofn)
        dofn.setup()
        used = cloudpickle.dumps(dofn)
        dofn.teardown()
    assert server.url.encode() in fresh, "settings do travel"
    for data in (proto, fresh, used):
        assert KEY.encode() not in data


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_run_that_is_stopped_says_no_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """The server quotes it; the error and its traceback do not."""
    source = write(tmp_path / "in.parquet", ROWS)
    refusal = says_error(status, f"Incorrect API key provided: {KEY}")
    with raw_server(lambda _: refusal) as server, pytest.raises(Exception) as stopped:  # noqa: PT011 - runners wrap it
        run(source, tmp_path / "out", **settings(server, tmp_path))
    text = "".join(traceback.format_exception(stopped.value))
    assert "RunStoppedError" in text
    assert "[key]" in text
    assert KEY not in text
    assert KEY not in logged(caplog)
    assert not files_with(tmp_path, KEY)


def test_each_failure_is_one_line_without_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Record id, template, reason and attempt, as JSON; a retried attempt has a line of its own."""
    source = write(tmp_path / "in.parquet", ROWS[3:])
    with raw_server(lambda a: says_error(500, f"cannot read {a.text}")) as server:
        run(source, tmp_path / "out", **settings(server, tmp_path))
    lines = [r.getMessage() for r in caplog.records if r.name == "construct_beam.calls"]
    found = [json.loads(line) for line in lines]
    assert len(found) == 10
    assert {line["template"] for line in found} == {
        "document_critique", "fields_numeric", "fields_likert", "accuracy_audit",
        "confidence_audit",
    }  # fmt: skip
    assert {
        (f["event"], f["record_id"], f["reason"], f["attempt"], f["retried"]) for f in found
    } == {
        ("verifier_call_failed", "r3", "provider_error", 1, True),
        ("verifier_call_failed", "r3", "provider_error", 2, False),
    }
    assert CONTENT not in "".join(lines)
