"""Bounds on what is under way: requests on the loop, records across bundle threads."""

import asyncio
import threading
from collections import deque


class Slots:
    """At most `limit` requests in flight, first come first served. For the loop's thread only."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_acquire(self) -> bool:
        """Take a slot if one is free and nobody waits for it."""
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return True
        return False

    async def acquire(self) -> None:
        """Take a slot, waiting for one."""
        if self.try_acquire():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back."""
        self.in_flight -= 1
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


class Places:
    """At most `limit` records in flight, over all bundles and threads of the process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._changed = threading.Condition()

    def acquire(self, timeout: float) -> bool:
        """Take a place; False when none came free within `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.taken < self.limit, timeout):
                return False
            self.taken += 1
            return True

    def release(self) -> None:
        """Give a place back."""
        with self._changed:
            self.taken -= 1
            self._changed.notify()
