"""A record's deadline, which stands still while our own limits hold one of its calls."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RecordClock:
    """Calls `on_expiry` once `seconds` have run; time spent in `held()` does not count."""

    def __init__(self, seconds: float, on_expiry: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = seconds
        self._on_expiry = on_expiry
        self._holds = 0
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False
        self._start()

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this is entered, by one call or several, the clock stands still."""
        self._holds += 1
        if self._holds == 1:
            self._stop()
        try:
            yield
        finally:
            self._holds -= 1
            if self._holds == 0:
                self._start()

    def close(self) -> None:
        """Stop for good."""
        self._holds += 1
        self._stop()

    def _start(self) -> None:
        if not self.expired:
            self._timer = self._loop.call_later(self._left, self._expire)

    def _stop(self) -> None:
        if self._timer is not None:
            self._left = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self.expired = True
        self._timer = None
        self._on_expiry()
