"""One engine per process: an event loop in a thread of its own, and one HTTP session on it.

Bundles come and go on many threads; they hand their coroutines to the engine of the process and
share its limits. An engine is never closed while idle, only at exit or by `close_engine`.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable

import aiohttp
import uvloop

from schemas.errors import RunStoppedError
from verifier.budget import Budget, BudgetLimits
from verifier.cache.flights import Flights
from verifier.cache.opening import open_store
from verifier.cache.store import ReplyStore
from verifier.endpoint import Endpoint
from verifier.endpoint_state import Counters, EndpointState
from verifier.key_source import KeySource
from verifier.mailbox import Mailbox
from verifier.record_run import RecordRun
from verifier.settings import VerifierSettings

TICK_S = 0.05
"""How often deadlines are looked at."""


class Engine:
    """The process's event loop, HTTP session and endpoint states."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._states: dict[tuple[str, KeySource | None], EndpointState] = {}
        self._states_lock = threading.Lock()
        self._budgets: dict[str, Budget] = {}
        self._stopped: str | None = None
        self._runs: set[RecordRun] = set()
        self._ticking = False
        self._session: aiohttp.ClientSession | None = None
        self._stores: dict[str, ReplyStore | None] = {}
        self._stores_lock = threading.Lock()
        self.flights = Flights()
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
        key = (endpoint.url, endpoint.key)
        with self._states_lock:
            state = self._states.get(key)
            if state is None:
                state = self._states[key] = EndpointState(endpoint.url, settings, endpoint.key)
            else:
                state.tighten(settings)
            return state

    def budget(self, limits: BudgetLimits) -> Budget:
        """The one budget of a run in this process."""
        with self._states_lock:
            return self._budgets.setdefault(limits.id, Budget(limits))

    def store(self, settings: VerifierSettings) -> ReplyStore | None:
        """The reply cache of `settings`, opened once; not for the loop's thread.

        Raises UsageError when it cannot be used.
        """
        if settings.cache is None:
            return None
        with self._stores_lock:
            if settings.cache not in self._stores:
                opening = open_store(
                    settings.cache,
                    max_bytes=settings.cache_max_bytes,
                    max_age=settings.cache_max_age,
                    password_env=settings.cache_password_env,
                )
                opened = asyncio.run_coroutine_threadsafe(opening, self.loop).result()
                self._stores[settings.cache] = opened
            return self._stores[settings.cache]

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
        """See to what is late; goes on while there are records."""
        now = self.loop.time()
        for state in list(self._states.values()):
            state.tick(now)
        for run in list(self._runs):
            try:
                run.tick(now)
            except Exception as error:  # noqa: BLE001 - delivered to whoever waits for the record
                run.fail(error)
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
            hedges=sum(c.hedges for c in each),
            failures=sum(c.failures for c in each),
            records=sum(c.records for c in each),
            throttled_s=sum(c.throttled_s for c in each),
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
        for store in self._stores.values():
            if store is not None:
                await store.close()
        if self._session is not None:
            await self._session.close()
        # What was posted while the engine closed is told so, too.
        self._mailbox.read()
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
