"""One verifier call: attempts, deadlines and retries around a single chat completion."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp

from schemas.errors import RunStoppedError
from schemas.reasons import FailureReason
from verifier.answer import Reply, read_answer
from verifier.backoff import retry_wait
from verifier.clock import RecordClock
from verifier.endpoint import Endpoint
from verifier.engine import FORBIDDEN_RECORDS, EndpointState, Engine
from verifier.fault import Action, Fault
from verifier.request import Dialect
from verifier.settings import VerifierSettings

MakeBody = Callable[[Dialect], bytes]


@dataclass(frozen=True, slots=True)
class CallResult:
    """A call's reply, or the last fault; `attempts` requests were sent, `seconds` were spent."""

    outcome: Reply | Fault
    attempts: int
    seconds: float


@dataclass(slots=True)
class _Tally:
    """What a call has used so far, also when it is cancelled in the middle."""

    attempts: int = 0
    seconds: float = 0.0

    @contextmanager
    def timed(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        start = loop.time()
        try:
            yield
        finally:
            self.seconds += loop.time() - start


class Caller:
    """Sends chat completions to one endpoint. For the engine's loop only."""

    def __init__(
        self, engine: Engine, endpoint: Endpoint, settings: VerifierSettings, rng: random.Random
    ) -> None:
        self._engine = engine
        self._endpoint = endpoint
        self._settings = settings
        self._rng = rng
        self._timeout = aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout)
        self._headers = endpoint.headers()
        self.state: EndpointState = engine.state(endpoint, settings)

    async def call(self, record_id: str, make_body: MakeBody, clock: RecordClock) -> CallResult:
        """Send the request until there is a reply or no reason to go on.

        Time counts from admission on and not while a slot is waited for. Raises
        RunStoppedError when the fault is the run's.
        """
        tally = _Tally()
        try:
            outcome = await self._until_settled(record_id, make_body, clock, tally)
        except asyncio.CancelledError:
            if not clock.expired:
                raise
            detail = "the record's deadline passed"
            outcome = Fault(Action.GIVE_UP, FailureReason.TIMEOUT, detail)
        if isinstance(outcome, Fault):
            self.state.counters.failures += 1
        return CallResult(outcome, tally.attempts, tally.seconds)

    async def _until_settled(
        self, record_id: str, make_body: MakeBody, clock: RecordClock, tally: _Tally
    ) -> Reply | Fault:
        while True:
            dialect = self._dialect
            outcome = await self._admitted(make_body(dialect), clock, tally)
            if isinstance(outcome, Reply):
                self.state.succeeded()
                return outcome
            self._stop_if_fatal(outcome, record_id)
            if outcome.action is Action.ADAPT and self._adapt(outcome, dialect):
                continue
            wait = self._wait_before_retry(outcome, tally)
            if wait is None:
                return outcome
            self.state.counters.retries += 1
            with tally.timed(self._engine.loop):
                await asyncio.sleep(wait)

    @property
    def _dialect(self) -> Dialect:
        return self.state.dialects.get(self._endpoint.model, Dialect())

    async def _admitted(self, body: bytes, clock: RecordClock, tally: _Tally) -> Reply | Fault:
        """One attempt, in a slot of our own."""
        if not self.state.slots.try_acquire():
            with clock.held():
                await self.state.slots.acquire()
        try:
            self.state.check(self._engine.loop.time())
            left = self._settings.call_timeout - tally.seconds
            tally.attempts += 1
            with tally.timed(self._engine.loop):
                return await self._attempt(body, min(left, self._settings.attempt_timeout))
        finally:
            self.state.slots.release()

    async def _attempt(self, body: bytes, seconds: float) -> Reply | Fault:
        self.state.counters.requests += 1
        try:
            async with asyncio.timeout(seconds):
                status, headers, answer = await self._post(body)
        except TimeoutError as error:
            kind = "connecting" if isinstance(error, aiohttp.ServerTimeoutError) else "answer"
            return Fault(Action.RETRY, FailureReason.TIMEOUT, f"no {kind} within the deadline")
        except (aiohttp.ClientError, OSError) as error:
            detail = f"{type(error).__name__}: {error}"
            return Fault(Action.RETRY, FailureReason.PROVIDER_ERROR, detail)
        return read_answer(status, headers, answer, datetime.now(UTC))

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        async with self._engine.session.post(
            self._endpoint.url,
            data=body,
            headers=self._headers,
            allow_redirects=False,
            timeout=self._timeout,
        ) as response:
            return response.status, response.headers, await response.read()

    def _stop_if_fatal(self, fault: Fault, record_id: str) -> None:
        """Latch the endpoint on a fault of the run; a 403 is one after several records."""
        fatal = fault.action is Action.STOP
        if fault.action is Action.FORBIDDEN:
            self.state.forbidden.add(record_id)
            fatal = len(self.state.forbidden) >= FORBIDDEN_RECORDS
        if fatal:
            message = f"{self._endpoint.url} ({fault.reason.value}): {fault.detail}"
            self.state.latch(message, self._engine.loop.time())
            raise RunStoppedError(message)

    def _adapt(self, fault: Fault, sent: Dialect) -> bool:
        """Give up the refused parameter for this model; whether sending again makes sense."""
        if self._dialect != sent:
            return True
        smaller = sent.without(fault.parameter or "")
        if smaller is None:
            return False
        self.state.dialects[self._endpoint.model] = smaller
        return True

    def _wait_before_retry(self, fault: Fault, tally: _Tally) -> float | None:
        """Seconds to wait before another attempt, None when there is to be none."""
        if fault.action is not Action.RETRY or tally.attempts >= self._settings.max_attempts:
            return None
        if fault.wait is not None and fault.wait > self._settings.max_retry_wait:
            return None
        wait = retry_wait(tally.attempts, fault.wait, self._rng)
        return wait if tally.seconds + wait < self._settings.call_timeout else None
