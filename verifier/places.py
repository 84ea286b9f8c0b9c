"""Bounds on records in flight: one for threads that wait, one for the engine's loop."""

import threading
from collections import deque
from collections.abc import Callable


class Places:
    """At most `limit` records in flight, over all bundles and threads of the process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._changed = threading.Condition()

    def acquire(self, timeout: float) -> bool:
        """Take a place; False when none came free within `timeout` seconds."""
        with self._changed:
            if self.taken >= self.limit and not self._changed.wait_for(
                lambda: self.taken < self.limit, timeout
            ):
                return False
            self.taken += 1
            return True

    def release(self) -> None:
        """Give a place back."""
        with self._changed:
            self.taken -= 1
            self._changed.notify()


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
