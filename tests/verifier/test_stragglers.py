"""Calls much slower than their like: when they are cut off, when not, and when sent twice."""

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from schemas.errors import RunStoppedError
from schemas.policy import AcceptRules, Policy
from schemas.reasons import FailureReason as R
from schemas.verdict import Verdict, VerdictStatus
from scoring.templates import TemplateSet
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import (
    Asked,
    Plan,
    RawServer,
    Says,
    raw_server,
    says_error,
    says_good,
    says_text,
    until,
)
from tests.support.verify import ONE_TEMPLATE, QUICK, one, outcomes, start
from verifier import answer, attempt, backoff
from verifier.engine import get_engine
from verifier.patience import MOST_HEDGES
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.settings import OnOff, VerifierSettings

CRITIQUE, NUMERIC, LIKERT = "document_critique", "fields_numeric", "fields_likert"
ACCURACY, CONFIDENCE = "accuracy_audit", "confidence_audit"
USUAL_S = HEDGE_S = 0.05
CUT_S = 3 * USUAL_S
SLOW_S = 0.35


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "BASE_S", 0.01)
    monkeypatch.setattr("verifier.engine.TICK_S", 0.01)
    monkeypatch.setattr("verifier.patience.SHORTEST_CUT_S", 0.1)


def checker(
    server: RawServer,
    templates: TemplateSet = TEMPLATES,
    policy: Policy | None = None,
    **more: Any,
) -> RecordVerifier:
    settings = VerifierSettings.model_validate({"target": server.target, **QUICK, **more})
    return RecordVerifier(get_engine(), settings, templates, policy)


def used_to(usual: float, verifier: RecordVerifier) -> RecordVerifier:
    """The verifier, once it has seen a thousand calls that took `usual` seconds."""
    patience = verifier._caller.patience
    for name in TEMPLATES.names:
        for _ in range(1000):
            patience.answered(name, usual)
    return verifier


def experienced(server: RawServer, **more: Any) -> RecordVerifier:
    """One that cuts off after CUT_S."""
    return used_to(USUAL_S, checker(server, **more))


def reasons(verifier: RecordVerifier, number: int = 0, **values: Any) -> dict[str, R | None]:
    """What became of each call of a record with two fields."""
    (result,) = outcomes(start(verifier, record({"a": number, "b": "x"}, **values)))
    assert isinstance(result, Verified), result
    return {v.template: v.reason for v in result.verdicts}


def slow(*names: str, after: Says | None = None) -> Plan:
    """These templates are answered late, the others at once."""

    def plan(asked: Asked) -> Says | None:
        if asked.template not in names:
            return None
        answer = after or says_good(asked.body)
        return Says(answer.status, answer.body, answer.headers, delay_s=SLOW_S)

    return plan


def is_idle(verifier: RecordVerifier) -> None:
    """Soon nothing is queued, no worker is busy, and no connection is in use."""
    pool, connector = verifier._caller.state.pool, get_engine().session.connector
    assert connector is not None
    until(lambda: not (pool.queued or pool.active or connector._acquired))


GOOD = dict.fromkeys((CRITIQUE, NUMERIC, LIKERT, ACCURACY, CONFIDENCE))


@pytest.mark.parametrize(
    "late",
    [
        [CRITIQUE],
        [LIKERT],
        [ACCURACY],
        [CRITIQUE, CONFIDENCE],
        [NUMERIC, CONFIDENCE],
        [LIKERT, ACCURACY],
    ],
)
def test_who_is_late_and_not_needed_is_cut_off(late: list[str]) -> None:
    """With reason timeout; three verdicts with a grade and an audit are enough."""
    with raw_server(slow(*late)) as server:
        verifier = experienced(server)
        began = time.monotonic()
        assert reasons(verifier) == {**GOOD, **dict.fromkeys(late, R.TIMEOUT)}
        assert CUT_S <= time.monotonic() - began < SLOW_S
        is_idle(verifier)


