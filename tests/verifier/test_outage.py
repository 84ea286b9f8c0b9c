"""When the endpoint answers nobody, asks for less, or is held to a rate: what is lost, and how much
is sent. With real servers on loopback."""

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import RunStoppedError
from schemas.reasons import FailureReason as R
from schemas.verdict import VerdictStatus
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import (
    Asked,
    Plan,
    RawServer,
    Says,
    raw_server,
    says_error,
    says_good,
    until,
)
from tests.support.verify import ONE_TEMPLATE, checker, one, outcomes, start, verdicts
from verifier import backoff, breaker, rates
from verifier.endpoint_state import EndpointState
from verifier.engine import get_engine
from verifier.fault import Action, Fault
from verifier.record_run import RecordRun
from verifier.record_verifier import RecordVerifier, Verified
from verifier.settings import VerifierSettings

FIRST_S, LONGEST_S = 0.02, 0.05


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "BASE_S", 0.01)
    monkeypatch.setattr(breaker, "FIRST_WAIT_S", FIRST_S)
    monkeypatch.setattr(breaker, "LONGEST_WAIT_S", LONGEST_S)


def state_of(verifier: RecordVerifier) -> EndpointState:
    return verifier._caller.state


class Outage:
    """Fails each request from number `first` on until `length` have failed; keeps when."""

    def __init__(self, first: int, length: int, failure: Says | None) -> None:
        self._first, self._length = first, length
        self._failure = failure or Says(500, when=lambda: self.over)
        self.failed_at: list[float] = []

    @property
    def over(self) -> bool:
        return len(self.failed_at) >= self._length

    def __call__(self, asked: Asked) -> Says | None:
        if asked.number < self._first or self.over:
            return None
        self.failed_at.append(time.monotonic())
        return self._failure


FAILURES = {
    "500": says_error(500, "oops"),
    "503": Says(503, b"<html>upstream is down</html>"),
    "429": says_error(429, "slow down"),
    "error in 200": Says(200, {"error": {"message": "upstream", "code": 502}}),
    "cut off": Says(200, b'{"choices": [', ends="cut"),
    "silence": None,
}


@pytest.mark.parametrize("kind", FAILURES)
def test_an_outage_that_ends_costs_no_verdict(kind: str) -> None:
    """It begins while many records wait, and fails far more requests than a call has attempts;
    after it all are verified: attempts during it do not count, nor does the time."""
    outage = Outage(20, 44, FAILURES[kind])
    with raw_server(outage) as server:
        verifier = checker(
            server,
            attempt_timeout=0.4,
            call_timeout=2,
            record_timeout=2,
            max_attempts=2,
            max_concurrency=24,
            max_outage=60,
        )
        got = verdicts(verifier, *map(one, range(60)))
        assert [v.reason for v in got] == [None] * 60
        assert len(outage.failed_at) == 44
        assert sum(v.usage.attempts for v in got) == len(server.asked) == 104
        assert not state_of(verifier).breaker.is_open


def test_during_an_outage_requests_trickle() -> None:
    """Once it is noticed, one probe at a time, with pauses that grow; afterwards all goes on."""
    outage = Outage(30, 38, says_error(500, "oops"))
    with raw_server(outage) as server:
        verifier = checker(server, max_attempts=9, max_concurrency=8, max_outage=60)
        assert {v.reason for v in verdicts(verifier, *map(one, range(60)))} == {None}
    noticed = breaker.OPENS_AFTER + 8
    probes = outage.failed_at[noticed:]
    pauses = [later - sooner for sooner, later in itertools.pairwise(probes)]
    assert len(pauses) >= 8
    assert min(pauses) >= 0.7 * LONGEST_S


def test_after_an_outage_few_requests_go_at_first() -> None:
    """And not all that wait at once: the endpoint has just come back."""
    seen: list[int] = []

    def plan(asked: Asked) -> Says | None:
        if asked.number <= breaker.OPENS_AFTER:
            return says_error(500, "oops")
        seen.append(servers[0].in_flight)
        return Says(body=says_good(asked.body).body, delay_s=0.02)

    with raw_server(plan) as server:
        servers = [server]
        verifier = checker(server, max_concurrency=breaker.OPENS_AFTER, max_outage=60)
        got = verdicts(verifier, *map(one, range(100)))
    assert {v.reason for v in got} == {None}
    assert seen[0] == 1
    assert max(seen[:9]) <= 9
    assert max(seen) == breaker.OPENS_AFTER


