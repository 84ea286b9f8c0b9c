"""One verifier call: attempts, deadlines and retries around a single chat completion.

A call is a small state machine: queued in the endpoint's pool, in flight, waiting to be tried
again, or done. Its time starts when a worker takes it and stands still while it is queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import aiohttp
from msgspec import Struct

from schemas.errors import RunStoppedError
from schemas.reasons import FailureReason
from scoring.templates import Template
from verifier.answer import Reply, read_answer
from verifier.fault import Action, Fault
from verifier.request import Dialect, Structure, unusual

if TYPE_CHECKING:
    from verifier.caller import Caller
    from verifier.record_run import RecordRun

MakeBody = Callable[[Dialect, int], bytes]
"""The request in a dialect, with the usual room for the reply times a factor."""

MORE_ROOM = 2
"""How much more room a reply gets that was cut off; it is asked for once more only."""


class CallResult(Struct, frozen=True):
    """A call's reply, or the last fault; `attempts` requests were sent, `seconds` were spent."""

    outcome: Reply | Fault
    attempts: int
    seconds: float


class Call:
    """A call on one record; it tells its record when it is done."""

    __slots__ = (
        "_caller", "_enforced", "_expired", "_make_body", "_record", "_retry", "_room", "_started",
        "_task", "attempts", "deadline", "fields", "result", "seconds", "template",
    )  # fmt: skip

    def __init__(
        self,
        caller: Caller,
        record: RecordRun,
        template: Template,
        fields: tuple[str, ...],
        make_body: MakeBody,
    ) -> None:
        self._caller = caller
        self._record = record
        self._make_body = make_body
        self._task: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._expired: str | None = None
        self._started = 0.0
        self._room = 1
        self._enforced = Structure.JSON_SCHEMA
        self.template = template
        self.fields = fields
        self.attempts = 0
        self.seconds = 0.0
        self.deadline = 0.0
        self.result: CallResult | None = None

    def queue(self) -> None:
        """Wait for a worker; the record's clock stands still meanwhile."""
        self._retry = None
        if self.result is None:
            self._record.hold()
            self._caller.state.pool.put(self)

    async def run(self) -> None:
        """One attempt, on a worker of the pool; what it raises ends the record."""
        self._record.release()
        if self.result is not None or self._record.delivered:
            return
        try:
            await self._try()
        except Exception as error:  # noqa: BLE001 - delivered to whoever waits for the record
            self._record.fail(error)

    async def _try(self) -> None:
        """Send the request and settle what comes of it. Raises RunStoppedError when latched."""
        state, loop = self._caller.state, self._caller.loop
        self._started = loop.time()
        state.check(self._started)
        self.deadline = self._started + self._caller.attempt_seconds(self.seconds)
        self.attempts += 1
        state.counters.requests += 1
        dialect = self._caller.dialect
        body = self._make_body(dialect.at_most(self._enforced), self._room)
        outcome = await self._attempt(body)
        self.seconds += loop.time() - self._started
        if self.result is None:
            self._settle(outcome, dialect)

    def expire(self, why: str) -> None:
        """End the attempt under way: its deadline has passed."""
        if self._task is not None and self._expired is None:
            self._expired = why
            self._task.cancel()

    def give_up(self, why: str) -> None:
        """End the call wherever it is: the record's deadline has passed."""
        if self.result is None:
            if self._retry is not None:
                self._retry.cancel()
            self.expire(why)
            if self._task is not None:
                self.seconds += self._caller.loop.time() - self._started
            self._done(Fault(Action.GIVE_UP, FailureReason.TIMEOUT, why))

    async def _attempt(self, body: bytes) -> Reply | Fault:
        task = self._task = asyncio.current_task()
        try:
            return await self._send(body)
        except asyncio.CancelledError:
            if self._expired is None:
                raise
            return self._timed_out(task)
        finally:
            self._task = None
            if self._expired is not None:
                await self._absorb(task)
                self._expired = None

    def _timed_out(self, task: asyncio.Task[None] | None) -> Fault:
        if task is not None:
            task.uncancel()
        return Fault(Action.RETRY, FailureReason.TIMEOUT, self._expired or "")

    async def _absorb(self, task: asyncio.Task[None] | None) -> None:
        """Take the cancellation that came just as the answer did, lest it hits the next call."""
        if task is not None and task.cancelling():
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                task.uncancel()

    async def _send(self, body: bytes) -> Reply | Fault:
        try:
            status, headers, answer = await self._caller.post(body)
        except TimeoutError:
            return Fault(Action.RETRY, FailureReason.TIMEOUT, "no connection within the deadline")
        except (aiohttp.ClientError, OSError) as error:
            detail = f"{type(error).__name__}: {error}"
            return Fault(Action.RETRY, FailureReason.PROVIDER_ERROR, detail)
        return read_answer(status, headers, answer)

    def _settle(self, outcome: Reply | Fault, known: Dialect) -> None:
        """Be done, or be queued again now or later, or stop the run.

        `known` is what the endpoint's dialect was when the request was written.
        """
        caller = self._caller
        if isinstance(outcome, Reply):
            caller.state.succeeded(self._started)
            self._done(outcome)
            return
        fatal = caller.fatal(outcome, self._record.record_id)
        if fatal is not None:
            self._record.fail(RunStoppedError(fatal))
            return
        if outcome.action is Action.ADAPT and self._adapt(outcome, known):
            self.queue()
            return
        if outcome.reason is FailureReason.TRUNCATED and self._room == 1:
            self._room = MORE_ROOM
            self.queue()
            return
        wait = caller.wait_before_retry(outcome, self.attempts, self.seconds)
        if wait is None:
            self._done(outcome)
            return
        caller.state.counters.retries += 1
        self.seconds += wait
        self._retry = caller.loop.call_later(wait, self.queue)

    def _adapt(self, fault: Fault, known: Dialect) -> bool:
        """Give up what was refused: for this call if it is to blame, else for the endpoint."""
        if fault.parameter != "response_format" or not unusual(self.fields):
            return self._caller.adapt(fault, known)
        sent = known.at_most(self._enforced).structure
        self._enforced = Structure(max(sent - 1, Structure.NONE))
        return sent is not Structure.NONE

    def _done(self, outcome: Reply | Fault) -> None:
        if isinstance(outcome, Fault):
            self._caller.state.counters.failures += 1
        self.result = CallResult(outcome, self.attempts, self.seconds)
        self._record.one_done()
