"""The scored record: trustworthiness of a document and its fields, and where it goes."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from schemas.evidence import Evidence
from schemas.reasons import Route
from schemas.record import Record


class FieldScore(Struct, frozen=True):
    """One field's trustworthiness in [0, 1], or None when no verifier scored it."""

    field: str
    score: float | None
    explanation: str | None = None
    evidence: Evidence | None = None
    graded: int = 0
    audits: int = 0


class Scores(Struct, frozen=True):
    """What the verdicts on one record say together.

    `signals` holds the document-level signal of each template that gave one; `n_verdicts`
    counts the templates with at least one good verdict. `score` is None without signals.
    """

    score: float | None
    explanation: str | None
    fields: tuple[FieldScore, ...]
    signals: Mapping[str, float]
    n_verdicts: int
    n_templates: int


class Decision(Struct, frozen=True):
    """Where a record goes, why, and how likely it was to be reviewed."""

    route: Route
    reasons: tuple[str, ...]
    review_probability: float
    untrustworthy_fields: tuple[str, ...]


class Usage(Struct, frozen=True):
    """What a record's verifier calls cost together; `latency_ms` is of the slowest call.

    `from_cache` verdicts needed no call.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float | None
    latency_ms: float | None
    from_cache: int = 0


class ScoredRecord(Struct, frozen=True):
    """A record with its scores and its route: an output row."""

    record: Record
    scores: Scores
    decision: Decision
    usage: Usage
    verifier_model: str
    template_set: str
    policy_version: str
    scored_at: datetime | None

    @property
    def trustworthiness_score(self) -> float | None:
        """The document's score in [0, 1], None without any signal."""
        return self.scores.score

    @property
    def trustworthiness_explanation(self) -> str | None:
        """What speaks most against the document."""
        return self.scores.explanation

    @property
    def per_field_scores(self) -> dict[str, FieldScore]:
        """The fields' scores, explanations and evidence, by name."""
        return {field.field: field for field in self.scores.fields}

    @property
    def untrustworthy_fields(self) -> tuple[str, ...]:
        """The fields below their threshold or without a score, lowest first."""
        return self.decision.untrustworthy_fields

    @property
    def route(self) -> Route:
        """Auto-accept or human review; `decision` says why."""
        return self.decision.route