@pytest.mark.parametrize("number", [1, breaker.OPENS_AFTER_RECORDS - 1])
def test_records_that_always_fail_are_no_outage(number: int) -> None:
    """One or two, with all their templates: they fail by their own attempts, well within a second."""
    with raw_server(lambda _: says_error(500, "this document crashes me")) as server:
        verifier = checker(server, TEMPLATES, max_attempts=6, max_outage=1)
        got = verdicts(verifier, *map(one, range(number)))
        assert len(server.asked) == 30 * number > breaker.OPENS_AFTER
        assert not state_of(verifier).breaker.is_open
    assert {(v.reason, v.usage.attempts) for v in got} == {(R.PROVIDER_ERROR, 6)}
    assert get_engine().fault() is None


def poisonous(*numbers: int) -> Plan:
    texts = [f'{{"a":{n}}}' for n in numbers]
    crash = says_error(500, "this document crashes me")
    return lambda asked: crash if any(t in asked.text for t in texts) else None


def test_a_few_records_that_always_fail_stop_no_others() -> None:
    """Beside good ones they are no outage, either: answers come between."""
    with raw_server(poisonous(3, 5)) as server:
        verifier = checker(server, TEMPLATES, max_attempts=4, max_outage=1)
        got = verdicts(verifier, *map(one, range(30)))
    failed = {v.record_id for v in got if v.status is not VerdictStatus.OK}
    assert failed == {"r3", "r5"}


def test_an_outage_longer_than_allowed_ends_the_run_once_and_for_all() -> None:
    """One error, the same for all records, that names URL and flag; then nothing more is sent."""
    with raw_server(lambda _: says_error(500, "oops")) as server:
        verifier = checker(server, TEMPLATES, max_outage=0.4, max_concurrency=16)
        futures = start(verifier, *map(one, range(30)))
        results = outcomes(futures)
        sent = len(server.asked)
        results += outcomes(start(verifier, one(30), one(31)))
        assert len(server.asked) == sent
    assert sent <= breaker.OPENS_AFTER + 16 + 3 + 0.4 / (0.75 * LONGEST_S)
    assert all(isinstance(result, RunStoppedError) for result in results)
    (message,) = {str(result) for result in results}
    assert f"{server.url}/chat/completions has answered no request for" in message
    assert "--max_outage" in message
    assert get_engine().fault() == message


def stopped(monkeypatch: pytest.MonkeyPatch, server: RawServer, **more: Any) -> RecordVerifier:
    """A verifier whose endpoint is latched by an outage; it is asked again after 0.2 s."""
    monkeypatch.setattr("verifier.endpoint_state.PROBE_AFTER_S", 0.2)
    verifier = checker(server, max_outage=0.3, **more)
    results = outcomes(start(verifier, *map(one, range(30))))
    assert all(isinstance(result, RunStoppedError) for result in results)
    return verifier


def test_a_later_use_works_once_the_server_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call after a while is the probe; it is answered, and so are all after it."""
    up = threading.Event()
    with raw_server(lambda _: None if up.is_set() else says_error(500, "oops")) as server:
        verifier = stopped(monkeypatch, server)
        up.set()
        time.sleep(0.25)
        got = verdicts(verifier, one(50)) + verdicts(verifier, *map(one, range(51, 70)))
    assert {(v.reason, v.usage.attempts) for v in got} == {(None, 1)}
    assert get_engine().fault() is None


def test_a_later_use_while_it_is_still_down_costs_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The probe is not answered: the error again, and the next probe only after the same time."""
    with raw_server(lambda _: says_error(500, "oops")) as server:
        verifier = stopped(monkeypatch, server)
        time.sleep(0.25)
        sent = len(server.asked)
        for _ in range(3):
            results = outcomes(start(verifier, *map(one, range(5))))
            assert all(isinstance(result, RunStoppedError) for result in results)
        assert len(server.asked) == sent + 1


