"""Workers that send requests: at most `limit` at once, first come first served.

A call waits in a queue, not in a task of its own, and a worker goes from call to call: that is
what keeps the cost of a call low. For the engine's loop only.
"""

import asyncio
from collections import deque
from typing import Protocol


class Work(Protocol):
    """What a worker does next; it must not raise but for cancellation of the worker itself."""

    deadline: float

    async def run(self) -> None:
        """Do it."""
        ...

    def expire(self, why: str) -> None:
        """Stop doing it: the deadline has passed."""
        ...


class Pool:
    """The queue of one endpoint and its workers, which are made as they are needed."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.active: set[Work] = set()
        self._queue: deque[Work] = deque()
        self._parked: list[asyncio.Future[None]] = []
        self._workers: set[asyncio.Task[None]] = set()

    @property
    def queued(self) -> int:
        """How many calls wait for a worker."""
        return len(self._queue)

    def put(self, work: Work) -> None:
        """Queue `work`."""
        self._queue.append(work)
        if not self._wake_one() and len(self._workers) < self.limit:
            worker = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    def _wake_one(self) -> bool:
        while self._parked:
            turn = self._parked.pop()
            if not turn.done():
                turn.set_result(None)
                return True
        return False

    async def _work(self) -> None:
        while not self._surplus():
            if not self._queue:
                turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._parked.append(turn)
                await turn
                continue
            work = self._queue.popleft()
            self.active.add(work)
            try:
                await work.run()
            finally:
                self.active.discard(work)

    def _surplus(self) -> bool:
        """Whether this worker is one too many since the limit was lowered; then it is gone."""
        if len(self._workers) <= self.limit:
            return False
        worker = asyncio.current_task()
        if worker is not None:
            self._workers.discard(worker)
        if self._queue:
            self._wake_one()
        return True