@pytest.mark.parametrize(
    "late",
    [
        [NUMERIC, LIKERT],
        [ACCURACY, CONFIDENCE],
        [CRITIQUE, NUMERIC, ACCURACY],
        [CRITIQUE, NUMERIC, LIKERT],
    ],
)
def test_who_is_needed_is_waited_for(late: list[str]) -> None:
    """Without a grade, or an audit, or a third verdict nothing is cut off."""
    with raw_server(slow(*late)) as server:
        assert reasons(experienced(server)) == GOOD


@pytest.mark.parametrize(
    ("name", "partner", "reply"),
    [
        (NUMERIC, LIKERT, '{"a": {"explanation": "fine", "score": 90}}'),
        (NUMERIC, LIKERT, "I can't say."),
        (
            ACCURACY,
            CONFIDENCE,
            '{"explanation": "?", "incorrect_fields": [{"field_name": "zzz", "explanation": "?"}],'
            ' "confidence_score": 50}',
        ),
    ],
)
def test_a_field_that_lacks_its_grade_or_audit_keeps_its_partner(
    name: str, partner: str, reply: str
) -> None:
    """A reply came, but says nothing of field b; with a whole reply the partner is cut off."""
    lacking = [True]

    def plan(asked: Asked) -> Says | None:
        if asked.template == name and lacking[0]:
            return says_text(reply)
        return slow(partner)(asked)

    with raw_server(plan) as server:
        verifier = experienced(server)
        assert reasons(verifier, 1)[partner] is None
        lacking[0] = False
        assert reasons(verifier, 2)[partner] is R.TIMEOUT


@pytest.mark.parametrize(("least", "cut"), [(2, True), (4, True), (5, False)])
def test_the_policy_says_how_many_are_enough(least: int, cut: bool) -> None:
    """With min_verdicts 5 every call is needed."""
    with raw_server(slow(CRITIQUE)) as server:
        verifier = experienced(server, policy=Policy(accept=AcceptRules(min_verdicts=least)))
        assert (reasons(verifier)[CRITIQUE] is R.TIMEOUT) is cut


def test_switched_off_nothing_is_cut_off() -> None:
    """--adaptive_deadlines off."""
    with raw_server(slow(CRITIQUE)) as server:
        assert reasons(experienced(server, adaptive_deadlines=OnOff.OFF)) == GOOD


def test_before_latencies_are_known_nothing_is_cut_off() -> None:
    """The first records of a run wait for all."""
    with raw_server(slow(CRITIQUE)) as server:
        assert reasons(checker(server)) == GOOD