def test_the_key_is_read_again_for_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was revoked; the new one is in the same variable."""
    monkeypatch.setattr("verifier.endpoint_state.PROBE_AFTER_S", 0.2)
    monkeypatch.setenv("THE_KEY", "old-key-1234")
    with raw_server(refuse_old) as server:
        verifier = checker(server, api_key_env="THE_KEY")
        assert isinstance(outcomes(start(verifier, one(0)))[0], RunStoppedError)
        monkeypatch.setenv("THE_KEY", "new-key-1234")
        assert isinstance(outcomes(start(verifier, one(1)))[0], RunStoppedError)
        assert len(server.asked) == 1
        time.sleep(0.25)
        for number in range(2, 6):
            assert {v.reason for v in verdicts(verifier, one(number))} == {None}
        keys = [asked.headers["Authorization"] for asked in server.asked]
    assert keys == ["Bearer old-key-1234", *["Bearer new-key-1234"] * 4]


def refuse_old(asked: Asked) -> Says | None:
    old = "old-key" in asked.headers["Authorization"]
    return says_error(401, "this key was revoked") if old else None


def test_a_new_key_reaches_all_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two instances on one endpoint: the probe of one opens it for both, with the new key."""
    monkeypatch.setattr("verifier.endpoint_state.PROBE_AFTER_S", 0.2)
    monkeypatch.setenv("THE_KEY", "old-key-1234")
    with raw_server(refuse_old) as server:
        first, second = (checker(server, api_key_env="THE_KEY") for _ in range(2))
        assert isinstance(outcomes(start(first, one(0)))[0], RunStoppedError)
        monkeypatch.setenv("THE_KEY", "new-key-1234")
        time.sleep(0.25)
        assert {v.reason for v in verdicts(first, one(1))} == {None}
        assert isinstance(outcomes(start(second, one(2)))[0], Verified)


class Full:
    """A server with `room` for so many requests at once; the rest get a 429."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.refused = 0
        self.server: RawServer | None = None

    def __call__(self, asked: Asked) -> Says | None:
        assert self.server is not None
        if self.server.in_flight > self._room:
            self.refused += 1
            return says_error(429, "too many at once")
        return Says(body=says_good(asked.body).body, delay_s=0.03 + 0.004 * (asked.number % 11))


def test_the_limit_adapts_to_what_the_server_takes() -> None:
    """64 at first, of which most are refused: it halves round by round, and all are verified."""
    plan = Full(16)
    with raw_server(plan) as server:
        plan.server = server
        verifier = checker(server, max_concurrency=64, max_attempts=12)
        got = verdicts(verifier, *map(one, range(300)))
    assert {v.reason for v in got} == {None}
    assert 48 <= plan.refused <= 250
    assert len(server.asked) == 300 + plan.refused


def test_two_refusals_of_different_rounds_halve_twice() -> None:
    """Each answered before the next is sent."""
    with raw_server(
        lambda a: says_error(429, "slow down") if a.number in {2, 4} else None
    ) as server:
        verifier = checker(server, max_concurrency=40)
        allowed = []
        for number in range(4):
            verdicts(verifier, one(number))
            allowed.append(state_of(verifier).concurrency.allowed)
    assert allowed == [40, 21, 11, 12]


def noting(times: list[float]) -> Plan:
    """Good answers; when each was asked for goes to `times`."""
    return lambda _asked: times.append(time.monotonic())


def most_within(times: list[float], seconds: float) -> int:
    """The most requests in any span of `seconds`."""
    return max(sum(t <= u < t + seconds for u in times) for t in times)


def test_requests_per_minute_are_kept_without_time_outs() -> None:
    """40 requests at 20 a second: they queue for far longer than a record's deadline."""
    times: list[float] = []
    with raw_server(noting(times)) as server:
        verifier = checker(
            server,
            TEMPLATES,
            requests_per_minute=1200,
            attempt_timeout=0.3,
            call_timeout=0.3,
            record_timeout=0.3,
        )
        got = verdicts(verifier, *map(one, range(8)))
    assert {(v.reason, v.usage.attempts) for v in got} == {(None, 1)}
    assert times[-1] - times[0] >= 0.9
    assert most_within(times, 0.5) <= 20 + 10 + 1
    assert 0.5 <= get_engine().counters().throttled_s <= 1.5


