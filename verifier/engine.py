"""One engine per process: an event loop in a thread of its own, and one HTTP session on it.

Bundles come and go on many threads; they hand their coroutines to the engine of the process and
share its limits. An engine is never closed while idle, only at exit or by `close_engine`.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import uvloop

from schemas.errors import RunStoppedError
from verifier.endpoint import Endpoint
from verifier.mailbox import Mailbox
from verifier.places import Gate, Places
from verifier.pool import Pool
from verifier.record_run import RecordRun
from verifier.request import Dialect
from verifier.settings import VerifierSettings

FORBIDDEN_RECORDS = 3
"""A 403 stops the run after this many records in a row: some providers answer it to one."""

PROBE_AFTER_S = 300.0
TICK_S = 0.05
"""How often deadlines are looked at."""


@dataclass(slots=True)
class Counters:
    """What an endpoint's calls came to so far, for progress and summaries of this process."""

    requests: int = 0
    retries: int = 0
    failures: int = 0
    records: int = 0


@dataclass(slots=True)
class EndpointState:
    """What all stages of the process share of one endpoint: limits, dialects, the latch.

    `places` bound the records of bundles, which wait on threads; `gate` those of scorers, which
    wait on the loop.
    """

    pool: Pool
    places: Places
    gate: Gate
    counters: Counters = field(default_factory=Counters)
    dialects: dict[str, Dialect] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    latched: str | None = None
    latched_at: float = 0.0

    def tighten(self, settings: VerifierSettings) -> None:
        """The smallest figure wins where several stages share the endpoint."""
        self.pool.limit = min(self.pool.limit, settings.max_concurrency)
        for records in (self.places, self.gate):
            records.limit = min(records.limit, settings.max_records_in_flight)

    def latch(self, message: str, now: float) -> None:
        """From now on nothing is sent: the fault is the run's, not a record's."""
        self.latched, self.latched_at = message, now

    def check(self, now: float) -> None:
        """Raise RunStoppedError if latched; one call every PROBE_AFTER_S passes to probe."""
        if self.latched is None:
            return
        if now - self.latched_at < PROBE_AFTER_S:
            raise RunStoppedError(self.latched)
        self.latched_at = now

    def succeeded(self, started: float) -> None:
        """A call that began at `started` went through: the endpoint is well.

        One that was under way before the latch says nothing of what is sent after it.
        """
        if self.latched is None or started >= self.latched_at:
            self.latched = None
            self.forbidden.clear()


class Engine:
    """The process's event loop, HTTP session and endpoint states."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._states: dict[tuple[str, str | None], EndpointState] = {}
        self._states_lock = threading.Lock()
        self._stopped: str | None = None
        self._runs: set[RecordRun] = set()
        self._ticking = False
        self._session: aiohttp.ClientSession | None = None
        self.loop = uvloop.new_event_loop()
        self._mailbox = Mailbox(self.loop)
        self._thread = threading.Thread(target=self._run, name="construct-beam-engine", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether this engine can be used from this process."""
        return self.pid == os.getpid() and self._thread.is_alive()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The HTTP session; for the loop's thread only."""
        if self._session is None:
            # Our own slots bound the connections; redirects and cookies have no place here.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    def state(self, endpoint: Endpoint, settings: VerifierSettings) -> EndpointState:
        """The shared state of an endpoint, its limits tightened to `settings`."""
        key = (endpoint.url, endpoint.api_key_env)
        with self._states_lock:
            state = self._states.get(key)
            if state is None:
                state = EndpointState(
                    Pool(settings.max_concurrency),
                    Places(settings.max_records_in_flight),
                    Gate(settings.max_records_in_flight),
                )
                self._states[key] = state
            state.tighten(settings)
            return state

    def post(self, function: Callable[[], None]) -> None:
        """Have `function` called on the loop soon; callable from any thread.

        Raises RunStoppedError once the engine was stopped.
        """
        if self._stopped is not None:
            raise RunStoppedError(self._stopped)
        self._mailbox.put(function)

    def add(self, run: RecordRun) -> None:
        """Watch the record's deadlines; for the loop's thread only."""
        self._runs.add(run)
        if not self._ticking:
            self._ticking = True
            self.loop.call_later(TICK_S, self._tick)

    def remove(self, run: RecordRun) -> None:
        """Watch the record no more."""
        self._runs.discard(run)

    def _tick(self) -> None:
        """End attempts and records that are late; goes on while there are records."""
        now = self.loop.time()
        for state in list(self._states.values()):
            for call in list(state.pool.active):
                if now >= call.deadline:
                    call.expire("no answer within the deadline")
        for run in list(self._runs):
            run.expire_if_late(now)
        self._ticking = bool(self._runs)
        if self._ticking:
            self.loop.call_later(TICK_S, self._tick)

    def stop(self, why: str) -> None:
        """Fail the records under way and refuse new ones; bundles end with RunStoppedError."""
        self._stopped = why
        self.loop.call_soon_threadsafe(self._fail_all, why)

    def _fail_all(self, why: str) -> None:
        self._mailbox.read()
        for run in list(self._runs):
            run.fail(RunStoppedError(why))

    @property
    def stopped(self) -> str | None:
        """Why the engine was stopped, None while it runs."""
        return self._stopped

    def fault(self) -> str | None:
        """What ended the run, as far as this process knows: a latched endpoint, or a stop."""
        with self._states_lock:
            latched = (state.latched for state in self._states.values())
            return next((fault for fault in latched if fault), self._stopped)

    def counters(self) -> Counters:
        """The counters of all endpoints, added up."""
        with self._states_lock:
            each = [state.counters for state in self._states.values()]
        return Counters(
            requests=sum(c.requests for c in each),
            retries=sum(c.retries for c in each),
            failures=sum(c.failures for c in each),
            records=sum(c.records for c in each),
        )

    def close(self) -> None:
        """Cancel everything, close the session and end the thread."""
        self.stop("the engine was closed")
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._shut_down(), self.loop)
            self._thread.join(timeout=5)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    async def _shut_down(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        self.loop.call_soon(self.loop.stop)


_engine: Engine | None = None
_lock = threading.Lock()


def get_engine() -> Engine:
    """The engine of this process, made on first use; a forked child gets its own."""
    global _engine  # noqa: PLW0603 - the registry is the point: one engine per process
    with _lock:
        if _engine is None or not _engine.alive:
            _engine = Engine()
        return _engine


def close_engine() -> None:
    """Close the engine of this process, if there is one; the next use makes another."""
    global _engine
    with _lock:
        engine, _engine = _engine, None
    if engine is not None and engine.alive:
        engine.close()


atexit.register(close_engine)