def test_what_is_late_is_learned_from_the_calls_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty records, then one whose critique never comes: it is not waited for. A template that
    is always as slow is."""
    monkeypatch.setattr("verifier.latencies.FEWEST", 20)

    def plan(asked: Asked) -> Says | None:
        if asked.template == ACCURACY:
            return Says(body=says_good(asked.body).body, delay_s=0.25)
        last = '"a":99' in asked.text and asked.template == CRITIQUE
        return Says(delay_s=SLOW_S) if last else None

    with raw_server(plan) as server:
        verifier = checker(server)
        start_of = [record({"a": i, "b": "x"}) for i in range(20)]
        for result in outcomes(start(verifier, *start_of)):
            assert isinstance(result, Verified)
            assert {v.reason for v in result.verdicts} == {None}
        assert reasons(verifier, 99) == {**GOOD, CRITIQUE: R.TIMEOUT}


def test_a_call_that_waits_for_its_next_attempt_can_be_cut_off_too() -> None:
    """It has spent its time waiting; the attempt is never made."""
    answers = slow(CRITIQUE, after=Says(503, b"busy", {"Retry-After-ms": "500"}))

    def plan(asked: Asked) -> Says | None:
        says = answers(asked)
        return Says(says.status, says.body, says.headers) if says else None

    with raw_server(plan) as server:
        verifier = experienced(server)
        began = time.monotonic()
        assert reasons(verifier) == {**GOOD, CRITIQUE: R.TIMEOUT}
        assert time.monotonic() - began < 0.4
        assert len(server.asked) == 5
        is_idle(verifier)
        time.sleep(0.7)
        assert len(server.asked) == 5


def test_the_workers_of_calls_that_were_cut_off_go_on() -> None:
    """As many records as one likes after another, on two workers, each with a call cut off."""
    with raw_server(slow(CRITIQUE)) as server:
        verifier = experienced(server, max_concurrency=2)
        for number in range(5):
            assert reasons(verifier, number) == {**GOOD, CRITIQUE: R.TIMEOUT}
        is_idle(verifier)
        assert len(verifier._caller.state.pool._workers) == 2


class Delivered:
    """What a record comes to, as often as it comes."""

    def __init__(self, verifier: RecordVerifier, number: int = 0) -> None:
        self.results: list[Verified | BaseException] = []
        self.run = verifier.post(prepare(one(number)), self.results.append)

    @property
    def verdict(self) -> Verdict:
        """The one verdict of the one result."""
        until(lambda: bool(self.results))
        (result,) = self.results
        assert isinstance(result, Verified), result
        (verdict,) = result.verdicts
        return verdict


def hedged(server: RawServer, **more: Any) -> RecordVerifier:
    """One that asks a second time after HEDGE_S, and cuts nothing off."""
    off = {"adaptive_deadlines": OnOff.OFF, "hedge": True}
    return used_to(USUAL_S, checker(server, ONE_TEMPLATE, **{**off, **more}))


def in_turn(*answers: Says | None) -> Plan:
    """These answers, one a request, then good ones. None is a good one, too."""
    return lambda asked: answers[asked.number - 1] if asked.number <= len(answers) else None


class Later:
    """Good answers that come once they are let go."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self.go = self._go.set

    def good(self, a: float = 0.5) -> Says:
        """A good answer with a score by which it is known."""
        text = f'{{"a": {{"explanation": "late", "score": {100 * a}}}}}'
        return Says(body=says_text(text).body, when=self._go.is_set)

    def never(self) -> Says:
        """An answer that nobody is to see: it ends when the test does."""
        return Says(500, b"too late", when=self._go.is_set)


@pytest.fixture
def later() -> Iterator[Later]:
    made = Later()
    yield made
    made.go()


def score(verdict: Verdict) -> float | None:
    return verdict.reading.field_scores.get("a")


def after(verifier: RecordVerifier, delivered: Delivered, requests: int) -> None:
    """What must hold after any hedged call: one result, all requests counted, none left, and
    workers that work."""
    is_idle(verifier)
    assert len(delivered.results) == 1
    assert get_engine().counters().requests == requests
    assert {v.reason for v in _verdicts(outcomes(start(verifier, *map(one, range(50, 60)))))} == {
        None
    }
    assert len(delivered.results) == 1


def _verdicts(results: list[Any]) -> list[Verdict]:
    return [v for result in results for v in result.verdicts]


def test_the_duplicate_answers_first(later: Later) -> None:
    """Its reply counts, two requests are counted, and the original is cut off."""
    with raw_server(in_turn(later.never())) as server:
        verifier = hedged(server)
        delivered = Delivered(verifier)
        verdict = delivered.verdict
        assert (verdict.reason, verdict.usage.attempts, score(verdict)) == (None, 2, 0.97)
        assert (verdict.usage.latency_ms or 0) >= 1000 * HEDGE_S
        assert len({asked.raw for asked in server.asked}) == 1
        after(verifier, delivered, 2)
    assert get_engine().counters().hedges == 1


