"""One call against a real server: what is sent, how often, when it waits, and when it stops."""

import gc
import json
import random
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import RunStoppedError
from schemas.reasons import FailureReason as R
from schemas.record import Record
from schemas.verdict import Verdict, VerdictStatus
from scoring.templates import TemplateSet
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import (
    MODEL,
    Asked,
    Plan,
    RawServer,
    Says,
    raw_server,
    says_error,
    says_text,
    until,
)
from verifier.attempt import Attempt
from verifier.call import Call
from verifier.caller import FORBIDDEN_RECORDS, Caller
from verifier.endpoint import Endpoint
from verifier.engine import get_engine
from verifier.fault import Action, Fault
from verifier.hedge import Hedge
from verifier.patience import Patience
from verifier.record_run import RecordRun
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.request import Dialect
from verifier.settings import VerifierSettings
from verifier.shared_replies import Share

KEY = "sk-marker-555"
ONE_TEMPLATE = TemplateSet(templates=(TEMPLATES["fields_numeric"],))
QUICK = {"attempt_timeout": 2.0, "call_timeout": 4.0, "record_timeout": 6.0, "max_attempts": 4}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verifier.backoff.BASE_S", 0.01)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float | None]]:
    """(attempt, wait that the server asked for) of each retry; none takes long."""
    seen: list[tuple[int, float | None]] = []

    def short_wait(attempt: int, asked: float | None, _rng: random.Random) -> float:
        seen.append((attempt, asked))
        return 0.001

    monkeypatch.setattr("verifier.caller.retry_wait", short_wait)
    return seen


def checker(
    server: RawServer, templates: TemplateSet = ONE_TEMPLATE, **more: Any
) -> RecordVerifier:
    settings = VerifierSettings(target=server.target, **{**QUICK, **more})
    return RecordVerifier(get_engine(), settings, templates)


def start(verifier: RecordVerifier, one: Record) -> Future[Verified | BaseException]:
    done: Future[Verified | BaseException] = Future()
    verifier.post(prepare(one), done.set_result)
    return done


def verdicts(verifier: RecordVerifier, *records: Record) -> list[Verdict]:
    results = [done.result(20) for done in [start(verifier, r) for r in records]]
    assert all(isinstance(r, Verified) for r in results), results
    return [v for r in results if isinstance(r, Verified) for v in r.verdicts]


def verdict(plan: Plan, **more: Any) -> tuple[Verdict, RawServer]:
    """What becomes of one call on one record."""
    with raw_server(plan) as server:
        (got,) = verdicts(checker(server, **more), one())
    return got, server


def one(number: int = 0) -> Record:
    return record({"a": number}, id=f"r{number}")


def first(*answers: Says) -> Plan:
    """These answers, one a request; then good ones."""
    return lambda asked: answers[asked.number - 1] if asked.number <= len(answers) else None


def outcome(got: Verdict) -> tuple[R | None, int]:
    return got.reason, got.usage.attempts


@pytest.mark.parametrize(
    "failure",
    [
        Says(500, b"<html>oops</html>"),
        Says(503, {}, {"Retry-After": "0"}),
        Says(408),
        Says(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}),
        Says(200, b"\n\n \n"),
        Says(200, b"<html>busy</html>"),
        Says(200, {"choices": []}),
        Says(200, {"choices": None}),
        Says(200, {"error": {"message": "upstream", "code": 502}}),
        Says(200, b'{"choices": [', ends="cut"),
        Says(200, b"", ends="cut"),
    ],
    ids=lambda s: f"{s.status}-{s.ends}-{s.data[:12]!r}",
)
def test_what_can_pass_is_tried_again(failure: Says, waits: list[tuple[int, float | None]]) -> None:
    """Two failures, then a good reply: one verdict, three attempts."""
    got, server = verdict(first(failure, failure))
    assert outcome(got) == (None, 3)
    assert len(server.asked) == 3
    assert [attempt for attempt, _ in waits] == [1, 2]
    assert len({asked.raw for asked in server.asked}) == 1


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (says_error(400, "bad request"), R.BAD_REQUEST),
        (says_error(422, "nope"), R.BAD_REQUEST),
        (says_error(400, "prompt is too long: 210000 tokens"), R.CONTEXT_LENGTH_EXCEEDED),
        (Says(413, b"<html>Request Entity Too Large</html>"), R.CONTEXT_LENGTH_EXCEEDED),
        (says_error(400, "It was filtered", code="content_filter"), R.CONTENT_FILTER),
        (Says(body={"choices": [{"finish_reason": "SAFETY", "message": None}]}), R.CONTENT_FILTER),
        (Says(body={"choices": [{"message": {"refusal": "I can't."}}]}), R.REFUSAL),
        (says_text("It looks fine to me."), R.UNPARSEABLE),
    ],
)
def test_what_will_not_pass_is_sent_once(failure: Says, reason: R) -> None:
    """It is about this record: a failed verdict, and the run goes on."""
    with raw_server(lambda asked: failure if '{"a":3}' in asked.text else None) as server:
        verifier = checker(server)
        got = verdicts(verifier, *(one(i) for i in range(6)))
        assert len(server.asked) == 6
    assert [v.reason for v in got] == [reason if i == 3 else None for i in range(6)]
    assert not got[3].reading.has_signal
    assert get_engine().fault() is None


