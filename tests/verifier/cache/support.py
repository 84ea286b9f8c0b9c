"""Entries, keys, and a store in memory that fails when it is told to."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from verifier.answer import Reply
from verifier.cache.backend import Item, StoreError, StoreStats
from verifier.cache.entry import Entry
from verifier.cache.key import Key, RequestKeys
from verifier.cache.opening import open_store
from verifier.cache.store import ReplyStore
from verifier.settings import MAX_BYTES

_KEYS = RequestKeys("http://h.example/v1/chat/completions")


def key(number: int) -> Key:
    return _KEYS.key(b"%d" % number)


def entry(text: str = "a reply", age: timedelta = timedelta(0)) -> Entry:
    return Entry(Reply(text, "scripted-1", 700, 90, 0), datetime.now(UTC) - age)


@asynccontextmanager
async def opened(
    cache: str,
    *,
    max_bytes: int = MAX_BYTES,
    max_age: timedelta | None = None,
    password_env: str | None = None,
) -> AsyncIterator[ReplyStore]:
    """The store that `cache` names, closed in the end."""
    store = await open_store(cache, max_bytes=max_bytes, max_age=max_age, password_env=password_env)
    assert store is not None
    try:
        yield store
    finally:
        await store.close()


async def keep(cache: str, entries: Mapping[int, Entry]) -> None:
    """Open the store, put `entries` by number, close it."""
    async with opened(cache) as store:
        for number, one in entries.items():
            store.put(key(number), one)


async def kept(cache: str, numbers: Sequence[int]) -> list[Entry | None]:
    """Open the store and get what it has."""
    async with opened(cache) as store:
        return await store.get_many([key(n) for n in numbers])


def cache_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("construct-beam-cache")]


class MemoryBackend:
    """Bytes in a dict; `broken` makes it fail, `gate` makes it wait; batches are kept."""

    def __init__(self, lanes: int = 1, batch: int = 100) -> None:
        self.lanes = lanes
        self.batch = batch
        self.write_batch = 1000
        self.values: dict[Key, bytes] = {}
        self.reads: list[list[Key]] = []
        self.writes: list[list[Key]] = []
        self.broken: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = False

    async def get_many(self, keys: Sequence[Key]) -> Mapping[Key, bytes]:
        self.reads.append(list(keys))
        await self._pass()
        return {k: self.values[k] for k in keys if k in self.values}

    async def put_many(self, items: Sequence[Item]) -> None:
        self.writes.append([item.key for item in items])
        await self._pass()
        for item in items:
            if item.replaces or item.key not in self.values:
                self.values[item.key] = item.value

    async def stats(self) -> StoreStats:
        return StoreStats(len(self.values), sum(map(len, self.values.values())), None, None)

    async def prune(self, max_bytes: int | None, before: int | None) -> int:
        raise StoreError("not here")

    async def close(self) -> None:
        self.closed = True

    async def _pass(self) -> None:
        await self.gate.wait()
        if self.broken is not None:
            raise self.broken