def test_the_original_answers_first(later: Later) -> None:
    """Though a duplicate is under way, which is cut off."""
    with raw_server(in_turn(later.good(), Says(500, delay_s=0.5))) as server:
        verifier = hedged(server)
        delivered = Delivered(verifier)
        until(lambda: len(server.asked) == 2)
        later.go()
        verdict = delivered.verdict
        assert (verdict.reason, verdict.usage.attempts, score(verdict)) == (None, 2, 0.5)
        after(verifier, delivered, 2)


@pytest.mark.parametrize(
    "failure",
    [
        says_error(500, "oops"),
        says_error(429, "slow down"),
        says_error(400, "no"),
        Says(200, b"rubbish"),
        Says(200, b"", ends="cut"),
    ],
    ids=lambda s: f"{s.status}-{s.ends}",
)
def test_the_duplicate_fails(failure: Says, later: Later) -> None:
    """The original is waited for as if nothing had been, and there is no third."""
    with raw_server(in_turn(later.good(), failure)) as server:
        verifier = hedged(server)
        delivered = Delivered(verifier)
        until(lambda: len(server.asked) == 2)
        time.sleep(2 * HEDGE_S)
        assert not delivered.results
        later.go()
        verdict = delivered.verdict
        assert (verdict.reason, verdict.usage.attempts, score(verdict)) == (None, 2, 0.5)
        after(verifier, delivered, 2)


def test_both_fail(later: Later) -> None:
    """Then the call is tried again, without another duplicate."""
    slow_failure = Says(500, delay_s=3 * HEDGE_S)
    with raw_server(in_turn(slow_failure, says_error(500, "oops"), later.good())) as server:
        verifier = hedged(server)
        delivered = Delivered(verifier)
        until(lambda: len(server.asked) == 3)
        time.sleep(3 * HEDGE_S)
        later.go()
        verdict = delivered.verdict
        assert (verdict.reason, verdict.usage.attempts) == (None, 3)
        after(verifier, delivered, 3)


def test_the_original_runs_out_of_time_and_the_duplicate_answers(later: Later) -> None:
    """While the call waits for its next attempt, which is then not made."""
    with raw_server(in_turn(later.never(), Says(body=b"", delay_s=0))) as server:
        good = says_text('{"a": {"explanation": "late", "score": 50}}').body
        server.plan = in_turn(later.never(), Says(body=good, delay_s=0.35))
        verifier = hedged(server, attempt_timeout=0.3)
        verifier._caller.wait_before_retry = lambda *_: 5.0  # type: ignore[method-assign]
        delivered = Delivered(verifier)
        verdict = delivered.verdict
        assert (verdict.reason, verdict.usage.attempts, score(verdict)) == (None, 2, 0.5)
        after(verifier, delivered, 2)


def test_the_call_is_given_up_meanwhile(later: Later) -> None:
    """At the record's deadline both requests end, with one verdict."""
    with raw_server(in_turn(later.never(), later.never())) as server:
        verifier = hedged(server, attempt_timeout=0.4, call_timeout=0.4, record_timeout=0.4)
        delivered = Delivered(verifier)
        verdict = delivered.verdict
        assert (verdict.reason, verdict.usage.attempts) == (R.TIMEOUT, 2)
        after(verifier, delivered, 2)


def test_the_record_is_cancelled_meanwhile(later: Later) -> None:
    """Its bundle failed: it ends with the error, and both requests end."""
    with raw_server(in_turn(later.never(), later.never())) as server:
        verifier = hedged(server)
        delivered = Delivered(verifier)
        until(lambda: len(server.asked) == 2)
        verifier.cancel(delivered.run)
        until(lambda: bool(delivered.results))
        assert isinstance(delivered.results[0], RunStoppedError)
        after(verifier, delivered, 2)


def test_a_duplicate_that_comes_too_late_is_not_sent(later: Later) -> None:
    """There is one slot, and the original holds it."""
    with raw_server(in_turn(later.good())) as server:
        verifier = hedged(server, max_concurrency=1)
        delivered = Delivered(verifier)
        until(lambda: verifier._caller.state.counters.hedges == 1)
        later.go()
        assert (delivered.verdict.reason, delivered.verdict.usage.attempts) == (None, 1)
        after(verifier, delivered, 1)


