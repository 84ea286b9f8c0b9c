"""From a record and its verdicts to the one place where it goes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from schemas.reasons import FailureReason
from schemas.scored import Decision, Scores, Usage
from schemas.verdict import Facts, Verdict, VerdictStatus
from scoring.aggregate import ScoreScale, aggregate
from scoring.routing import REVIEWED_FAILURES, RoutingRules, route


class Placement(Struct, frozen=True):
    """A record's scores and its route."""

    scores: Scores
    decision: Decision
    usage: Usage


@dataclass(frozen=True, slots=True)
class Unscorable:
    """Why a record has no verdict at all: it becomes a dead letter."""

    reason: FailureReason
    message: str
    attempts: int


def place(
    record_id: str,
    facts: Facts,
    verdicts: Sequence[Verdict],
    rules: RoutingRules,
    scale: ScoreScale = ScoreScale.RESCALED,
) -> Placement | Unscorable:
    """The record's scores and route, or why it cannot have any."""
    if not any(v.status is VerdictStatus.OK for v in verdicts):
        reason = commonest_reason(verdicts)
        if reason not in REVIEWED_FAILURES:
            return Unscorable(reason, _message(reason, verdicts), total_usage(verdicts).calls)
    scores = aggregate(facts.fields, verdicts, scale)
    decision = route(rules, record_id, facts, scores, verdicts)
    return Placement(scores, decision, total_usage(verdicts))


def commonest_reason(verdicts: Sequence[Verdict]) -> FailureReason:
    """Of equally common reasons, the first in order of template."""
    ordered = sorted(verdicts, key=lambda v: v.template)
    counts = Counter(v.reason for v in ordered if v.reason is not None)
    return counts.most_common(1)[0][0] if counts else FailureReason.PROVIDER_ERROR


def _message(reason: FailureReason, verdicts: Sequence[Verdict]) -> str:
    details = next((v.detail for v in verdicts if v.reason is reason and v.detail), None)
    summary = f"none of {len(verdicts)} verifier calls gave a verdict"
    return f"{summary}; {reason.value}: {details}" if details else summary


def total_usage(verdicts: Sequence[Verdict]) -> Usage:
    """What the calls of one record cost together."""
    calls = [v.usage for v in verdicts]
    costs = [c.cost_usd for c in calls]
    latencies = [c.latency_ms for c in calls if c.latency_ms is not None]
    return Usage(
        calls=sum([c.attempts for c in calls]),
        prompt_tokens=sum([c.prompt_tokens for c in calls]),
        completion_tokens=sum([c.completion_tokens for c in calls]),
        cached_tokens=sum([c.cached_tokens for c in calls]),
        cost_usd=_total(costs) if costs else None,
        latency_ms=max(latencies, default=None),
        from_cache=sum([v.status is VerdictStatus.OK and v.usage.attempts == 0 for v in verdicts]),
    )


def _total(costs: Sequence[float | None]) -> float | None:
    """Not known if one of them is not."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