@pytest.mark.parametrize(
    ("headers", "body", "asked"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, {}, 1.5),
        ({"Retry-After": "Wed, 31 Dec 2025 23:00:00 GMT"}, {}, None),
        ({"Retry-After": "soon"}, {}, None),
        ({"x-ratelimit-reset-tokens": "250ms"}, {}, 0.25),
        ({}, {"error": {"message": "x", "details": [{"retryDelay": "3s"}]}}, 3.0),
    ],
)
def test_the_wait_that_a_server_asks_for_reaches_the_backoff(
    headers: dict[str, str],
    body: Any,
    asked: float | None,
    waits: list[tuple[int, float | None]],
) -> None:
    """From whichever header it comes; nonsense is our own backoff."""
    got, _ = verdict(first(Says(429, body, headers)))
    assert outcome(got) == (None, 2)
    assert waits == [(1, asked)]


@pytest.mark.parametrize("asked", ["86400", "9999999999", "1e300", "30.001"])
def test_a_wait_above_the_cap_is_not_slept_out(asked: str) -> None:
    """The call ends at once, says what was asked for, and others go on."""
    too_long = Says(429, says_error(429, "busy").body, {"Retry-After": asked})
    with raw_server(first(too_long)) as server:
        verifier = checker(server, max_retry_wait=30.0)
        (limited,) = verdicts(verifier, one())
        (good,) = verdicts(verifier, one(1))
    assert outcome(limited) == (R.RATE_LIMITED, 1)
    assert limited.detail is not None
    assert f"asks to wait {float(asked):.12g} s" in limited.detail
    assert good.status is VerdictStatus.OK


def test_a_wait_that_outlasts_the_call_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries, with the waits before them, count for the call's deadline."""
    monkeypatch.setattr("verifier.caller.retry_wait", lambda *_: 4.0)
    got, server = verdict(lambda _: Says(500), call_timeout=4.0)
    assert outcome(got) == (R.PROVIDER_ERROR, 1)
    assert len(server.asked) == 1


