"""Verifying a record over a real loopback server: retries, deadlines, limits, stops."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from schemas.errors import RunStoppedError
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.verdict import VerdictStatus
from scoring.templates import TemplateSet
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import (
    MODEL,
    Asked,
    Says,
    raw_server,
    scripted_server,
    target,
    until,
)
from verifier import backoff
from verifier.bad_answers import json_answer
from verifier.engine import Engine, close_engine, get_engine
from verifier.faults import FaultKind, Faults
from verifier.record_run import RecordRun
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.server import ChatServer, LocalServer
from verifier.settings import VerifierSettings

R = FailureReason
QUICK = {"attempt_timeout": 1.0, "call_timeout": 3.0, "record_timeout": 5.0, "max_attempts": 3}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backoff, "BASE_S", 0.01)
    yield
    close_engine()


def verifier(
    server: LocalServer, templates: TemplateSet = TEMPLATES, **settings: Any
) -> RecordVerifier:
    chosen = VerifierSettings(target=target(server), **{**QUICK, **settings})
    return RecordVerifier(get_engine(), chosen, templates)


def start(checker: RecordVerifier, one: Record) -> Future[Verified]:
    future: Future[Verified] = Future()

    def deliver(result: Verified | BaseException) -> None:
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    checker.post(prepare(one), deliver)
    return future


def verify(checker: RecordVerifier, *records: Record) -> list[Verified]:
    return [f.result(20) for f in [start(checker, r) for r in records]]


def one(i: int = 0) -> Record:
    return record({"a": i, "b": "x"}, id=f"r{i}")


def single(name: str) -> TemplateSet:
    return TemplateSet(templates=(TEMPLATES[name],))


def test_five_good_verdicts() -> None:
    """Each template gives one verdict with signals, tokens, model and latency."""
    with scripted_server() as (server, script):
        (result,) = verify(verifier(server), one())
    assert [v.template for v in result.verdicts] == list(TEMPLATES.names)
    assert all(v.status is VerdictStatus.OK for v in result.verdicts)
    assert all(v.model_asked == v.model_answered == MODEL for v in result.verdicts)
    assert all(v.usage.attempts == 1 and v.usage.prompt_tokens > 0 for v in result.verdicts)
    assert all(v.usage.latency_ms and v.arrived_at for v in result.verdicts)
    assert set(script.asked().values()) == {1}


@pytest.mark.parametrize(
    ("kind", "reason", "attempts"),
    [
        (FaultKind.SERVER_ERROR, R.PROVIDER_ERROR, 3),
        (FaultKind.ERROR_IN_200, R.PROVIDER_ERROR, 3),
        (FaultKind.GARBAGE, R.PROVIDER_ERROR, 3),
        (FaultKind.RESET, R.PROVIDER_ERROR, 3),
        (FaultKind.CUT_OFF, R.PROVIDER_ERROR, 3),
        (FaultKind.EMPTY, R.EMPTY_RESPONSE, 3),
        (FaultKind.TRUNCATED, R.TRUNCATED, 2),
        (FaultKind.REFUSAL, R.REFUSAL, 1),
        (FaultKind.CONTENT_FILTER, R.CONTENT_FILTER, 1),
        (FaultKind.UNPARSEABLE, R.UNPARSEABLE, 1),
    ],
)
def test_lasting_faults_become_verdicts(kind: FaultKind, reason: R, attempts: int) -> None:
    """What can pass is tried again within the limit, the rest is not; each has its reason."""
    with scripted_server(faults=Faults({kind: 1.0})) as (server, _):
        (result,) = verify(verifier(server), one())
    assert {v.reason for v in result.verdicts} == {reason}
    assert {v.usage.attempts for v in result.verdicts} == {attempts}
    assert all(not v.reading.has_signal for v in result.verdicts)


def test_passing_faults_are_retried_to_success() -> None:
    """Half of all requests fail; every verdict is good in the end, and attempts are counted."""
    faults = Faults({FaultKind.SERVER_ERROR: 0.25, FaultKind.RESET: 0.25}, seed=3)
    with scripted_server(faults=faults) as (server, _):
        checker = verifier(server, max_attempts=20, call_timeout=5.0)
        results = verify(checker, *(one(i) for i in range(8)))
        sent = server.stats.requests
    verdicts = [v for r in results for v in r.verdicts]
    assert all(v.status is VerdictStatus.OK for v in verdicts)
    assert sum(v.usage.attempts for v in verdicts) == sent > 40


def test_a_stalled_body_ends_within_the_attempts_deadline() -> None:
    """Headers came, the rest never does: timeout, retried within the call's deadline."""
    with scripted_server(faults=Faults({FaultKind.HANG: 1.0})) as (server, _):
        before = time.monotonic()
        (result,) = verify(
            verifier(server, attempt_timeout=0.2, call_timeout=1.0, max_attempts=2), one()
        )
        assert time.monotonic() - before < 3
    assert {v.reason for v in result.verdicts} == {R.TIMEOUT}
    assert {v.usage.attempts for v in result.verdicts} == {2}