def test_without_the_flag_nothing_is_sent_twice(later: Later) -> None:
    """However slow."""
    with raw_server(in_turn(later.good())) as server:
        verifier = hedged(server, hedge=False)
        delivered = Delivered(verifier)
        time.sleep(3 * HEDGE_S)
        later.go()
        assert delivered.verdict.usage.attempts == 1
        assert len(server.asked) == 1


def test_few_calls_are_sent_twice() -> None:
    """All are slow: of 100 at most 1 in 20 gets a duplicate, and one in any case."""
    with raw_server(lambda a: Says(body=says_good(a.body).body, delay_s=0.25)) as server:
        verifier = hedged(server, max_concurrency=64)
        results = outcomes(start(verifier, *map(one, range(100))))
        sent, hedges = len(server.asked), get_engine().counters().hedges
    assert {v.reason for v in _verdicts(results)} == {None}
    assert 1 <= hedges <= MOST_HEDGES * sent + 1
    assert sent <= 100 + hedges


def test_a_duplicate_in_time_saves_a_call_from_being_cut_off(
    later: Later,
) -> None:
    """The cut comes after the duplicate had its time."""
    waits = [later.never()]

    def plan(asked: Asked) -> Says | None:
        return waits.pop() if asked.template == CRITIQUE and waits else None

    with raw_server(plan) as server:
        assert reasons(experienced(server, hedge=True)) == GOOD
        assert len(server.asked) == 6


def test_an_error_of_ours_in_a_duplicate_costs_no_worker(
    monkeypatch: pytest.MonkeyPatch, later: Later, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends its record, like any other."""
    with raw_server(in_turn(later.good(), Says(418))) as server:
        verifier = hedged(server)
        read = answer.read_answer

        def broken(status: int, *rest: Any) -> Any:
            if status == 418:
                raise ZeroDivisionError("oops")
            return read(status, *rest)

        monkeypatch.setattr(attempt, "read_answer", broken)
        with caplog.at_level(logging.ERROR):
            delivered = Delivered(verifier)
            until(lambda: len(server.asked) == 2)
            time.sleep(HEDGE_S)
            later.go()
            until(lambda: bool(delivered.results))
            after(verifier, delivered, 2)
        assert not of_ours(caplog)


def of_ours(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, but for servers of earlier tests that are collected."""
    messages = [record.getMessage() for record in caplog.records]
    return [m for m in messages if "Task was destroyed but it is pending" not in m]


def test_hedged_calls_in_numbers_come_out_once_each() -> None:
    """Half of the originals and a third of the duplicates are late, some fail: each record has one
    result, and what was sent is what was counted."""

    def plan(asked: Asked) -> Says | None:
        good = says_good(asked.body).body
        kinds = [
            Says(body=good),
            Says(body=good, delay_s=0.15),
            says_error(500, "oops"),
            Says(body=good, delay_s=0.11),
            Says(body=good, delay_s=0.25),
            Says(200, b"", ends="cut"),
        ]
        return kinds[asked.number % 6]

    with raw_server(plan) as server:
        verifier = hedged(server, max_concurrency=16, max_attempts=20)
        verifier._caller.state.may_hedge = lambda: True  # type: ignore[method-assign]
        runs = [Delivered(verifier, number) for number in range(100)]
        attempts = sum(run.verdict.usage.attempts for run in runs)
        is_idle(verifier)
        assert {run.verdict.status for run in runs} == {VerdictStatus.OK}
        assert attempts == get_engine().counters().requests > 130
        # One that is dropped as it goes out may not arrive.
        assert 130 < len(server.asked) <= attempts
        assert [len(run.results) for run in runs] == [1] * 100
        assert len(verifier._caller.state.pool._workers) == 16
