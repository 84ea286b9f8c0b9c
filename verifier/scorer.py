"""Scoring single records in real time, from plain Python: no Beam.

async with Scorer("openai:gpt-4.1-mini") as scorer:
    scored = await scorer.score(document=text, output={"total": 40})
    scored.trustworthiness_score
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Self

from pydantic import BaseModel

from schemas.dead_letter import DeadLetter
from schemas.errors import RecordError
from schemas.openai_log import completion_output
from schemas.parse_record import parse_record
from schemas.policy import Policy
from schemas.record import Record
from schemas.scored import ScoredRecord
from scoring.aggregate import ScoreScale
from scoring.routing import RoutingRules
from scoring.templates import TemplateSet, builtin_templates
from verifier.engine import get_engine
from verifier.mailbox import Mailbox
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.score import score_verified
from verifier.settings import VerifierSettings


class Scorer:
    """Scores records one at a time; any number of calls may run at once.

    All scorers of a process, and pipelines in it, share one engine and its limits per endpoint.
    `verifier` is what `--verifier` takes, or full settings. Raises UsageError for settings that
    do not work.
    """

    def __init__(
        self,
        verifier: str | VerifierSettings,
        *,
        policy: Policy | None = None,
        templates: TemplateSet | None = None,
        scale: ScoreScale = ScoreScale.RESCALED,
        accept_literal_evidence: bool = False,
    ) -> None:
        settings = VerifierSettings(target=verifier) if isinstance(verifier, str) else verifier
        self._rules = RoutingRules(
            policy or Policy(), accept_literal_evidence=accept_literal_evidence
        )
        self._scale = scale
        self._engine = get_engine()
        self._verifier = RecordVerifier(
            self._engine, settings, templates or builtin_templates(), self._rules.policy
        )
        self._gate = self._verifier.gate

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Nothing to close: the engine is the process's own."""

    async def score(
        self, record: Record | Mapping[str, Any] | None = None, **values: Any
    ) -> ScoredRecord:
        """The record with scores, explanations, evidence and route.

        Give a `Record`, a mapping with the record's keys, or the keys as arguments: `document`,
        `instructions`, `prompt`, `messages`, `output`, `json_schema`, `id`. `output` may be a
        Pydantic object or a chat-completion object (of the OpenAI SDK, or its JSON), and
        `response_format`, in place of `json_schema`, a Pydantic model or what the API takes.

        Raises RecordError for what is no record and when no verifier gave a verdict,
        RunStoppedError when the endpoint cannot be used at all.
        """
        mailbox = Mailbox.of_running_loop()
        future: asyncio.Future[ScoredRecord] = asyncio.get_running_loop().create_future()
        self._post(record, values, lambda result: mailbox.put(lambda: _resolve(future, result)))
        return await future

    def score_sync(
        self, record: Record | Mapping[str, Any] | None = None, **values: Any
    ) -> ScoredRecord:
        """Like `score`, for code without an event loop; threads may call it at once."""
        results: SimpleQueue[ScoredRecord | BaseException] = SimpleQueue()
        self._post(record, values, results.put)
        result = results.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _post(
        self,
        record: Record | Mapping[str, Any] | None,
        values: Mapping[str, Any],
        deliver: Callable[[ScoredRecord | BaseException], object],
    ) -> None:
        """Have the record scored; `deliver` is called on the engine's loop."""
        chosen = record if isinstance(record, Record) else to_record({**(record or {}), **values})
        self._engine.post(lambda: self._gate.admit(lambda: self._start(chosen, deliver)))

    def _start(
        self, record: Record, deliver: Callable[[ScoredRecord | BaseException], object]
    ) -> None:
        def finish(result: Verified | BaseException) -> None:
            self._gate.leave()
            deliver(self._score(result))

        try:
            prepared = prepare(record)
        except Exception as error:  # noqa: BLE001 - delivered to whoever waits for the record
            finish(error)
        else:
            self._verifier.start(prepared, finish)

    def _score(self, result: Verified | BaseException) -> ScoredRecord | BaseException:
        if isinstance(result, BaseException):
            return result
        scored = score_verified(result, self._rules, self._scale)
        if isinstance(scored, DeadLetter):
            return RecordError(scored.reason, scored.message)
        return scored


def _resolve(future: asyncio.Future[ScoredRecord], result: ScoredRecord | BaseException) -> None:
    """Give a future its result, unless nobody waits for it any more."""
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


def to_record(values: Mapping[str, Any]) -> Record:
    """A record from values of the Python API. Raises RecordError."""
    found = dict(values)
    schema = found.pop("response_format", found.get("json_schema"))
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schema = schema.model_json_schema()
    output = found.get("output")
    if isinstance(output, BaseModel):
        output = output.model_dump(mode="json")
    if isinstance(output, Mapping) and output.get("object") == "chat.completion":
        found.setdefault("generator", output.get("model"))
        output = completion_output(output)
    messages = found.get("messages")
    if isinstance(messages, Sequence) and not isinstance(messages, str):
        found["messages"] = list(messages)
    return parse_record({**found, "json_schema": schema, "output": output})
