"""The budget: never more than its limits, however calls and answers interleave."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import UsageError
from schemas.policy import Policy
from schemas.reasons import FailureReason, ReviewReason, Route
from schemas.verdict import Facts, ReplyKind, Verdict, VerdictStatus
from scoring.place import Placement, place
from scoring.routing import RoutingRules
from tests.support.builders import TEMPLATE_NAMES, good_reply, verdicts_from_replies
from verifier.budget import Budget, BudgetLimits, Purse
from verifier.fault import Action

DAY = timedelta(days=1)
MORNING = datetime(2026, 12, 1, 8, tzinfo=UTC).timestamp()
MIDNIGHT = datetime(2026, 12, 2, tzinfo=UTC).timestamp()


def budget_of(
    max_calls: int | None = None,
    max_cost_usd: float | None = None,
    period: timedelta | None = None,
) -> Budget:
    return Budget(BudgetLimits(max_calls, max_cost_usd, period))


def test_no_limit_is_no_limit() -> None:
    """Without limits everything may be sent."""
    budget = budget_of()
    assert budget.take(MORNING, 10**9, 1e9) is not None
    assert budget.take(MORNING, 10**9, 1e9) is not None


def test_calls_are_counted_to_the_last() -> None:
    """The last call within the limit may be sent, the next not; nor a record that needs more."""
    budget = budget_of(max_calls=7)
    assert budget.take(MORNING, 5) is not None
    assert budget.take(MORNING, 5) is None
    assert budget.take(MORNING, 2) is not None
    assert budget.take(MORNING, 1) is None
    assert budget.calls == 7


@pytest.mark.parametrize(
    ("most", "costs", "may"),
    [
        (1.0, [0.7, 0.1, 0.2], False),
        (0.3, [0.1, 0.1], True),
        (0.3, [0.1, 0.1, 0.1], False),
        (0.000001, [0.0000004, 0.0000004], True),
        (0.000001, [0.0000004, 0.0000004, 0.0000002], False),
    ],
)
def test_dollars_are_summed_exactly(most: float, costs: list[float], may: bool) -> None:
    """0.7 + 0.1 + 0.2 is 1, here."""
    budget = budget_of(max_cost_usd=most)
    for cost in costs:
        assert budget.take(MORNING, 1, cost) is not None
    assert (budget.take(MORNING, 1) is not None) is may
    assert budget.cost_usd == pytest.approx(sum(costs), abs=1e-12)


def test_expected_cost_is_held_and_corrected() -> None:
    """What calls in flight are expected to cost counts at once; the answer's cost replaces it."""
    budget = budget_of(max_cost_usd=1.0)
    period = budget.take(MORNING, 1, 0.9)
    assert period is not None
    assert budget.take(MORNING, 1, 0.2) is None
    budget.correct(period, 0, 0.3 - 0.9)
    assert budget.cost_usd == 0.3
    assert budget.take(MORNING, 1, 0.70001) is None
    assert budget.take(MORNING, 1, 0.7) is not None


def test_each_period_has_the_budget_anew() -> None:
    """A day is one of UTC; what was spent in it is forgotten at its end, calls and dollars."""
    budget = budget_of(max_calls=2, max_cost_usd=1.0, period=DAY)
    first = budget.take(MORNING, 2, 1.0)
    assert first is not None
    assert budget.take(MIDNIGHT - 0.001, 1) is None
    assert budget.begins_anew() == MIDNIGHT
    assert budget.take(MIDNIGHT, 2, 1.0) is not None
    budget.correct(first, -1, -0.5)
    assert (budget.calls, budget.cost_usd) == (2, 1.0), "a late correction is no credit"


def test_a_clock_that_goes_back_gives_nothing_back() -> None:
    """What was spent in a later period stays spent."""
    budget = budget_of(max_calls=1, period=DAY)
    assert budget.take(MIDNIGHT + 1, 1) is not None
    assert budget.take(MORNING, 1) is None
    assert budget.take(MIDNIGHT + 2, 1) is None


def test_without_a_period_nothing_comes_back() -> None:
    """Years later the budget is still spent."""
    budget = budget_of(max_calls=1)
    assert budget.take(MORNING, 1) is not None
    assert budget.take(MORNING + 10 * 365 * 86400, 1) is None
    assert budget.begins_anew() is None


