"""The verdict: what became of one verifier call."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field

from schemas.reasons import FailureReason


class VerdictStatus(StrEnum):
    """Whether the call gave at least one signal (`ok`), gave none, or was never made."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class ReplyKind(StrEnum):
    """What a template asks for."""

    DOCUMENT_SCORE = "document_score"
    FIELD_SCORES = "field_scores"
    INCORRECT_FIELDS = "incorrect_fields"


class Facts(Struct, frozen=True):
    """What routing must know of a record beside its scores; kept in every verdict.

    `fields` are all the record's fields in order, `empty_fields` those that hold null or
    nothing, the rest are messages.
    """

    fields: tuple[str, ...]
    empty_fields: tuple[str, ...] = ()
    schema_violations: tuple[str, ...] = ()
    instruction_like_text: tuple[str, ...] = ()


class Reading(Struct, frozen=True):
    """What one reply says, after parsing.

    `document_score` and `field_scores` are signals in [0, 1]; a field that the reply did not
    score is absent. `unmatched_names` are names the reply listed that fit no field.
    """

    document_score: float | None = None
    explanation: str | None = None
    field_scores: Mapping[str, float] = field(default_factory=dict)
    field_explanations: Mapping[str, str] = field(default_factory=dict)
    unmatched_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_signal(self) -> bool:
        """Whether anything was scored."""
        return self.document_score is not None or bool(self.field_scores)


class CallUsage(Struct, frozen=True):
    """What the call cost: tokens as the provider counted them, seconds of latency, attempts."""

    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    latency_ms: float | None = None


class Verdict(Struct, frozen=True):
    """One verifier call's outcome: a row of the verdict log.

    `asked_fields` are those that the prompt asked about. `reading` is empty unless the status
    is `ok`; `reason` and `detail` say why it is not.
    """

    record_id: str
    template: str
    kind: ReplyKind
    asked_fields: tuple[str, ...]
    status: VerdictStatus
    facts: Facts
    reading: Reading = Reading()
    reason: FailureReason | None = None
    detail: str | None = None
    reply: str | None = None
    model_asked: str | None = None
    model_answered: str | None = None
    template_set: str | None = None
    usage: CallUsage = CallUsage()
    arrived_at: datetime | None = None
