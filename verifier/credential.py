"""The API key of an endpoint in this process: read once, shared by all stages, renewed when due."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial

from verifier.cache.workers import Workers
from verifier.key_source import KeySource
from verifier.key_value import KeyValue, read_key

PAUSE_S = 10.0
"""A key is not read again sooner than this after the last time."""

_log = logging.getLogger(__name__)


class Credential:
    """Reads the key of `source`; on the engine's loop it never blocks.

    A key that is due is renewed in the background and used meanwhile; one that is of no use any
    more is waited for.
    """

    def __init__(
        self,
        source: KeySource | None,
        read: Callable[[KeySource], KeyValue] = read_key,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._read = read
        self._clock = clock
        self._key: KeyValue | None = None
        self._before: KeyValue | None = None
        self._renew_at = self._ends_at = math.inf
        self._tried_at = -math.inf
        self._lock = threading.Lock()
        self._renewal: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read the key, if nobody has yet; blocks.

        Raises UsageError, and KeyUnavailableError when it may be there later.
        """
        with self._lock:
            if self._source is not None and self._key is None:
                self._take(self._read(self._source))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys that requests under way may hold."""
        return tuple(key.text for key in (self._key, self._before) if key is not None)

    async def value(self) -> str | None:
        """The key to send now, None without one.

        Raises KeyUnavailableError, and UsageError when it is gone.
        """
        if self._source is None:
            return None
        now = self._clock()
        if self._key is None or now >= self._ends_at:
            await self._renew()
        elif now >= self._renew_at:
            self._begin()
        return None if self._key is None else self._key.text

    async def renewed(self, refused: str | None) -> bool:
        """Whether there is another key than the one that was `refused`: it is read again.

        One that was just read is not. Raises as `value` does.
        """
        if self._source is None or self._key is None:
            return False
        if self._key.text == refused and (
            self._renewal is not None or self._clock() - self._tried_at >= PAUSE_S
        ):
            await self._renew()
        return self._key.text != refused

    def expire(self) -> None:
        """Have the next request wait for a key that is read again."""
        self._ends_at = -math.inf

    def _take(self, key: KeyValue) -> None:
        now = self._tried_at = self._clock()
        if self._key is None or key.text != self._key.text:
            self._before, self._key = self._key, key
        self._renew_at = now + max(PAUSE_S, key.renew_s)
        self._ends_at = now + max(PAUSE_S, key.valid_s)

    async def _renew(self) -> None:
        """Wait for the renewal, which several requests share: none of them can cut it off."""
        await asyncio.shield(self._begin())

    def _begin(self) -> "asyncio.Task[None]":
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().create_task(self._read_again())
            self._renewal.add_done_callback(self._done)
        return self._renewal

    async def _read_again(self) -> None:
        if self._source is None:
            return
        worker = Workers("construct-beam-key")
        try:
            self._take(await worker.run(partial(self._read, self._source)))
        finally:
            worker.stop()

    def _done(self, renewal: "asyncio.Task[None]") -> None:
        self._renewal = None
        error = None if renewal.cancelled() else renewal.exception()
        if error is not None:
            self._tried_at = self._clock()
            self._renew_at = self._tried_at + PAUSE_S
            _log.warning("the verifier's key cannot be read again: %s", error)
