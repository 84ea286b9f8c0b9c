"""All verifier calls on one record, concurrently, and the verdicts that come of them."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from schemas.errors import RecordError
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.verdict import CallUsage, Facts, Reading, ReplyKind, Verdict, VerdictStatus
from scoring.facts import facts_of
from scoring.prompt import DataBlock, data_block, render, template_set_version
from scoring.redact import redact
from scoring.reply import read_reply
from scoring.templates import Template, TemplateSet
from verifier.answer import Reply
from verifier.call import Caller, CallResult
from verifier.clock import RecordClock
from verifier.embedded import embedded_endpoint
from verifier.endpoint import parse_endpoint
from verifier.engine import Engine
from verifier.fault import Fault
from verifier.request import Dialect, request_body
from verifier.settings import KeepReplies, VerifierSettings


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record with all that can be done for it before any call."""

    record: Record
    facts: Facts
    data: DataBlock


@dataclass(frozen=True, slots=True)
class Verified:
    """A record with its verdicts, one for each template and chunk of fields."""

    record: Record
    facts: Facts
    verdicts: tuple[Verdict, ...]


def prepare(record: Record) -> Prepared:
    """Everything about a record that needs no call. Raises RecordError."""
    return Prepared(record, facts_of(record), data_block(record))


class RecordVerifier:
    """Asks one endpoint all templates about each record."""

    def __init__(self, engine: Engine, settings: VerifierSettings, templates: TemplateSet) -> None:
        endpoint = parse_endpoint(settings.target, settings.api_key_env)
        if endpoint.embedded:
            endpoint = embedded_endpoint()
        self._settings = settings
        self._templates = templates.templates
        self._model = endpoint.model
        self._template_set = template_set_version(templates)
        self._caller = Caller(engine, endpoint, settings, random.Random())  # noqa: S311 - jitter
        self.places = self._caller.state.places
        self.slots = self._caller.state.record_slots

    async def verify(self, prepared: Prepared) -> Verified:
        """The record's verdicts; calls that fail are verdicts too.

        Raises RunStoppedError when the fault is the run's.
        """
        asked = [(t, f) for t in self._templates for f in self._chunks(t, prepared.record.fields)]
        results = await self._concurrently(prepared, asked)
        self._caller.state.counters.records += 1
        verdicts = (
            self._verdict(prepared, template, fields, result)
            for (template, fields), result in zip(asked, results, strict=True)
        )
        return Verified(prepared.record, prepared.facts, tuple(verdicts))

    def _chunks(self, template: Template, fields: tuple[str, ...]) -> list[tuple[str, ...]]:
        if template.reply is ReplyKind.DOCUMENT_SCORE:
            return [fields]
        size = self._settings.max_fields_per_call
        return [fields[i : i + size] for i in range(0, len(fields), size)]

    async def _concurrently(
        self, prepared: Prepared, asked: Sequence[tuple[Template, tuple[str, ...]]]
    ) -> list[CallResult]:
        """The results of all calls; those that the record's deadline ends are timeouts."""
        tasks: list[asyncio.Task[CallResult]] = []
        clock = RecordClock(
            self._settings.record_timeout, lambda: [task.cancel() for task in tasks]
        )
        tasks += [asyncio.create_task(self._call(prepared, *question, clock)) for question in asked]
        try:
            done = await asyncio.gather(*tasks, return_exceptions=True)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise
        finally:
            clock.close()
        return [_settled(result) for result in done]

    async def _call(
        self, prepared: Prepared, template: Template, fields: tuple[str, ...], clock: RecordClock
    ) -> CallResult:
        prompt = render(template, prepared.data, fields)

        def body(dialect: Dialect) -> bytes:
            return request_body(self._model, prompt, template, fields, dialect)

        return await self._caller.call(prepared.record.id, body, clock)

    def _verdict(
        self, prepared: Prepared, template: Template, fields: tuple[str, ...], result: CallResult
    ) -> Verdict:
        reading, reason, detail = _read(template, fields, result.outcome)
        reply = result.outcome if isinstance(result.outcome, Reply) else None
        return Verdict(
            record_id=prepared.record.id,
            template=template.name,
            kind=template.reply,
            asked_fields=fields,
            status=VerdictStatus.OK if reason is None else VerdictStatus.FAILED,
            facts=prepared.facts,
            reading=reading,
            reason=reason,
            detail=detail,
            reply=self._kept(template, fields, reply),
            model_asked=self._model,
            model_answered=reply.model if reply else None,
            template_set=self._template_set,
            usage=_usage(result, reply),
            arrived_at=datetime.now(UTC),
        )

    def _kept(self, template: Template, fields: tuple[str, ...], reply: Reply | None) -> str | None:
        """What the verdict log is to keep of the reply."""
        if reply is None or self._settings.keep_replies is KeepReplies.NONE:
            return None
        if self._settings.keep_replies is KeepReplies.REDACTED:
            return redact(template, fields, reply.text)
        return reply.text


def _settled(result: CallResult | BaseException) -> CallResult:
    if isinstance(result, BaseException):
        raise result
    return result


def _read(
    template: Template, fields: tuple[str, ...], outcome: Reply | Fault
) -> tuple[Reading, FailureReason | None, str | None]:
    if isinstance(outcome, Fault):
        return Reading(), outcome.reason, outcome.detail
    try:
        return read_reply(template, fields, outcome.text), None, None
    except RecordError as error:
        return Reading(), error.reason, error.message


def _usage(result: CallResult, reply: Reply | None) -> CallUsage:
    return CallUsage(
        attempts=result.attempts,
        prompt_tokens=reply.prompt_tokens if reply else 0,
        completion_tokens=reply.completion_tokens if reply else 0,
        cached_tokens=reply.cached_tokens if reply else 0,
        latency_ms=result.seconds * 1000,
    )