@settings(deadline=None)
@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.floats(0, 3600), st.integers(1, 5)), max_size=60),
)
def test_no_period_sees_more_calls_than_its_limit(
    most: int, attempts: list[tuple[float, int]]
) -> None:
    """Whatever is tried and when, an hour's calls never pass the limit."""
    budget = budget_of(max_calls=most, period=timedelta(hours=1))
    now, sent = MORNING, dict[int, int]()
    for seconds, calls in attempts:
        now += seconds
        if budget.take(now, calls) is not None:
            sent[int(now // 3600)] = sent.get(int(now // 3600), 0) + calls
    assert all(calls <= most for calls in sent.values())


def test_a_record_is_paid_for_as_a_whole() -> None:
    """Its first call takes what all of them need; so another record is not begun in vain."""
    budget = budget_of(max_calls=9)
    first, second = Purse(budget, 5), Purse(budget, 5)
    assert first.pay(MORNING, 0.0)
    assert budget.calls == 5
    assert not second.pay(MORNING, 0.0)
    assert [first.pay(MORNING, 0.0) for _ in range(8)] == [True] * 8, "four retries are left"
    assert not first.pay(MORNING, 0.0)
    assert budget.calls == 9


def test_a_record_that_was_refused_stays_so() -> None:
    """Also when others give money back: half a record is worth nothing."""
    budget = budget_of(max_calls=5)
    first, second, third = (Purse(budget, 5) for _ in range(3))
    assert first.pay(MORNING, 0.0)
    assert not second.pay(MORNING, 0.0)
    first.close()
    assert budget.calls == 1
    assert not second.pay(MORNING, 0.0)
    assert not first.pay(MORNING, 0.0), "nothing is sent for a record that is done"
    assert not third.pay(MORNING, 0.0), "four calls are left, it needs five"


def test_a_purse_counts_dollars_as_they_are_known() -> None:
    """What is expected, then what the answer cost, and for calls never sent nothing."""
    budget = budget_of(max_cost_usd=1.0)
    purse = Purse(budget, 5)
    assert purse.pay(MORNING, 0.1)
    assert budget.cost_usd == 0.5
    purse.answered(0.02)
    assert budget.cost_usd == pytest.approx(0.42)
    purse.close()
    assert budget.cost_usd == pytest.approx(0.02)


@pytest.mark.parametrize(("calls", "processes", "share"), [(10, 3, 3), (4, 4, 1), (7, 1, 7)])
def test_shares_stay_within_the_whole(calls: int, processes: int, share: int) -> None:
    """Each process gets an equal whole number of calls, and its part of the dollars."""
    limits = BudgetLimits(calls, 6.0, DAY).share(processes)
    assert limits == BudgetLimits(share, 6.0 / processes, DAY)
    assert BudgetLimits().share(processes) == BudgetLimits()


def test_more_processes_than_calls_are_refused() -> None:
    """A share of no call is a mistake, and the remedy is named."""
    with pytest.raises(UsageError, match="--max_calls 3 cannot be shared by 4 processes"):
        BudgetLimits(max_calls=3).share(4)


def test_an_exhausted_budget_is_no_ones_fault() -> None:
    """The call is given up at once, and the detail says which limit it was and until when."""
    budget = budget_of(max_calls=5, max_cost_usd=0.25, period=DAY)
    budget.take(MORNING, 1)
    fault = budget.exhausted()
    assert (fault.action, fault.reason) == (Action.GIVE_UP, FailureReason.BUDGET_EXHAUSTED)
    assert fault.detail == (
        "the budget is spent until 2026-12-02 00:00 UTC (--max_calls 5, --max_cost_usd 0.25)"
    )
    assert budget_of(max_calls=5).exhausted().detail == "the budget is spent (--max_calls 5)"


def skipped(template: str) -> Verdict:
    return Verdict(
        record_id="r",
        template=template,
        kind=ReplyKind.DOCUMENT_SCORE,
        asked_fields=("a",),
        status=VerdictStatus.SKIPPED,
        facts=Facts(fields=("a",)),
        reason=FailureReason.BUDGET_EXHAUSTED,
        detail=budget_of(max_calls=1).exhausted().detail,
    )


@pytest.mark.parametrize("known", [0, 2, 4])
def test_skipped_calls_send_the_record_to_review(known: int) -> None:
    """With no verdict and with some: a person sees the record, and why; none is a dead letter."""
    good = {name: good_reply(name, ["a"]) for name in TEMPLATE_NAMES[:known]}
    verdicts = verdicts_from_replies(["a"], good)
    verdicts += [skipped(name) for name in TEMPLATE_NAMES[known:]]
    placed = place("r", Facts(fields=("a",)), verdicts, RoutingRules(Policy()))
    assert isinstance(placed, Placement)
    assert placed.decision.route is Route.HUMAN_REVIEW
    assert ReviewReason.BUDGET_EXHAUSTED.value in placed.decision.reasons