def test_retries_are_requests_too() -> None:
    """Each counts for the rate."""
    times: list[float] = []

    def plan(asked: Asked) -> Says | None:
        times.append(time.monotonic())
        return says_error(500, "oops") if asked.number % 2 else None

    with raw_server(plan) as server:
        verifier = checker(server, requests_per_minute=1200, max_attempts=9)
        verdicts(verifier, *map(one, range(15)))
    assert len(times) > 25
    assert times[-1] - times[0] >= (len(times) - 20) / 20 - 0.1


def test_a_processes_share_of_a_rate_is_what_it_keeps() -> None:
    """One of three gets a third."""
    times: list[float] = []
    with raw_server(noting(times)) as server:
        verifier = checker(server, requests_per_minute=1800, verifier_processes=3)
        verdicts(verifier, *map(one, range(16)))
    assert times[-1] - times[0] >= 0.5


def test_tokens_per_minute_are_kept() -> None:
    """600 tokens a request, 2,000 a second; what they come to is known from the first ones."""
    times: list[float] = []

    def plan(asked: Asked) -> Says:
        times.append(time.monotonic())
        usage = {"prompt_tokens": 500, "completion_tokens": 100}
        return Says(body={**says_good(asked.body).body, "usage": usage})

    with raw_server(plan) as server:
        verifier = checker(server, tokens_per_minute=120_000, max_concurrency=2)
        got = verdicts(verifier, *map(one, range(6)))
    assert {v.reason for v in got} == {None}
    assert times[-1] - times[0] >= (600 * 5 - 2000 - 600) / 2000


def test_requests_per_minute_are_kept_with_a_cache(tmp_path: Path) -> None:
    """Looking a reply up is no reason to send all at once."""
    times: list[float] = []
    with raw_server(noting(times)) as server:
        verifier = checker(
            server, TEMPLATES, requests_per_minute=600, cache=f"file:{tmp_path}/replies"
        )
        verdicts(verifier, *map(one, range(6)))
    assert times[-1] - times[0] >= 1.9


def test_retries_that_the_budget_holds_do_not_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a limit of ours, like the queue."""
    monkeypatch.setattr(rates, "RETRIES_AT_ONCE", 1.0)
    monkeypatch.setattr(rates, "RETRIES_A_CALL", 0.0)
    monkeypatch.setattr(rates, "RETRIES_A_SECOND", 6.0)
    with raw_server(lambda a: says_error(500, "oops") if a.number <= 10 else None) as server:
        verifier = checker(server, attempt_timeout=0.5, call_timeout=0.5, record_timeout=0.5)
        got = verdicts(verifier, *map(one, range(10)))
    assert {(v.reason, v.usage.attempts) for v in got} == {(None, 2)}


def test_who_waits_for_anothers_reply_does_not_time_out_in_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal records are asked about once; an outage holds both, longer than their deadline."""
    monkeypatch.setattr(breaker, "OPENS_AFTER_RECORDS", 1)
    monkeypatch.setattr(breaker, "OPENS_AFTER", 5)
    up = threading.Event()
    with raw_server(lambda _: None if up.is_set() else says_error(500, "oops")) as server:
        verifier = checker(
            server,
            TEMPLATES,
            attempt_timeout=0.3,
            call_timeout=0.3,
            record_timeout=0.3,
            cache=f"file:{tmp_path}/replies",
        )
        twins = start(verifier, *(record({"a": 1}, id=f"twin{i}") for i in range(2)))
        until(lambda: state_of(verifier).breaker.is_open)
        time.sleep(0.5)
        up.set()
        results = outcomes(twins)
    reasons = [{v.reason for v in r.verdicts} for r in results if isinstance(r, Verified)]
    assert reasons == [{None}, {None}]


