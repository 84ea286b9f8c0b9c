"""Workers that send requests: first come first served, as far as an endpoint admits them.

A call waits in a queue, not in a task of its own, and a worker goes from call to call: that is
what keeps the cost of a call low. For the engine's loop only.
"""

import asyncio
import math
from collections import deque
from typing import Protocol


class Work(Protocol):
    """What a worker does next; it must not raise but for cancellation of the worker itself."""

    def tick(self, now: float) -> None:
        """Look at its deadline; called now and then while it runs."""
        ...

    async def run(self) -> None:
        """Do it."""
        ...


class Admission(Protocol):
    """Who says when the next request may be sent."""

    @property
    def allowed(self) -> int:
        """How many may be under way now."""
        ...

    def wait(self, now: float) -> float:
        """Seconds until the next may be sent; infinite: until the pool is woken."""
        ...

    def goes(self, work: object) -> None:
        """`work` is begun."""
        ...

    def ended(self, work: object) -> None:
        """`work` is over."""
        ...

    def waited(self, seconds: float) -> None:
        """The queue was held for so long."""
        ...


class Pool:
    """The queue of one endpoint and its workers, at most `limit`, made as they are needed."""

    def __init__(self, limit: int, admission: Admission) -> None:
        self.limit = limit
        self.active: set[Work] = set()
        self._admission = admission
        self._queue: deque[Work] = deque()
        self._parked: list[asyncio.Future[None]] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._held_since: float | None = None

    @property
    def queued(self) -> int:
        """How many calls wait for a worker."""
        return len(self._queue)

    def put(self, work: Work, *, first: bool = False) -> None:
        """Queue `work`, before all others if it is to be `first`."""
        if first:
            self._queue.appendleft(work)
        else:
            self._queue.append(work)
        if not self.wake() and len(self._workers) < self.limit:
            worker = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    def wake(self) -> bool:
        """Have a parked worker look again; whether there was one."""
        while self._parked:
            turn = self._parked.pop()
            if not turn.done():
                turn.set_result(None)
                return True
        return False

    async def _work(self) -> None:
        while not self._surplus():
            work = self._next()
            if work is None:
                turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._parked.append(turn)
                await turn
                continue
            self.active.add(work)
            try:
                await work.run()
            finally:
                self.active.discard(work)
                self._admission.ended(work)

    def _next(self) -> Work | None:
        """The next work, if it may begin; whoever takes one has another worker look for more."""
        if not self._queue or len(self.active) >= self._admission.allowed:
            return None
        now = asyncio.get_running_loop().time()
        wait = self._admission.wait(now)
        if wait > 0:
            self._hold(now, wait)
            return None
        if self._held_since is not None:
            self._admission.waited(now - self._held_since)
            self._held_since = None
        work = self._queue.popleft()
        self._admission.goes(work)
        if self._queue and self._parked:
            self.wake()
        return work

    def _hold(self, now: float, wait: float) -> None:
        """Look again in `wait` seconds."""
        if self._held_since is None:
            self._held_since = now
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wait < math.inf:
            self._timer = asyncio.get_running_loop().call_later(wait, self.wake)

    def _surplus(self) -> bool:
        """Whether this worker is one too many since the limit was lowered; then it is gone."""
        if len(self._workers) <= self.limit:
            return False
        worker = asyncio.current_task()
        if worker is not None:
            self._workers.discard(worker)
        if self._queue:
            self.wake()
        return True
