"""The one place where a record goes, with some verdicts, with few, and with none."""

import pytest
from msgspec.structs import replace

from schemas.policy import Policy
from schemas.reasons import FailureReason as R
from schemas.reasons import Route
from schemas.scored import Usage
from schemas.verdict import CallUsage, Facts, Verdict, VerdictStatus
from scoring.aggregate import ScoreScale
from scoring.place import Placement, Unscorable, commonest_reason, place, total_usage
from scoring.routing import RoutingRules
from tests.support.builders import TEMPLATE_NAMES, verdicts

AB = ("a", "b")
FACTS = Facts(AB)
RULES = RoutingRules(Policy())
NONE = dict.fromkeys(TEMPLATE_NAMES)
REVIEWED = {R.REFUSAL, R.CONTENT_FILTER, R.BUDGET_EXHAUSTED}


def failed(*reasons: R) -> list[Verdict]:
    """Verdicts of the five templates, in order of name, that failed for these reasons."""
    return [replace(v, reason=r) for v, r in zip(verdicts(AB, NONE), reasons, strict=True)]


@pytest.mark.parametrize("reason", R)
def test_without_any_verdict(reason: R) -> None:
    """A dead letter, but for what a person should look at: that has no score and its reason."""
    placed = place("r", FACTS, failed(*[reason] * 5), RULES)
    if reason in REVIEWED:
        assert isinstance(placed, Placement)
        assert placed.scores.score is None
        assert [f.score for f in placed.scores.fields] == [None, None]
        assert placed.decision.route is Route.HUMAN_REVIEW
        assert reason.value in placed.decision.reasons
        assert placed.decision.untrustworthy_fields == AB
    else:
        assert isinstance(placed, Unscorable)
        assert placed.reason is reason


@pytest.mark.parametrize(
    ("reasons", "commonest"),
    [
        ((R.TIMEOUT, R.TIMEOUT, R.TIMEOUT, R.REFUSAL, R.REFUSAL), R.TIMEOUT),
        ((R.REFUSAL, R.TIMEOUT, R.REFUSAL, R.TIMEOUT, R.REFUSAL), R.REFUSAL),
        ((R.UNPARSEABLE, R.TIMEOUT, R.TIMEOUT, R.UNPARSEABLE, R.AUTH), R.UNPARSEABLE),
        ((R.TIMEOUT, R.UNPARSEABLE, R.TIMEOUT, R.UNPARSEABLE, R.AUTH), R.TIMEOUT),
    ],
)
def test_the_commonest_reason_counts(reasons: tuple[R, ...], commonest: R) -> None:
    """Of equally common ones the first in order of template, in whatever order they arrived."""
    given = failed(*reasons)
    assert commonest_reason(given) is commonest_reason(given[::-1]) is commonest
    assert isinstance(place("r", FACTS, given, RULES), Placement) is (commonest in REVIEWED)


def test_a_record_that_was_never_asked_about_is_lost_not_accepted() -> None:
    """No verdicts at all are no verdict."""
    placed = place("r", FACTS, [], RULES)
    assert isinstance(placed, Unscorable)
    assert placed.reason is R.PROVIDER_ERROR


def test_the_message_quotes_a_call_that_failed_so() -> None:
    """With what the provider said, where it said something."""
    given = failed(R.AUTH, R.TIMEOUT, R.TIMEOUT, R.TIMEOUT, R.TIMEOUT)
    given = [
        replace(given[0], detail="bad key"),
        given[1],
        replace(given[2], detail="no answer in 60 s"),
        *given[3:],
    ]
    placed = place("r", FACTS, given, RULES)
    assert isinstance(placed, Unscorable)
    assert placed.message == ("none of 5 verifier calls gave a verdict; timeout: no answer in 60 s")
    silent = place("r", FACTS, failed(*[R.TIMEOUT] * 5), RULES)
    assert isinstance(silent, Unscorable)
    assert silent.message == "none of 5 verifier calls gave a verdict"


@pytest.mark.parametrize("kept", TEMPLATE_NAMES)
def test_a_single_verdict_is_known_and_reviewed(kept: str) -> None:
    """Some verdicts, but too few: human review with what is known."""
    given = verdicts(AB, {name: None for name in TEMPLATE_NAMES if name != kept})
    placed = place("r", FACTS, given, RULES)
    assert isinstance(placed, Placement)
    assert placed.scores.score is not None
    assert (placed.scores.n_verdicts, placed.scores.n_templates) == (1, 5)
    assert placed.decision.route is Route.HUMAN_REVIEW
    assert "too_few_verdicts" in placed.decision.reasons


def test_the_scale_reaches_the_scores() -> None:
    """Raw scores are plain means: two ratings of 1 and two audits of 0.9."""
    placed = place("r", FACTS, verdicts(AB, {}), RULES, ScoreScale.RAW)
    assert isinstance(placed, Placement)
    assert [f.score for f in placed.scores.fields] == pytest.approx([0.95, 0.95])


def test_usage_adds_up() -> None:
    """Calls are attempts, failed ones included; latency is that of the slowest; a good verdict
    without a call came from the cache."""
    usages = (
        CallUsage(2, 100, 10, 50, 0.5, 900.0),
        CallUsage(1, 100, 20, 0, 0.125, 1500.0),
        CallUsage(1, 100, 30, 0, 0.25, 700.0),
        CallUsage(3, 0, 0, 0, 0.0, None),
        CallUsage(cost_usd=0.0),
    )
    given = [replace(v, usage=u) for v, u in zip(verdicts(AB, {}), usages, strict=True)]
    given[3] = replace(given[3], status=VerdictStatus.FAILED, reason=R.TIMEOUT)
    assert total_usage(given) == Usage(7, 300, 60, 50, 0.875, 1500.0, from_cache=1)
    placed = place("r", FACTS, given, RULES)
    assert isinstance(placed, Placement)
    assert placed.usage == total_usage(given)


def test_usage_without_prices_or_calls() -> None:
    """An unknown cost is null, not 0, also where others are known; so is the latency of no call."""
    assert total_usage([]) == Usage(0, 0, 0, 0, None, None)
    one_unknown = [*[CallUsage(1, 9, 9, 0, 0.5)] * 4, CallUsage(1, 9, 9)]
    mixed = [replace(v, usage=u) for v, u in zip(verdicts(AB, {}), one_unknown, strict=True)]
    assert total_usage(mixed).cost_usd is None
    placed = place("r", FACTS, [replace(v, usage=CallUsage(4)) for v in failed(*[R.AUTH] * 5)], RULES)  # fmt: skip
    assert isinstance(placed, Unscorable)
    assert placed.attempts == 20