class Clock:
    now = 0.0

    def time(self) -> float:
        return self.now


class Endless:
    """A call that is never answered."""

    given_up = False

    def queue(self) -> None:
        """Sent at once."""

    def give_up(self, _why: str) -> None:
        self.given_up = True


def test_an_outage_excuses_no_more_than_it_took() -> None:
    """Five calls of a record fail together after 5 s of its 10: it has 10 s left, not 30."""
    clock, call = Clock(), Endless()
    run = RecordRun("r", 10, lambda *_: None, lambda *_: None, clock)  # type: ignore[arg-type]
    run.start([call])  # type: ignore[list-item]
    clock.now = 5
    for _ in range(5):
        run.excuse(5)
    clock.now = 14.9
    run.tick(clock.now)
    assert not call.given_up
    clock.now = 15.1
    run.tick(clock.now)
    assert call.given_up


DOWN = Fault(Action.RETRY, R.PROVIDER_ERROR, "HTTP 500", wait=30.0)


@pytest.fixture
def state() -> EndpointState:
    return EndpointState("http://a.example/v1", VerifierSettings(target="http://a.example/v1#m"))


def down(state: EndpointState, fault: Fault, now: float) -> None:
    for number in range(breaker.OPENS_AFTER):
        state.failed(f"r{number}", now - 1, now, fault)


@pytest.mark.parametrize(
    ("reason", "action", "opens"),
    [
        (R.PROVIDER_ERROR, Action.RETRY, True),
        (R.TIMEOUT, Action.RETRY, True),
        (R.RATE_LIMITED, Action.RETRY, True),
        (R.EMPTY_RESPONSE, Action.RETRY, False),
        (R.BAD_REQUEST, Action.GIVE_UP, False),
        (R.CONTENT_FILTER, Action.GIVE_UP, False),
        (R.TRUNCATED, Action.GIVE_UP, False),
        (R.AUTH, Action.FORBIDDEN, False),
    ],
)
def test_only_faults_of_the_endpoint_make_an_outage(
    state: EndpointState, reason: R, action: Action, opens: bool
) -> None:
    """A refusal is an answer."""
    down(state, Fault(action, reason, ""), 10)
    assert state.breaker.is_open is opens


def test_a_probe_waits_as_long_as_the_server_asks(state: EndpointState) -> None:
    """Retry-After of 30 s on all that failed."""
    down(state, DOWN, 10)
    assert state.wait(10) >= 30


def test_a_late_failure_lets_no_second_probe_through(state: EndpointState) -> None:
    """It was sent before the outage; the probe is still under way."""
    down(state, Fault(Action.RETRY, R.PROVIDER_ERROR, ""), 10)
    due = 10 + state.wait(10)
    state.goes(object())
    state.failed("late", 9, due, DOWN)
    assert state.wait(due + 100) > 100


def test_a_latched_endpoint_gets_no_duplicates(state: EndpointState) -> None:
    """Nothing is sent."""
    state.counters.requests = 1000
    assert state.may_hedge()
    state.latch("bad key", 1)
    assert not state.may_hedge()


def test_another_model_may_be_met_while_latencies_are_looked_at(state: EndpointState) -> None:
    """A stage is set up on a thread of its own."""

    class Meets:
        def refresh(self) -> None:
            state.patience["another"] = self  # type: ignore[assignment]

    state.patience["m"] = Meets()  # type: ignore[assignment]
    state.tick(1.0)


def test_an_error_of_ours_in_a_tick_ends_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record ends with it, and deadlines are kept for those that come later."""

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("oops")

    with raw_server(lambda _: Says(ends="hang")) as server:
        verifier = checker(
            server, ONE_TEMPLATE, attempt_timeout=0.3, call_timeout=0.3, record_timeout=0.3
        )
        with monkeypatch.context() as patch:
            patch.setattr(verifier._stragglers, "see_to", broken)
            (result,) = [f.result(1) for f in start(verifier, one(0))]
            assert isinstance(result, ZeroDivisionError)
        (later,) = [f.result(1) for f in start(verifier, one(1))]
        assert isinstance(later, Verified)