def test_waits_add_up_to_the_calls_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many attempts are allowed."""
    monkeypatch.setattr("verifier.caller.retry_wait", lambda *_: 0.1)
    got, server = verdict(
        lambda _: Says(500), attempt_timeout=0.35, call_timeout=0.35, max_attempts=99
    )
    assert got.reason is not None
    assert got.usage.attempts == len(server.asked) <= 4


def test_a_body_that_stalls_is_a_timeout(waits: list[tuple[int, float | None]]) -> None:
    """Headers and some bytes came: the attempt ends, is tried again, and the rest is not held up."""

    def plan(asked: Asked) -> Says | None:
        return Says(body=b'{"choices": [', ends="hang") if '{"a":0}' in asked.text else None

    with raw_server(plan) as server:
        verifier = checker(server, attempt_timeout=0.4, max_attempts=2)
        stalled = start(verifier, one(0))
        assert all(v.status is VerdictStatus.OK for v in verdicts(verifier, *map(one, range(1, 9))))
        result = stalled.result(10)
    assert isinstance(result, Verified)
    assert outcome(result.verdicts[0]) == (R.TIMEOUT, 2)
    assert waits == [(1, None)]


def test_an_answer_that_trickles_cannot_outlast_the_attempt() -> None:
    """Time counts from the start of the attempt, whatever bytes keep coming."""
    got, _ = verdict(lambda _: Says(ends="trickle"), attempt_timeout=0.15, max_attempts=1)
    assert outcome(got) == (R.TIMEOUT, 1)
    assert got.usage.latency_ms is not None
    assert got.usage.latency_ms > 149


def test_the_last_attempt_gets_only_what_is_left_of_the_call(
    waits: list[tuple[int, float | None]],
) -> None:
    """Attempts of 0.3 s within 0.4 s: no third one."""
    got, server = verdict(
        lambda _: Says(ends="hang"), attempt_timeout=0.3, call_timeout=0.4, max_attempts=9
    )
    assert got.reason is R.TIMEOUT
    assert got.usage.attempts == len(server.asked) <= 2


def test_no_connection_is_a_provider_error(waits: list[tuple[int, float | None]]) -> None:
    """Nobody listens there: retried within the limit, and the port is named."""
    with raw_server() as server:
        pass
    (got,) = verdicts(checker(server), one())
    assert outcome(got) == (R.PROVIDER_ERROR, 4)
    assert got.detail is not None
    assert "Cannot connect" in got.detail


def dialect_of(asked: Asked) -> tuple[str | None, bool, str | None]:
    """response_format's type, whether a temperature is sent, and what the limit is called."""
    limits = [k for k in asked.body if k.startswith("max_")]
    kind = asked.body.get("response_format", {}).get("type")
    return kind, "temperature" in asked.body, limits[0] if limits else None


def refuse_structure(asked: Asked) -> Says | None:
    if "response_format" in asked.body:
        return says_error(400, "This response_format type is unavailable now")
    return None


def refuse_all_parameters(asked: Asked) -> Says | None:
    """An endpoint that knows none of them but max_completion_tokens."""
    if "max_tokens" in asked.body:
        text = "'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        return says_error(400, text, param="max_tokens")
    if "temperature" in asked.body:
        return says_error(400, "'temperature' does not support 0", param="temperature")
    return refuse_structure(asked)


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        (
            refuse_structure,
            [
                ("json_schema", True, "max_tokens"),
                ("json_object", True, "max_tokens"),
                (None, True, "max_tokens"),
            ],
        ),
        (
            refuse_all_parameters,
            [
                ("json_schema", True, "max_tokens"),
                ("json_schema", True, "max_completion_tokens"),
                ("json_schema", False, "max_completion_tokens"),
                ("json_object", False, "max_completion_tokens"),
                (None, False, "max_completion_tokens"),
            ],
        ),
    ],
)
def test_what_was_learned_is_not_asked_again(plan: Plan, steps: list[Any]) -> None:
    """The first record finds out step by step; the next starts where that ended."""
    with raw_server(plan) as server:
        verifier = checker(server)
        (learning,) = verdicts(verifier, one(0))
        assert [dialect_of(a) for a in server.asked] == steps
        (knowing,) = verdicts(checker(server), one(1))
        assert dialect_of(server.asked[-1]) == steps[-1]
    assert outcome(learning) == (None, len(steps))
    assert outcome(knowing) == (None, 1)


def test_a_late_refusal_does_not_undo_what_was_learned_since() -> None:
    """It is about a request of before; the call is sent again in the dialect of now."""
    refused = Fault(Action.ADAPT, R.BAD_REQUEST, "", parameter="response_format")
    settings = VerifierSettings(target="http://h.example#m", **QUICK)
    caller = Caller(get_engine(), Endpoint("http://h.example", "m", None), settings)
    known = [Dialect()]
    for _ in range(2):
        assert caller.adapt(refused, known[-1])
        known.append(caller.dialect)
    assert [d.structure for d in known] == [2, 1, 0]
    assert caller.adapt(refused, known[0])
    assert caller.dialect == known[2]
    assert not caller.adapt(refused, known[2])


def test_another_model_on_the_endpoint_learns_for_itself() -> None:
    """What one model refused may be fine for the next."""

    def plan(asked: Asked) -> Says | None:
        return refuse_structure(asked) if asked.body["model"] == MODEL else None

    with raw_server(plan) as server:
        verdicts(checker(server), one(0))
        other = VerifierSettings(target=f"{server.url}#other", **QUICK)
        verdicts(RecordVerifier(get_engine(), other, ONE_TEMPLATE), one(1))
        assert dialect_of(server.asked[-1])[0] == "json_schema"


