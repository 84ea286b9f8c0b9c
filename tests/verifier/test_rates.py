"""Requests and tokens a minute, the budget of retries, and what a request costs in tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier import rates
from verifier.rates import Flow, RetryBudget, TokenEstimate


def sent_within(flow: Flow, seconds: float, amount: float = 1, start: float = 0.0) -> list[float]:
    """When requests go if there is always one that waits."""
    now, times = start, list[float]()
    while True:
        wait = flow.wait(now)
        if now + wait >= start + seconds:
            return times
        now += wait
        if not wait:
            flow.take(amount)
            times.append(now)


@pytest.mark.parametrize(
    ("per_minute", "at_once", "in_a_minute"),
    [(600, 10, 610), (60, 1, 60), (30, 1, 30), (1, 1, 1), (6000, 100, 6100), (0.5, 1, 1)],
)
def test_requests_flow_at_their_rate(per_minute: float, at_once: int, in_a_minute: int) -> None:
    """A second's worth at once, then evenly: about the figure in the first minute."""
    times = sent_within(Flow(per_minute), 60)
    assert times.count(0.0) == at_once
    assert in_a_minute - 1 <= len(times) <= in_a_minute
    gaps = [b - a for a, b in zip(times[at_once:], times[at_once + 1 :], strict=False)]
    assert all(gap == pytest.approx(60 / per_minute, abs=0.0011) for gap in gaps)


def test_what_was_not_used_is_saved_up_for_one_second_only() -> None:
    """An idle hour brings no burst."""
    flow = Flow(600)
    sent_within(flow, 5)
    assert len(sent_within(flow, 0.05, start=3600)) == 10


def test_an_overdrawn_allowance_is_waited_for() -> None:
    """A request of 3,000 tokens at 6,000 a minute: the next goes 30 s later."""
    flow = Flow(6000)
    assert flow.wait(0) == 0
    flow.take(3000)
    assert flow.wait(0) == pytest.approx((3000 - 100 + 1) / 100)
    assert flow.wait(20) == pytest.approx((3000 - 100 + 1) / 100 - 20)
    assert flow.wait(30) == 0


def test_what_was_counted_too_much_is_given_back() -> None:
    """No further than a second's worth."""
    flow = Flow(6000)
    flow.wait(0)
    flow.take(500)
    assert flow.wait(0) > 0
    flow.take(-450)
    assert flow.wait(0) == 0
    flow.take(-1e9)
    flow.take(100)
    assert flow.wait(0) == pytest.approx(0.01)


def test_a_wait_ends_when_it_said() -> None:
    """Rounding leaves no rest to wait for over and over; what is too short for a timer is none."""
    for per_minute in (0.7, 59, 600, 6000, 1e5):
        flow, now = Flow(per_minute), 0.0
        for _ in range(1000):
            wait = flow.wait(now)
            assert not wait or wait > 0.001
            now += wait
            assert flow.wait(now) == 0
            flow.take(1)


def test_a_clock_that_stands_or_jumps_back_gives_nothing() -> None:
    """Only time that passed counts."""
    flow = Flow(60)
    flow.wait(100)
    flow.take(1)
    assert flow.wait(100) == flow.wait(50) == pytest.approx(1)


@given(
    st.floats(0.1, 1e5),
    st.lists(st.tuples(st.floats(0, 120), st.floats(0, 5000)), min_size=1, max_size=50),
)
def test_no_span_of_time_sees_more_than_its_share(
    per_minute: float, events: list[tuple[float, float]]
) -> None:
    """What goes until any moment is at most the rate's worth, a second's, and the last request."""
    flow, now, sent, last = Flow(per_minute), 0.0, 0.0, 0.0
    flow.wait(0)
    for passed, amount in events:
        now += passed
        now += flow.wait(now)
        assert flow.wait(now) == 0
        assert sent <= per_minute / 60 * now + max(1.0, per_minute / 60) * 1.01
        flow.take(amount)
        sent, last = sent + amount, amount
    assert sent - last <= per_minute / 60 * now + max(1.0, per_minute / 60) * 1.01


def test_some_retries_may_go_at_once_then_one_a_second() -> None:
    """With no calls beside them, each further one waits a second longer."""
    budget = RetryBudget()
    waits = [budget.reserve(0) for _ in range(int(rates.RETRIES_AT_ONCE) + 3)]
    assert waits == [0.0] * int(rates.RETRIES_AT_ONCE) + [1.0, 2.0, 3.0]
    assert budget.reserve(10) == 0


def test_calls_bring_their_share_of_retries() -> None:
    """Half a retry for each: trouble adds at most half to the load, and one a second."""
    budget = RetryBudget()
    for _ in range(int(rates.RETRIES_AT_ONCE)):
        budget.reserve(0)
    for _ in range(1000):
        budget.called()
    waits = [budget.reserve(0) for _ in range(200)]
    assert waits.count(0.0) == rates.RETRIES_AT_ONCE
    budget = RetryBudget()
    waits = []
    for _ in range(500):
        budget.called()
        budget.called()
        waits.append(budget.reserve(0))
    assert set(waits) == {0.0}


@given(st.lists(st.floats(0, 3) | st.none(), max_size=300))
def test_retries_are_bounded_by_calls_and_time(events: list[float | None]) -> None:
    """None is a call, a number a retry after so many seconds: no moment sees more than may go."""
    budget, now, calls, due = RetryBudget(), 0.0, 0, list[float]()
    for event in events:
        if event is None:
            budget.called()
            calls += 1
        else:
            now += event
            due.append(now + budget.reserve(now))
            gone = sum(moment <= now for moment in due)
            bound = rates.RETRIES_AT_ONCE + rates.RETRIES_A_CALL * calls + now
            assert gone <= bound + 1e-6


def test_an_estimate_comes_to_what_requests_cost() -> None:
    """From nothing known to within a few percent, for prompts of any language."""
    for per_byte in (0.05, 0.25, 1.5):
        estimate = TokenEstimate()
        for _ in range(200):
            estimate.learn(4000, round(4000 * per_byte))
        assert estimate.tokens(10_000) == pytest.approx(10_000 * per_byte, rel=0.03)


def test_the_error_of_an_estimate_is_what_the_flow_must_still_take() -> None:
    """Estimated and corrected, a request takes exactly what it cost."""
    estimate = TokenEstimate()
    for actual in (100, 5000):
        guess = estimate.tokens(1000)
        assert guess + estimate.learn(1000, actual) == pytest.approx(actual)


def test_a_provider_that_counts_no_tokens_teaches_nothing() -> None:
    """0 is unknown, not free."""
    estimate = TokenEstimate()
    before = estimate.tokens(1000)
    assert estimate.learn(1000, 0) == estimate.learn(0, 50) == 0
    assert estimate.tokens(1000) == before
