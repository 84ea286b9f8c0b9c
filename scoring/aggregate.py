"""From the verdicts on one record to its scores (CONSTRUCT, arXiv 2603.18014).

A signal that did not arrive is left out of every mean; what that must not lead to is the
business of `scoring.routing`.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from schemas.scored import FieldScore, Scores
from schemas.verdict import Reading, ReplyKind, Verdict, VerdictStatus
from scoring.templates import AUDIT_CLEAR, AUDIT_FLAGGED

LOWEST, HIGHEST = 0.001, 0.999
"""The range to which field scores are rescaled."""


class ScoreScale(StrEnum):
    """Whether field scores are rescaled from the range that their signals can reach."""

    RESCALED = "rescaled"
    RAW = "raw"


class TemplateReading(Struct, frozen=True):
    """All that one template said of a record, its chunks put together.

    `signal` is its document-level signal, None where it cannot give one.
    """

    template: str
    kind: ReplyKind
    signal: float | None
    reading: Reading


def harmonic_mean(scores: Sequence[float]) -> float:
    """min(1, n / Σ 1/(s + 0.001)): low as soon as one score is low, and never above 1."""
    return min(1.0, len(scores) / sum([1 / (s + 0.001) for s in scores]))


def mean(values: Collection[float]) -> float:
    """The arithmetic mean of at least one value."""
    return sum(values) / len(values)


def aggregate(
    fields: Sequence[str], verdicts: Sequence[Verdict], scale: ScoreScale = ScoreScale.RESCALED
) -> Scores:
    """The scores of a record with `fields`, from its `verdicts` in any order."""
    readings = _by_template(fields, verdicts)
    of_fields = [r for r in readings if r.kind is not ReplyKind.DOCUMENT_SCORE]
    signals = {r.template: r.signal for r in readings if r.signal is not None}
    return Scores(
        score=mean(signals.values()) if signals else None,
        explanation=_document_explanation(readings),
        fields=tuple([_field_score(field, of_fields, scale) for field in fields]),
        signals=signals,
        n_verdicts=len(readings),
        n_templates=len({v.template for v in verdicts}),
    )


def _by_template(fields: Sequence[str], verdicts: Sequence[Verdict]) -> list[TemplateReading]:
    """One reading for each template with a good verdict, in order of name."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.template, []).append(verdict)
    readings = [_template_reading(fields, groups[name]) for name in sorted(groups)]
    return [reading for reading in readings if reading is not None]


def _template_reading(fields: Sequence[str], chunks: Sequence[Verdict]) -> TemplateReading | None:
    good = [v for v in chunks if v.status is VerdictStatus.OK]
    if not good:
        return None
    if len(good) > 1:
        good.sort(key=lambda v: v.asked_fields)
    reading = good[0].reading if len(good) == 1 else _merge([v.reading for v in good])
    kind = chunks[0].kind
    if kind is ReplyKind.FIELD_SCORES:
        signal = _all_fields(fields, reading.field_scores)
    else:
        signal = reading.document_score if len(good) == len(chunks) else None
    return TemplateReading(chunks[0].template, kind, signal, reading)


def _merge(chunks: Sequence[Reading]) -> Reading:
    """Chunks as one reading; the document is as good as its worst chunk."""
    scores = [c.document_score for c in chunks]
    known = [s for s in scores if s is not None]
    worst = min(chunks, key=lambda c: 1.0 if c.document_score is None else c.document_score)
    return Reading(
        document_score=min(known) if len(known) == len(scores) else None,
        explanation=worst.explanation,
        field_scores={f: s for c in chunks for f, s in c.field_scores.items()},
        field_explanations={f: t for c in chunks for f, t in c.field_explanations.items()},
        unmatched_names=tuple(n for c in chunks for n in c.unmatched_names),
    )


def _all_fields(fields: Sequence[str], scores: Mapping[str, float]) -> float | None:
    """The harmonic mean over `fields`, None unless every one of them was scored."""
    found = [scores[f] for f in fields if f in scores]
    return harmonic_mean(found) if found and len(found) == len(fields) else None


def _document_explanation(readings: Sequence[TemplateReading]) -> str | None:
    """That of the lowest document signal that has one; ties go by name of template."""
    scored = [r for r in readings if r.signal is not None]
    for reading in sorted(scored, key=lambda r: (r.signal, r.template)):
        text = _explanation_of(reading)
        if text:
            return text
    return None


def _explanation_of(reading: TemplateReading) -> str | None:
    if reading.kind is not ReplyKind.FIELD_SCORES:
        return reading.reading.explanation
    scores, texts = reading.reading.field_scores, reading.reading.field_explanations
    lowest = min(scores, key=lambda f: scores[f])
    return f"{lowest}: {texts[lowest]}" if lowest in texts else None


def _field_score(field: str, readings: Sequence[TemplateReading], scale: ScoreScale) -> FieldScore:
    judged = [r for r in readings if field in r.reading.field_scores]
    if not judged:
        return FieldScore(field, None)
    score = mean([r.reading.field_scores[field] for r in judged])
    audits = sum([r.kind is ReplyKind.INCORRECT_FIELDS for r in judged])
    if scale is ScoreScale.RESCALED:
        score = _rescale(score, audits / len(judged))
    return FieldScore(
        field, score, _field_explanation(field, judged), None, len(judged) - audits, audits
    )


def _rescale(score: float, audits: float) -> float:
    """A mean signal, of which the share `audits` came from audits, on [LOWEST, HIGHEST]."""
    low = audits * AUDIT_FLAGGED
    high = 1 - audits * (1 - AUDIT_CLEAR)
    return LOWEST + (HIGHEST - LOWEST) * (score - low) / (high - low)


def _field_explanation(field: str, judged: Sequence[TemplateReading]) -> str | None:
    """That of the lowest signal for `field` that has one; ties go by name of template."""
    explained = [r for r in judged if r.reading.field_explanations.get(field)]
    if not explained:
        return None
    lowest = min(explained, key=lambda r: (r.reading.field_scores[field], r.template))
    return lowest.reading.field_explanations[field]