def test_calls_that_learn_at_the_same_time_agree() -> None:
    """Many in flight are refused together: each is sent once more for each step, no further."""
    with raw_server(refuse_structure) as server:
        got = verdicts(checker(server), *map(one, range(20)))
        assert all(v.status is VerdictStatus.OK for v in got)
        assert max(v.usage.attempts for v in got) <= 3
        assert len(server.asked) <= 60


@pytest.mark.parametrize("fields", [{"a": 1}, {"Total (USD)": 1}, {f"f{i}": i for i in range(40)}])
@pytest.mark.parametrize(
    "text", ["response_format is broken", "temperature is broken", "max_tokens is broken"]
)
def test_a_refusal_that_adapting_does_not_cure_ends(fields: dict[str, Any], text: str) -> None:
    """bad_request after the few steps there are, also for names that a schema may choke on."""
    with raw_server(lambda _: says_error(400, text)) as server:
        (got,) = verdicts(checker(server, call_timeout=2.0, attempt_timeout=1.0), record(fields))
        assert len(server.asked) <= 4
    assert got.reason is R.BAD_REQUEST


def refuse_structure_first(asked: Asked) -> Says | None:
    return refuse_structure(asked) or refuse_all_parameters(asked)


@pytest.mark.parametrize(("fields", "attempts"), [({"a": 1}, 5), ({"Total (USD)": 1}, 6)])
@pytest.mark.parametrize("plan", [refuse_all_parameters, refuse_structure_first])
def test_odd_names_and_refused_parameters_together(
    fields: dict[str, Any], attempts: int, plan: Plan
) -> None:
    """A call that gave up its schema still learns what else is refused; aliases are tried first."""
    with raw_server(plan) as server:
        verifier = checker(server, call_timeout=2.0, attempt_timeout=1.0)
        (got,) = verdicts(verifier, record(fields))
        assert outcome(got) == (None, attempts)
        (again,) = verdicts(verifier, record({**fields, "b": 2}))
        assert again.usage.attempts <= 3


