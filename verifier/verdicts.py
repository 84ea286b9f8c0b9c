"""Verdicts: what the calls on a record are, and what becomes of each one's reply. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from schemas.errors import RecordError
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.verdict import CallUsage, Facts, Reading, ReplyKind, Verdict, VerdictStatus
from scoring.redact import redact
from scoring.templates import Template
from verifier.aliases import aliases_of, read_aliased
from verifier.answer import Reply
from verifier.fault import Fault
from verifier.settings import KeepReplies


def chunks_of(template: Template, fields: tuple[str, ...], size: int) -> list[tuple[str, ...]]:
    """The fields that each of the template's calls asks about, at most `size` for a field-level
    one."""
    if template.reply is ReplyKind.DOCUMENT_SCORE or len(fields) <= size:
        return [fields]
    return [fields[i : i + size] for i in range(0, len(fields), size)]


@dataclass(frozen=True)
class VerdictMaker:
    """Makes verdicts of what one model answered to one set of templates."""

    model: str
    template_set: str
    keep_replies: KeepReplies = KeepReplies.NONE

    def make(
        self,
        record: Record,
        facts: Facts,
        template: Template,
        fields: tuple[str, ...],
        *,
        outcome: Reply | Fault,
        usage: CallUsage,
        arrived_at: datetime | None,
    ) -> Verdict:
        """The verdict of a call of `template` about `fields`."""
        reading, reason, detail = _read(template, fields, outcome)
        if record.notes:
            reading = replace(reading, notes=(*record.notes, *reading.notes))
        reply = outcome if isinstance(outcome, Reply) else None
        return Verdict(
            record_id=record.id,
            template=template.name,
            kind=template.reply,
            asked_fields=fields,
            status=_status(reason, usage),
            facts=facts,
            reading=reading,
            reason=reason,
            detail=detail,
            reply=self._kept(template, fields, reply),
            model_asked=self.model,
            model_answered=reply.model if reply else None,
            template_set=self.template_set,
            usage=usage,
            arrived_at=arrived_at,
        )

    def _kept(self, template: Template, fields: tuple[str, ...], reply: Reply | None) -> str | None:
        """What the verdict log is to keep of the reply."""
        if reply is None or self.keep_replies is KeepReplies.NONE:
            return None
        if self.keep_replies is KeepReplies.REDACTED:
            return redact(template, (*fields, *aliases_of(fields).values()), reply.text)
        return reply.text


def _status(reason: FailureReason | None, usage: CallUsage) -> VerdictStatus:
    if reason is None:
        return VerdictStatus.OK
    never_made = reason is FailureReason.BUDGET_EXHAUSTED and not usage.attempts
    return VerdictStatus.SKIPPED if never_made else VerdictStatus.FAILED


def _read(
    template: Template, fields: Sequence[str], outcome: Reply | Fault
) -> tuple[Reading, FailureReason | None, str | None]:
    if isinstance(outcome, Fault):
        return Reading(), outcome.reason, outcome.detail
    try:
        return read_aliased(template, fields, outcome.text), None, None
    except RecordError as error:
        return Reading(), error.reason, error.message