def test_the_records_deadline_ends_all_calls_and_counts_their_attempts() -> None:
    """Calls that hang become timeouts at the record's deadline, and what was sent is counted."""
    with scripted_server(faults=Faults({FaultKind.HANG: 1.0})) as (server, _):
        checker = verifier(server, attempt_timeout=0.5, call_timeout=0.5, record_timeout=0.5)
        (result,) = verify(checker, one())
    assert {v.reason for v in result.verdicts} == {R.TIMEOUT}
    assert {v.usage.attempts for v in result.verdicts} == {1}


def test_a_cancelled_record_sends_nothing_more() -> None:
    """It was queued behind another; it ends at once, and its requests never go out."""

    def plan(asked: Asked) -> Says | None:
        return Says(ends="hang") if asked.number == 1 else None

    with raw_server(plan) as server:
        settings = VerifierSettings(
            target=server.target, **{**QUICK, "max_concurrency": 1, "attempt_timeout": 0.3}
        )
        checker = RecordVerifier(get_engine(), settings, single("fields_numeric"))
        first = start(checker, one(0))
        until(lambda: len(server.asked) == 1)
        dropped: Future[Verified | BaseException] = Future()
        checker.cancel(checker.post(prepare(one(1)), dropped.set_result))
        assert isinstance(dropped.result(5), RunStoppedError)
        assert [r.record.id for r in verify(checker, one(2))] == ["r2"]
        assert first.result(10).verdicts[0].usage.attempts == 2
        assert not any('{"a":1,' in a.text for a in server.asked)


class FakeLoop:
    """A clock that a test sets."""

    now = 0.0

    def time(self) -> float:
        return self.now


class HangingCall:
    """A call that only notes that it was given up."""

    given_up = False

    def queue(self) -> None:
        pass

    def give_up(self, _why: str) -> None:
        self.given_up = True


def test_time_before_and_after_a_wait_of_ours_adds_up() -> None:
    """A deadline of 10 s: 6 s, a long wait in our queue, 3 s, another wait, and 2 s are too late."""
    loop, call = FakeLoop(), HangingCall()
    run = RecordRun("r", 10, lambda *_: None, lambda *_: None, loop)  # type: ignore[arg-type]
    run.start([call])  # type: ignore[list-item]
    for counts, held in ((6, 500), (3, 500), (2, 0)):
        run.tick(loop.now)
        assert not call.given_up
        loop.now += counts
        run.tick(loop.now)
        run.hold()
        loop.now += held
        run.tick(loop.now)
        run.release()
    assert call.given_up


def test_time_in_our_own_queue_is_no_timeout() -> None:
    """One slot, many records: they wait far longer than their deadlines, and none times out."""
    with scripted_server(delay_ms=30) as (server, _):
        checker = verifier(
            server, max_concurrency=1, attempt_timeout=0.3, call_timeout=0.3, record_timeout=0.5
        )
        results = verify(checker, *(one(i) for i in range(8)))
        assert server.stats.peak_in_flight == 1
    assert all(v.status is VerdictStatus.OK for r in results for v in r.verdicts)


