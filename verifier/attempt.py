"""One request under way, which can be cut off from outside."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp

from schemas.errors import UsageError
from schemas.reasons import FailureReason
from verifier.answer import Reply, read_answer
from verifier.fault import Action, Fault
from verifier.prompt_cut import cut_prompt

if TYPE_CHECKING:
    from verifier.caller import Caller


class Attempt:
    """Sends a request, at most one at a time. For the engine's loop only."""

    __slots__ = ("_caller", "_expired", "_task", "arrived_at", "started", "status")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._task: asyncio.Task[None] | None = None
        self._expired: str | None = None
        self.started = 0.0
        self.status = 0
        self.arrived_at: datetime | None = None

    @property
    def under_way(self) -> bool:
        """Whether an answer is waited for."""
        return self._task is not None

    def expire(self, why: str) -> None:
        """Cut the request off, if there is one; it ends as a time-out with this detail."""
        if self._task is not None and self._expired is None:
            self._expired = why
            self._task.cancel()

    async def send(self, body: bytes) -> Reply | Fault:
        """The reply to a request, or what became of it."""
        task = self._task = asyncio.current_task()
        self.started, self.status, self.arrived_at = self._caller.loop.time(), 0, None
        try:
            return await self._send(body)
        except asyncio.CancelledError:
            # The worker itself may be cancelled in the same moment.
            if self._expired is None or (task is not None and task.uncancel() > 0):
                raise
            return Fault(Action.RETRY, FailureReason.TIMEOUT, self._expired)
        finally:
            self._task = None
            if self._expired is not None:
                await self._absorb(task)
                self._expired = None

    @staticmethod
    async def _absorb(task: asyncio.Task[None] | None) -> None:
        """Take the cancellation that came just as the answer did, lest it hits the next call."""
        if task is not None and task.cancelling():
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                task.uncancel()

    async def _send(self, body: bytes) -> Reply | Fault:
        """The outcome; a request whose key is out of date is sent once more, with the new one."""
        caller = self._caller
        try:
            key = await caller.key()
            outcome = await self._ask(body, key)
            if _refuses_key(outcome) and await caller.has_other_key(key):
                outcome = await self._ask(body, await caller.key())
        except TimeoutError:
            return Fault(Action.RETRY, FailureReason.TIMEOUT, "no connection within the deadline")
        except UsageError as error:
            return Fault(Action.STOP, FailureReason.AUTH, str(error))
        except (aiohttp.ClientError, OSError) as error:
            detail = f"{type(error).__name__}: {error}"
            return Fault(Action.RETRY, FailureReason.PROVIDER_ERROR, detail)
        return outcome

    async def _ask(self, body: bytes, key: str | None) -> Reply | Fault:
        status, headers, answer = await self._caller.post(body, key)
        self.status, self.arrived_at = status, datetime.now(UTC)
        outcome = read_answer(status, headers, answer)
        if isinstance(outcome, Reply):
            return cut_prompt(body, outcome) or outcome
        return self._caller.without_key(outcome)


def _refuses_key(outcome: Reply | Fault) -> bool:
    return (
        isinstance(outcome, Fault)
        and outcome.action is Action.STOP
        and outcome.reason is FailureReason.AUTH
    )
