"""The adaptive number of requests in flight."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier.concurrency import Concurrency


def halved(limit: int, times: int) -> Concurrency:
    one = Concurrency(limit)
    for number in range(times):
        one.overloaded(started=number, now=number + 0.5)
    return one


@pytest.mark.parametrize(
    ("limit", "times", "allowed"),
    [
        (64, 0, 64),
        (64, 1, 32),
        (64, 3, 8),
        (64, 6, 1),
        (64, 20, 1),
        (5, 1, 2),
        (3, 1, 1),
        (1, 1, 1),
    ],
)
def test_it_halves_down_to_one(limit: int, times: int, allowed: int) -> None:
    """Each time that a call sent since the last halving is turned away."""
    assert halved(limit, times).allowed == allowed


def test_all_of_one_round_count_once() -> None:
    """64 in flight are turned away together: that halves the limit, and no more."""
    one = Concurrency(64)
    for number in range(64):
        one.overloaded(started=1.0, now=2.0 + number / 100)
    assert one.allowed == 32
    one.overloaded(started=2.0, now=3.0)
    assert one.allowed == 16


def test_it_doubles_with_each_round_of_answers_up_to_the_limit() -> None:
    """One more for each answer."""
    one, rounds = halved(64, 6), []
    while one.allowed < 64:
        for _ in range(one.allowed):
            one.succeeded()
        rounds.append(one.allowed)
    assert rounds == [2, 4, 8, 16, 32, 64]
    one.succeeded()
    one.overloaded(100, 101)
    assert one.allowed == 32


def test_after_an_outage_it_begins_with_few() -> None:
    """With no more than before it, and grows from there."""
    one = Concurrency(64)
    one.restart()
    assert one.allowed == Concurrency.RESTART
    one.succeeded()
    assert one.allowed == Concurrency.RESTART + 1
    low = halved(64, 5)
    low.restart()
    assert low.allowed == 2


def test_a_lowered_limit_holds_at_once_and_halving_starts_from_it() -> None:
    """Another stage on the endpoint asked for less."""
    one = Concurrency(64)
    one.limit = 10
    assert one.allowed == 10
    one.succeeded()
    assert one.allowed == 10
    one.overloaded(0, 1)
    assert one.allowed == 5


@given(
    st.integers(1, 200),
    st.lists(st.tuples(st.sampled_from(["ok", "full", "restart"]), st.floats(0, 100)), max_size=80),
)
def test_it_stays_between_one_and_the_limit(limit: int, events: list[tuple[str, float]]) -> None:
    """Whatever happens; and an answer never lowers it, nor a refusal raise it."""
    one, now = Concurrency(limit), 0.0
    for kind, passed in events:
        before, now = one.allowed, now + passed
        if kind == "ok":
            one.succeeded()
            assert before <= one.allowed <= before + 1
        elif kind == "full":
            one.overloaded(now - 1, now)
            assert one.allowed <= before
        else:
            one.restart()
            assert one.allowed == min(before, Concurrency.RESTART)
        assert 1 <= one.allowed <= limit