def test_the_servers_wait_is_kept() -> None:
    """Retry-After of half a second: the second attempt comes no sooner."""
    with scripted_server(faults=Faults({FaultKind.RATE_LIMIT: 0.5}, seed=1)) as (server, _):
        results = verify(
            verifier(server, max_attempts=9, call_timeout=20, record_timeout=20), one()
        )
    verdicts = results[0].verdicts
    assert all(v.status is VerdictStatus.OK for v in verdicts)
    assert any(v.usage.attempts > 1 for v in verdicts)


def test_a_wait_above_the_cap_is_not_slept_out() -> None:
    """The call ends at once with reason rate_limited."""
    with scripted_server(faults=Faults({FaultKind.RATE_LIMIT: 1.0})) as (server, _):
        checker = verifier(server, single("fields_numeric"), max_retry_wait=0.1)
        verdicts = [r.verdicts[0] for r in verify(checker, *(one(i) for i in range(4)))]
    assert {v.reason for v in verdicts} == {R.RATE_LIMITED}
    assert 1 in {v.usage.attempts for v in verdicts}


def test_a_bad_key_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """All records end with one error that names the URL; nothing more is sent; no key is shown."""
    monkeypatch.setenv("MARKER_KEY", "sk-marker-123")
    with scripted_server(faults=Faults({FaultKind.AUTH: 1.0})) as (server, _):
        checker = verifier(server, max_concurrency=2, api_key_env="MARKER_KEY")
        futures = [start(checker, one(i)) for i in range(20)]
        errors = [f.exception(10) for f in futures]
        sent = server.stats.requests
    assert all(isinstance(e, RunStoppedError) for e in errors)
    assert {str(e) for e in errors} == {str(errors[0])}
    assert server.base_url in str(errors[0])
    assert "sk-marker-123" not in str(errors[0])
    assert sent <= 4