def test_a_generic_refusal_of_odd_names_without_structure_is_a_bad_request() -> None:
    """The endpoint takes no response_format at all, and refuses this record for another cause."""

    def plan(asked: Asked) -> Says | None:
        if "(USD)" in asked.text:
            return says_error(400, "Request contains an invalid argument.")
        return refuse_structure(asked)

    with raw_server(plan) as server:
        verifier = checker(server)
        verdicts(verifier, one())
        (got,) = verdicts(verifier, record({"Total (USD)": 1}))
    assert outcome(got) == (R.BAD_REQUEST, 1)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (says_error(401, "Incorrect API key provided"), "auth"),
        (says_error(429, "no credit", code="insufficient_quota"), "quota_exhausted"),
        (Says(404, b"<html>Resource not found</html>"), "bad_request"),
        (Says(307, b"", {"Location": "https://elsewhere.example"}), "bad_request"),
        (Says(200, {"error": {"message": "No auth credentials found", "code": 401}}), "auth"),
    ],
)
def test_a_fault_of_the_run_stops_it(
    failure: Says, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error for all, which names the URL and not the key; nothing more is sent."""
    monkeypatch.setenv("MARKER_KEY", KEY)
    with raw_server(lambda _: failure) as server:
        verifier = checker(server, TEMPLATES, api_key_env="MARKER_KEY", max_concurrency=2)
        errors = [d.result(10) for d in [start(verifier, one(i)) for i in range(20)]]
        errors += [start(verifier, one(i)).result(10) for i in range(20, 23)]
        assert len(server.asked) <= 2
    assert all(isinstance(e, RunStoppedError) for e in errors)
    (message,) = {str(e) for e in errors}
    assert f"{server.url}/chat/completions ({reason})" in message
    assert KEY not in message
    assert get_engine().fault() == message


def test_a_success_that_was_under_way_does_not_undo_a_stop() -> None:
    """The first request is answered well, but after the second was refused for the run."""

    def plan(asked: Asked) -> Says | None:
        if asked.number == 1:
            return Says(delay_s=0.3, body=says_text('{"a": {"score": 9}}').body)
        return says_error(401, "revoked")

    with raw_server(plan) as server:
        verifier = checker(server)
        slow = start(verifier, one(0))
        until(lambda: len(server.asked) == 1)
        assert isinstance(start(verifier, one(1)).result(5), RunStoppedError)
        assert isinstance(slow.result(5), Verified)
        assert isinstance(start(verifier, one(2)).result(5), RunStoppedError)
        assert len(server.asked) == 2


def forbid(*numbers: int) -> Plan:
    texts = [f'{{"a":{n}}}' for n in numbers]
    return lambda asked: says_error(403, "no") if any(t in asked.text for t in texts) else None


def test_a_403_counts_only_after_three_records() -> None:
    """For one record, however often, it is a failed verdict; for three in a row it is the run's."""
    with raw_server(forbid(0, 1, 2)) as server:
        verifier = checker(server, TEMPLATES)
        for _ in range(FORBIDDEN_RECORDS):
            assert {v.reason for v in verdicts(verifier, one(0))} == {R.AUTH}
        assert {v.reason for v in verdicts(verifier, one(1))} == {R.AUTH}
        assert get_engine().fault() is None
        error = start(verifier, one(2)).result(10)
    assert isinstance(error, RunStoppedError)
    assert "(auth): HTTP 403" in str(error)


def test_a_success_between_makes_403s_harmless() -> None:
    """Any number of moderated records, one after the other with good ones between."""
    with raw_server(forbid(0, 2, 4, 6, 8)) as server:
        verifier = checker(server)
        got = [verdicts(verifier, one(number))[0].reason for number in range(10)]
    assert got == [R.AUTH, None] * 5


def test_the_key_is_in_one_header_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bearer token; the body is JSON without it, and no cookie is sent back."""
    monkeypatch.setenv("MARKER_KEY", KEY)
    cookie = Says(500, {}, {"Set-Cookie": "session=1"})
    with raw_server(first(cookie)) as server:
        (got,) = verdicts(checker(server, api_key_env="MARKER_KEY"), one())
    assert outcome(got) == (None, 2)
    for asked in server.asked:
        assert [n for n, v in asked.headers.items() if KEY in v] == ["Authorization"]
        assert asked.headers["Authorization"] == f"Bearer {KEY}"
        assert asked.headers["Content-Type"] == "application/json"
        assert "Cookie" not in asked.headers
        assert KEY.encode() not in asked.raw
    assert KEY not in json.dumps(repr(got))


def test_without_a_key_no_authorization_is_sent() -> None:
    """A local server asks for none."""
    _, server = verdict(lambda _: None)
    assert "Authorization" not in server.asked[0].headers


@pytest.mark.parametrize("raises", ["verifier.attempt.read_answer", "verifier.caller.retry_wait"])
def test_an_error_of_ours_costs_one_record(raises: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is delivered, not swallowed or slept out, and the workers go on."""

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("oops")

    with raw_server(first(Says(500), Says(500))) as server:
        verifier = checker(server, max_concurrency=1)
        with monkeypatch.context() as patch:
            patch.setattr(raises, broken)
            errors = [start(verifier, one(i)).result(5) for i in range(2)]
        assert [type(e) for e in errors] == [ZeroDivisionError] * 2
        (got,) = verdicts(verifier, one(9))
    assert got.status is VerdictStatus.OK


def in_memory() -> int:
    """How many objects there are that a record is made of while it is verified."""
    kinds = {RecordRun, Call, Attempt, Hedge, Share}
    return sum(type(found) in kinds for found in gc.get_objects())


@pytest.fixture
def _no_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_gc")
@pytest.mark.parametrize(
    ("answer", "more", "requests"),
    [
        (Says(400, {"error": {"message": "no"}}), {}, 1),
        (Says(401, {"error": {"message": "bad key"}}), {}, 1),
        (Says(500), {}, 2),
        (Says(ends="hang"), {"attempt_timeout": 0.1, "max_attempts": 1}, 1),
        (Says(delay_s=1.0), {"hedge": True}, 2),
    ],
    ids=["refused", "stopped", "retried", "late", "hedged"],
)
def test_a_record_that_is_done_leaves_memory_without_the_garbage_collector(
    answer: Says,
    more: dict[str, Any],
    requests: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records in cycles would pile up by the thousand: garbage is looked for seldom in a run."""
    monkeypatch.setattr(Patience, "hedge_after", lambda *_: 0.05)
    before = in_memory()
    with raw_server(first(answer)) as server:
        verifier = checker(server, cache=f"file:{tmp_path}/cache", **more)
        start(verifier, one()).result(20)
        assert len(server.asked) == requests
        until(lambda: in_memory() <= before)
