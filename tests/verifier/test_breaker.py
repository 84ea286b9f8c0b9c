"""The breaker: when it opens, whom it lets through, and what closes it."""

import math
import random
from dataclasses import dataclass
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from verifier.breaker import (
    FIRST_WAIT_S,
    LONGEST_WAIT_S,
    MOST_SUSPECTS,
    OPENS_AFTER,
    OPENS_AFTER_RECORDS,
    Breaker,
)


def breaker(seed: int = 0) -> Breaker:
    return Breaker(random.Random(seed))


def fail(
    one: Breaker,
    count: int,
    now: float = 0.0,
    records: int = OPENS_AFTER_RECORDS,
    name: str = "r",
) -> None:
    """Failures in a row, of so many records in turn."""
    for number in range(count):
        one.failed(f"{name}{number % records}", now)


def opened(now: float = 0.0, seed: int = 0) -> Breaker:
    one = breaker(seed)
    fail(one, OPENS_AFTER, now)
    assert one.is_open
    return one


def probe(one: Breaker, now: float) -> object:
    """Send a probe; it must be due."""
    assert one.wait(now) == 0
    call = object()
    one.goes(call)
    return call


def until_due(one: Breaker, now: float) -> float:
    """The moment at which the next probe may go."""
    return now + one.wait(now)


@pytest.mark.parametrize(
    ("failures", "records", "opens"),
    [
        (OPENS_AFTER - 1, OPENS_AFTER, False),
        (OPENS_AFTER, OPENS_AFTER_RECORDS, True),
        (OPENS_AFTER, OPENS_AFTER_RECORDS - 1, False),
        (50 * OPENS_AFTER, 1, False),
        (50 * OPENS_AFTER, OPENS_AFTER_RECORDS - 1, False),
    ],
)
def test_it_opens_after_failures_in_a_row_of_several_records(
    failures: int, records: int, opens: bool
) -> None:
    """However often a record fails alone, that is no outage."""
    one = breaker()
    fail(one, failures, records=records)
    assert one.is_open is opens
    assert (one.wait(0) > 0) is opens


def test_an_answer_between_begins_the_count_anew() -> None:
    """Of failures and of records."""
    one = breaker()
    for name in "abcde":
        fail(one, OPENS_AFTER - 1, name=name)
        assert not one.answered("other", 0)
    fail(one, OPENS_AFTER, records=OPENS_AFTER_RECORDS - 1)
    assert not one.is_open
    one.failed("another", 0)
    assert one.is_open


def test_records_that_fail_while_others_are_answered_open_nothing() -> None:
    """They are suspected themselves, until one of their own calls is answered; so many at most."""
    one = breaker()
    fail(one, OPENS_AFTER - 1)
    one.answered("other", 0)
    fail(one, 10 * OPENS_AFTER)
    assert not one.is_open
    one.answered("r1", 0)
    fail(one, 10 * OPENS_AFTER)
    assert not one.is_open, "r1 alone counts"
    for number in range(2 * MOST_SUSPECTS):
        one.failed(f"s{number}", 0)
        one.answered("other", 0)
    assert len(one._suspects) == MOST_SUSPECTS
    fail(one, OPENS_AFTER)
    assert one.is_open, "forgotten"


def test_one_probe_at_a_time() -> None:
    """None before the wait is over, and none while one is under way."""
    one = opened(100)
    due = until_due(one, 100)
    assert 0.75 * FIRST_WAIT_S <= due - 100 <= 1.25 * FIRST_WAIT_S
    assert one.wait(due - 0.01) > 0
    call = probe(one, due)
    assert [one.wait(due + s) for s in (0, 1, 1000)] == [math.inf] * 3
    one.failed("r", due + 1)
    one.ended(call)
    assert 0 < one.wait(due + 1) < math.inf


def test_waits_between_probes_double_up_to_a_bound() -> None:
    """With jitter around each."""
    one, now, waits = opened(), 0.0, []
    for _ in range(7):
        waits.append(one.wait(now))
        now += waits[-1]
        call = probe(one, now)
        one.failed("r", now)
        one.ended(call)
    expected = [min(FIRST_WAIT_S * 2**n, LONGEST_WAIT_S) for n in range(7)]
    assert all(0.75 * e <= w <= 1.25 * e for w, e in zip(waits, expected, strict=True)), waits
    assert len({w / e for w, e in zip(waits, expected, strict=True)}) == 7


def test_many_processes_do_not_probe_at_once() -> None:
    """Each has its own jitter."""
    assert len({opened(seed=seed).wait(0) for seed in range(20)}) == 20


def test_a_probe_that_fails_keeps_it_open_and_one_that_is_answered_closes_it() -> None:
    """Then calls go again, and it takes a whole row of failures to open once more."""
    one = opened()
    now = until_due(one, 0)
    call = probe(one, now)
    one.failed("r", now + 1)
    one.ended(call)
    assert one.is_open
    now = until_due(one, now + 1)
    call = probe(one, now)
    assert one.answered("other", now)
    one.ended(call)
    assert not one.is_open
    assert one.wait(now) == 0
    fail(one, OPENS_AFTER - 1, now)
    assert not one.is_open