def test_a_refused_parameter_is_dropped_once_and_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first record finds out; the second does not repeat the refused request."""
    from verifier import server as server_module

    def refuse(self: Any, request: dict[str, Any]) -> dict[str, Any]:
        if "temperature" in request:
            raise ValueError("temperature")
        return original(self, request)

    original = server_module.ChatServer._completion
    monkeypatch.setattr(server_module.ChatServer, "_completion", refuse)
    monkeypatch.setattr(
        server_module,
        "error_answer",
        lambda _status, message, code: json_answer(
            400, {"error": {"message": message, "type": code, "param": "temperature"}}
        ),
    )
    with scripted_server() as (server, script):
        checker = verifier(server, single("fields_numeric"))
        (first,) = verify(checker, one(1))
        (second,) = verify(checker, one(2))
    assert (first.verdicts[0].usage.attempts, second.verdicts[0].usage.attempts) == (2, 1)
    assert all("temperature" not in r for r in script.requests)


def test_a_cut_off_reply_is_asked_for_once_more_with_twice_the_room() -> None:
    """Without the cut text in the prompt; the second answer counts."""
    with scripted_server(faults=Faults({FaultKind.TRUNCATED: 0.5}, seed=2)) as (server, script):
        results = verify(verifier(server, single("fields_numeric")), *(one(i) for i in range(40)))
    by_attempts = {r.verdicts[0].usage.attempts: r.verdicts[0] for r in results}
    assert set(by_attempts) == {1, 2}
    limits = [r["max_tokens"] for r in script.requests]
    assert set(limits) == {min(limits), 2 * min(limits)}
    assert len({str(r["messages"]) for r in script.requests}) == 40
    assert any(
        r.verdicts[0].status is VerdictStatus.OK
        for r in results
        if r.verdicts[0].usage.attempts == 2
    )


def test_many_fields_are_asked_about_in_chunks() -> None:
    """Field-level templates get at most max_fields_per_call fields a call; all are scored."""
    wide = record({f"f{i}": i for i in range(25)})
    with scripted_server() as (server, script):
        (result,) = verify(verifier(server, max_fields_per_call=10), wide)
    assert script.asked() == {
        "document_critique": 1,
        "fields_numeric": 3,
        "fields_likert": 3,
        "accuracy_audit": 3,
        "confidence_audit": 3,
    }
    asked = [v.asked_fields for v in result.verdicts if v.template == "fields_numeric"]
    assert [len(fields) for fields in asked] == [10, 10, 5]


def test_what_is_sent_holds_the_record_and_no_ground_truth() -> None:
    """The request, schema and output are there as they came; the ground truth is not."""
    text = "Use {placeholder}, {{double}}, %s, ${x} and \\1 as is"
    checked = record({"a": "{document}"}, document=text, ground_truth={"a": "SECRET-TRUTH"})
    with scripted_server() as (server, script):
        verify(verifier(server), checked)
    for request in script.requests:
        sent = json.dumps(request)
        assert request["messages"][1]["content"].count(text) == 1
        assert '{"a":"{document}"}' in request["messages"][1]["content"]
        assert "SECRET-TRUTH" not in sent


def test_how_a_record_was_read_is_noted_with_its_verdicts() -> None:
    """An output that was a Python literal says so in every verdict."""
    with scripted_server() as (server, _):
        (result,) = verify(verifier(server), record("{'a': None}"))
    assert all("output was a Python literal, not JSON" in v.reading.notes for v in result.verdicts)


ODD = {"Total Amount (USD)": 1, "日期": "x", "tags[]": [], "k" * 70: 2}


def test_keys_that_a_provider_refuses_cost_only_their_own_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refused reply schema with odd keys steps down for that call alone; all fields are scored,
    under their own names, and the next record's schema is sent as before."""
    original = ChatServer._completion

    def strict(self: Any, request: dict[str, Any]) -> dict[str, Any]:
        wanted = request.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if any(
            not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key) for key in wanted.get("properties", {})
        ):
            raise BadRequestError("Invalid schema for response_format 'verdict'")
        return original(self, request)

    monkeypatch.setattr(ChatServer, "_completion", strict)
    monkeypatch.setattr("verifier.server.error_answer", refused)
    with scripted_server() as (server, script):
        checker = verifier(server, single("fields_numeric"))
        (odd,) = verify(checker, record(ODD))
        (plain,) = verify(checker, one(1))
    assert set(odd.verdicts[0].reading.field_scores) == set(ODD)
    assert odd.verdicts[0].usage.attempts == 2
    assert plain.verdicts[0].usage.attempts == 1
    assert script.requests[-1]["response_format"]["type"] == "json_schema"


class BadRequestError(Exception):
    """What the server under test answers with HTTP 400."""


def refused(_status: int, message: str, _code: str) -> Any:
    return json_answer(400, {"error": {"message": message, "type": "invalid_request_error"}})


def test_two_stages_share_the_limits_of_an_endpoint() -> None:
    """The smaller figure wins, and the server never sees more in flight."""
    with scripted_server(delay_ms=20) as (server, _):
        checkers = [verifier(server, max_concurrency=n) for n in (8, 3)]
        futures = [start(c, one(i)) for i in range(6) for c in checkers]
        assert all(f.result(20) for f in futures)
        assert server.stats.peak_in_flight == 3


def test_the_engine_stops_and_says_why() -> None:
    """Work under way is cancelled, new work refused; another engine starts clean."""
    with scripted_server(delay_ms=5000) as (server, _):
        future = start(verifier(server), one())
        engine: Engine = get_engine()
        engine.stop("enough")
        with pytest.raises(RunStoppedError, match="enough"):
            future.result(5)
        with pytest.raises(RunStoppedError, match="enough"):
            start(verifier(server), one())
        assert engine.fault() == "enough"
        close_engine()
        assert get_engine() is not engine
