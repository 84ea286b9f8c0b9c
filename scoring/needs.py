"""Whether the verdicts so far are all that acceptance needs."""

from collections.abc import Iterable, Sequence

from schemas.policy import Policy
from schemas.verdict import ReplyKind, Verdict, VerdictStatus
from scoring.templates import Template


def needs_are_met(
    policy: Policy,
    templates: Sequence[Template],
    fields: Iterable[str],
    verdicts: Sequence[Verdict],
) -> bool:
    """Whether `verdicts` are enough for `policy`, whatever they say.

    That is: `min_verdicts` templates, and for each field one graded rating and one audit, as far
    as the template set has both.
    """
    good = [v for v in verdicts if v.status is VerdictStatus.OK]
    if len({v.template for v in good}) < policy.accept.verdicts_needed(len(templates)):
        return False
    for kind in {t.reply for t in templates} - {ReplyKind.DOCUMENT_SCORE}:
        scored = set[str]().union(*(v.reading.field_scores for v in good if v.kind is kind))
        if not scored.issuperset(fields):
            return False
    return True