def test_calls_from_before_the_outage_neither_close_nor_prolong_it() -> None:
    """They were sent when all was well, and say nothing of now; nor do they count as the probe."""
    one = opened(10)
    assert not one.answered("other", started=9)
    assert one.is_open
    due = until_due(one, 10)
    call = probe(one, due)
    one.failed("late", due, started=9)
    assert one.wait(due) == math.inf
    one.ended(call)
    assert one.wait(due) == 0


def test_a_probe_without_any_answer_makes_room_for_another() -> None:
    """Its record was given up, say: nothing is known, and the next may go at once."""
    one = opened()
    due = until_due(one, 0)
    call = probe(one, due)
    one.ended(object())
    assert one.wait(due) == math.inf
    one.ended(call)
    assert one.wait(due) == 0


@pytest.mark.parametrize(("asked", "least"), [(30.0, 30.0), (0.01, 0.75 * FIRST_WAIT_S)])
def test_a_wait_that_the_server_asks_for_is_kept(asked: float, least: float) -> None:
    """By the failure that opens the breaker, and by that of a probe; a short one shortens nothing."""
    one = breaker()
    fail(one, OPENS_AFTER - 1)
    one.failed("r", 0, asked)
    assert one.wait(0) >= least
    now = until_due(one, 0)
    call = probe(one, now)
    one.failed("r", now, asked)
    one.ended(call)
    assert one.wait(now) >= least


def test_an_outage_lasts_since_calls_are_held() -> None:
    """Failures of long ago, and the time in which nobody asked, are no outage."""
    one = breaker()
    fail(one, OPENS_AFTER - 1, now=0)
    assert one.outage(3600) == 0
    one.failed("r", 3600)
    assert one.outage(3600) == 0
    assert one.outage(3660) == 60
    now = 3600 + one.wait(3600)
    call = probe(one, now)
    one.failed("r", 3700)
    one.ended(call)
    assert one.outage(3700) == 100
    now = until_due(one, 3700)
    probe(one, now)
    assert one.answered("other", now)
    assert one.outage(now + 1) == 0


def test_outages_do_not_add_up() -> None:
    """The next begins with its own opening, and its first probe is soon."""
    one = opened(0)
    now = until_due(one, 0)
    probe(one, now)
    one.answered("other", now)
    fail(one, OPENS_AFTER, now=500)
    assert one.outage(501) == 1
    assert one.wait(500) <= 1.25 * FIRST_WAIT_S


@given(st.lists(st.sampled_from("abc"), max_size=60), st.booleans())
def test_it_never_opens_while_some_are_answered(records: list[str], first: bool) -> None:
    """A failure of any record, an answer, a failure …"""
    one = breaker()
    for record in records:
        one.failed(record, 0)
        one.answered("other", 0)
        assert not one.is_open
        assert one.outage(1e6) == 0


@dataclass(eq=False)
class Sent:
    """A call under way."""

    started: float


class Traffic(RuleBasedStateMachine):
    """Calls come, fail, are answered or given up in any order, as a pool would have them."""

    def __init__(self) -> None:
        super().__init__()
        self.eager = patch("verifier.breaker.OPENS_AFTER", 4)
        self.eager.start()
        self.one = breaker(1)
        self.now = 1.0
        self.under_way: list[Sent] = []
        self.opened_at: float | None = None

    def teardown(self) -> None:
        self.eager.stop()

    @rule(seconds=st.floats(0.1, 5))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(count=st.integers(1, 6))
    def calls_want_to_go(self, count: int) -> None:
        for _ in range(count):
            if self.one.wait(self.now) == 0:
                call = Sent(self.now)
                self.one.goes(call)
                self.under_way.append(call)

    @precondition(lambda self: self.under_way)
    @rule(which=st.integers(0, 99), record=st.sampled_from("abcd"))
    def one_fails(self, which: int, record: str) -> None:
        call = self.under_way.pop(which % len(self.under_way))
        self.one.failed(record, self.now, started=call.started)
        self.one.ended(call)
        if self.one.is_open and self.opened_at is None:
            self.opened_at = self.now

    @precondition(lambda self: self.under_way)
    @rule(which=st.integers(0, 99), record=st.sampled_from("abcd"))
    def one_is_answered(self, which: int, record: str) -> None:
        call = self.under_way.pop(which % len(self.under_way))
        if self.one.answered(record, call.started):
            assert self.opened_at is not None
            assert call.started >= self.opened_at
            self.opened_at = None
        self.one.ended(call)

    @precondition(lambda self: self.under_way)
    @rule(which=st.integers(0, 99))
    def one_is_given_up(self, which: int) -> None:
        self.one.ended(self.under_way.pop(which % len(self.under_way)))

    @invariant()
    def at_most_one_probe(self) -> None:
        if self.opened_at is not None:
            assert sum(call.started > self.opened_at for call in self.under_way) <= 1

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        """An infinite wait has a probe that will end it; any other is short."""
        wait = self.one.wait(self.now)
        if wait == math.inf:
            assert self.under_way
        else:
            assert wait <= 1.25 * LONGEST_WAIT_S
        assert (self.one.outage(self.now) > 0) <= self.one.is_open


TestTraffic = Traffic.TestCase
