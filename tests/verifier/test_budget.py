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
from verifier.budget import Budget, BudgetLimits
from verifier.fault import Action

DAY = timedelta(days=1)
MORNING = datetime(2026, 12, 1, 8, tzinfo=UTC).timestamp()
MIDNIGHT = datetime(2026, 12, 2, tzinfo=UTC).timestamp()


def test_no_limit_is_no_limit() -> None:
    """Without limits everything may be sent."""
    budget = Budget()
    budget.spent(10**9, 1e9)
    assert budget.may_send(MORNING, calls=10**9, cost_usd=1e9)


def test_calls_are_counted_to_the_last() -> None:
    """The last call within the limit may be sent, the next not; nor a record that needs more."""
    budget = Budget(max_calls=7)
    budget.spent(5, 0.0)
    assert not budget.may_send(MORNING, calls=5)
    assert budget.may_send(MORNING, calls=2)
    budget.spent(2, 0.0)
    assert not budget.may_send(MORNING)
    assert budget.calls == 7


@pytest.mark.parametrize(
    ("most", "costs", "may"),
    [
        (1.0, [0.7, 0.1, 0.2], False),
        (0.3, [0.1, 0.1], True),
        (0.3, [0.1, 0.1, 0.1], False),
        (0.000001, [0.0000004, 0.0000004], True),
        (0.000001, [0.0000004] * 3, False),
    ],
)
def test_dollars_are_summed_exactly(most: float, costs: list[float], may: bool) -> None:
    """0.7 + 0.1 + 0.2 is 1, here."""
    budget = Budget(max_cost_usd=most)
    for cost in costs:
        budget.spent(1, cost)
    assert budget.may_send(MORNING) is may
    assert budget.cost_usd == pytest.approx(sum(costs), abs=1e-12)


def test_expected_cost_is_held_and_corrected() -> None:
    """What calls in flight are expected to cost counts at once; the answer's cost replaces it."""
    budget = Budget(max_cost_usd=1.0)
    budget.spent(1, 0.9)
    assert not budget.may_send(MORNING, cost_usd=0.2)
    budget.spent(0, 0.3 - 0.9)
    assert budget.cost_usd == 0.3
    assert budget.may_send(MORNING, cost_usd=0.7)
    assert not budget.may_send(MORNING, cost_usd=0.70001)


def test_each_period_has_the_budget_anew() -> None:
    """A day is one of UTC; what was spent in it is forgotten at its end, calls and dollars."""
    budget = Budget(max_calls=2, max_cost_usd=1.0, period=DAY)
    assert budget.may_send(MORNING)
    budget.spent(2, 1.0)
    assert not budget.may_send(MIDNIGHT - 0.001)
    assert budget.begins_anew() == MIDNIGHT
    assert budget.may_send(MIDNIGHT, calls=2, cost_usd=1.0)
    budget.spent(0, -0.5)
    assert budget.cost_usd == 0.0, "a late correction is no credit"


def test_a_clock_that_goes_back_gives_nothing_back() -> None:
    """What was spent in a later period stays spent."""
    budget = Budget(max_calls=1, period=DAY)
    assert budget.may_send(MIDNIGHT + 1)
    budget.spent(1, 0.0)
    assert not budget.may_send(MORNING)
    assert not budget.may_send(MIDNIGHT + 2)


def test_without_a_period_nothing_comes_back() -> None:
    """Years later the budget is still spent."""
    budget = Budget(max_calls=1)
    budget.spent(1, 0.0)
    assert not budget.may_send(MORNING + 10 * 365 * 86400)
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
    budget = Budget(max_calls=most, period=timedelta(hours=1))
    now, sent = MORNING, dict[int, int]()
    for seconds, calls in attempts:
        now += seconds
        if budget.may_send(now, calls=calls):
            budget.spent(calls, 0.0)
            sent[int(now // 3600)] = sent.get(int(now // 3600), 0) + calls
    assert all(calls <= most for calls in sent.values())


@pytest.mark.parametrize(("calls", "processes", "share"), [(10, 3, 3), (4, 4, 1), (7, 1, 7)])
def test_shares_stay_within_the_whole(calls: int, processes: int, share: int) -> None:
    """Each process gets an equal whole number of calls, and its part of the dollars."""
    limits = BudgetLimits(calls, 6.0, DAY).share(processes)
    assert limits == BudgetLimits(share, 6.0 / processes, DAY)
    assert BudgetLimits().share(processes) == BudgetLimits()


def test_more_processes_than_calls_are_refused() -> None:
    """A share of no call is a mistake, and the remedy is named."""
    with pytest.raises(UsageError, match=r"--max_calls 3 cannot be shared by 4 processes.*--cache"):
        BudgetLimits(max_calls=3).share(4)


def test_an_exhausted_budget_is_no_ones_fault() -> None:
    """The call is given up at once, and the detail says which limit it was and until when."""
    budget = Budget(max_calls=5, max_cost_usd=0.25, period=DAY)
    budget.may_send(MORNING)
    fault = budget.exhausted()
    assert (fault.action, fault.reason) == (Action.GIVE_UP, FailureReason.BUDGET_EXHAUSTED)
    assert fault.detail == (
        "the budget is spent until 2026-12-02 00:00 UTC (--max_calls 5, --max_cost_usd 0.25)"
    )
    assert Budget(max_calls=5).exhausted().detail == "the budget is spent (--max_calls 5)"


def skipped(template: str) -> Verdict:
    return Verdict(
        record_id="r",
        template=template,
        kind=ReplyKind.DOCUMENT_SCORE,
        asked_fields=("a",),
        status=VerdictStatus.SKIPPED,
        facts=Facts(fields=("a",)),
        reason=FailureReason.BUDGET_EXHAUSTED,
        detail=Budget(max_calls=1).exhausted().detail,
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
