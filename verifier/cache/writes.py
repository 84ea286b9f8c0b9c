"""Writes to a store, some time behind: nobody waits for them, and what fails is tried again."""

import asyncio
from contextlib import suppress
from itertools import islice

from verifier.cache.backend import Backend, Item
from verifier.cache.entry import Entry
from verifier.cache.health import Health
from verifier.cache.key import Key

WRITE_EVERY_S = 0.05
"""A write begins at most this much later, once the one before it is done."""

MAX_WAITING = 20_000
"""Entries that wait while the store fails; more are lost."""

WRITE_S = 30.0
CLOSE_S = 4.0


class Writes:
    """For the loop that the backend is on. What waits to be written can be read here."""

    def __init__(self, backend: Backend, health: Health) -> None:
        self._backend = backend
        self._health = health
        self._waiting: dict[Key, tuple[Entry, Item]] = {}
        self._task: asyncio.Task[None] | None = None

    def waiting(self, key: Key) -> Entry | None:
        """The entry of `key`, if it is still to be written."""
        found = self._waiting.get(key)
        return found[0] if found else None

    def put(self, entry: Entry, item: Item) -> None:
        """Have `item`, which is `entry` as bytes, written soon."""
        if item.key in self._waiting:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._health.lost(1)
            return
        self._waiting[item.key] = (entry, item)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_behind())

    async def close(self) -> None:
        """Write what waits; what the store does not take within `CLOSE_S` is lost."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while self._waiting and await self._write():
                    pass
        self._health.lost(len(self._waiting))
        self._waiting.clear()

    async def _write_behind(self) -> None:
        while self._waiting:
            full = len(self._waiting) >= self._backend.write_batch
            await asyncio.sleep(self._health.rest_left or (0.0 if full else WRITE_EVERY_S))
            await self._write()

    async def _write(self) -> bool:
        """Write some of what waits; it waits on when that fails."""
        items = [item for _, item in islice(self._waiting.values(), self._backend.write_batch)]
        try:
            async with asyncio.timeout(WRITE_S):
                await self._backend.put_many(items)
        except Exception as error:  # noqa: BLE001 - whatever it is, the record has its reply
            self._health.counters.failed_writes += 1
            self._health.failed(error)
            return False
        self._health.well()
        for item in items:
            del self._waiting[item.key]
        self._health.counters.kept += len(items)
        return True
