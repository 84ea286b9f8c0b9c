"""Bounds on records in flight: one for threads that wait, one for the engine's loop."""

import threading
from collections import deque
from collections.abc import Callable


class Places:
    """At most `limit` records in flight, over all bundles and threads of the process.

    A thread that found all places taken is woken only once an eighth of them is free, and then
    fills them in one go: threads that take turns record by record cost more than the records.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._waiting = 0
        self._changed = threading.Condition()

    def acquire(self, timeout: float) -> bool:
        """Take a place; False when none came free within `timeout` seconds."""
        with self._changed:
            if self.taken >= self.limit:
                self._waiting += 1
                self._changed.wait_for(self._enough_free, timeout)
                self._waiting -= 1
            if self.taken >= self.limit:
                return False
            self.taken += 1
            return True

    def release(self) -> None:
        """Give a place back."""
        with self._changed:
            self.taken -= 1
            if self._waiting and self._enough_free():
                self._changed.notify_all()

    def _enough_free(self) -> bool:
        return self.limit - self.taken >= max(1, self.limit // 8)


class Gate:
    """At most `limit` records in flight, first come first served. For the engine's loop only."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.inside = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._admitting = False

    def admit(self, start: Callable[[], None]) -> None:
        """Call `start` now, or once there is room; whoever started must `leave`."""
        if self.inside < self.limit:
            self.inside += 1
            start()
        else:
            self._waiting.append(start)

    def leave(self) -> None:
        """Make room for the next."""
        self.inside -= 1
        if self._admitting:
            return
        self._admitting = True
        while self._waiting and self.inside < self.limit:
            self.admit(self._waiting.popleft())
        self._admitting = False
