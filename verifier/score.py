"""From a verified record to a scored one."""

from msgspec.structs import replace

from schemas.dead_letter import DeadLetter, lost_record
from schemas.record import Record
from schemas.scored import FieldScore, ScoredRecord
from scoring.aggregate import ScoreScale
from scoring.evidence import Document
from scoring.place import Placement, Unscorable, place
from scoring.routing import RoutingRules
from verifier.record_verifier import Verified


def score_verified(
    verified: Verified, rules: RoutingRules, scale: ScoreScale = ScoreScale.RESCALED
) -> ScoredRecord | DeadLetter:
    """The record with scores, evidence and decision, or its dead letter."""
    record, verdicts = verified.record, verified.verdicts
    placed = place(record.id, verified.facts, verdicts, rules, scale)
    if isinstance(placed, Unscorable):
        return lost_record(record, placed.reason, placed.message, placed.attempts)
    return _scored(record, verified, placed, rules)


def _scored(
    record: Record, verified: Verified, placed: Placement, rules: RoutingRules
) -> ScoredRecord:
    arrivals = [v.arrived_at for v in verified.verdicts if v.arrived_at is not None]
    first = verified.verdicts[0]
    return ScoredRecord(
        record=record,
        scores=replace(placed.scores, fields=_with_evidence(record, placed.scores.fields)),
        decision=placed.decision,
        usage=placed.usage,
        verifier_model=first.model_asked or "",
        template_set=first.template_set or "",
        policy_version=rules.policy.version,
        scored_at=max(arrivals, default=None),
    )


def _with_evidence(record: Record, fields: tuple[FieldScore, ...]) -> tuple[FieldScore, ...]:
    document = Document(record.document, record.document_index)
    return tuple(
        [
            FieldScore(
                f.field,
                f.score,
                f.explanation,
                document.find(record.value(f.field)),
                f.graded,
                f.audits,
            )
            for f in fields
        ]
    )
