"""The reply cache as the engine sees it: it never fails a record, and holds none up for long."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from verifier.cache.backend import Backend, Item, StoreStats
from verifier.cache.entry import Entry, EntryCodec, UnreadableEntryError, microseconds
from verifier.cache.health import CacheCounters, Health
from verifier.cache.key import Key
from verifier.cache.reads import Reads
from verifier.cache.writes import Writes


class ReplyStore:
    """Entries by key, for one event loop. `name` is what `--cache` names; `counters` add up.

    When the backend fails, a read is a miss and a write is tried again; both are counted and
    warned of. Entries older than `max_age` are misses, and are replaced.
    """

    def __init__(self, name: str, backend: Backend, max_age: timedelta | None = None) -> None:
        self.name = name
        self._backend = backend
        self._max_age = max_age
        self.counters = CacheCounters()
        self._reads = Reads(backend, Health(name, self.counters))
        self._writes = Writes(backend, Health(name, self.counters))
        self._codec = EntryCodec()
        self._stale: set[Key] = set()

    async def get(self, key: Key) -> Entry | None:
        """The entry of `key`, None when there is none that can be used."""
        return (await self.get_many([key]))[0]

    async def get_many(self, keys: Sequence[Key]) -> list[Entry | None]:
        """The entry of each key, None where there is none that can be used."""
        asked = [self._writes.waiting(key) or self._reads.ask(key) for key in keys]
        return [
            self._count(a if isinstance(a, Entry) else self._read(key, await a))
            for key, a in zip(keys, asked, strict=True)
        ]

    def put(self, key: Key, entry: Entry) -> None:
        """Keep `entry`: at once for this process, soon after (about 0.1 s) for good."""
        try:
            value = self._codec.encode(entry)
        except TypeError:
            # A server may say that it took any number of tokens.
            self.counters.lost += 1
            return
        arrived = microseconds(entry.arrived_at)
        self._writes.put(entry, Item(key, value, arrived, self._old(key)))

    async def stats(self) -> StoreStats:
        """What the store holds; may read all of it. Raises StoreError."""
        return await self._backend.stats()

    async def prune(self, max_bytes: int | None = None, max_age: timedelta | None = None) -> int:
        """Drop what is older than `max_age`, then the oldest until at most `max_bytes` are taken.

        Returns how many entries were dropped. Raises StoreError.
        """
        before = microseconds(datetime.now(UTC) - max_age) if max_age is not None else None
        return await self._backend.prune(max_bytes, before)

    async def close(self) -> None:
        """Write what is still to be written, and let go of the store."""
        await self._writes.close()
        await self._backend.close()

    def _read(self, key: Key, value: bytes | None) -> Entry | None:
        if value is None:
            return None
        try:
            entry = self._codec.decode(value)
        except UnreadableEntryError:
            self.counters.unreadable += 1
        else:
            if self._max_age is None or datetime.now(UTC) - entry.arrived_at <= self._max_age:
                return entry
        self._stale.add(key)
        return None

    def _old(self, key: Key) -> bool:
        """Whether what the store has of `key` is of no use; then it is to be replaced."""
        stale = key in self._stale
        self._stale.discard(key)
        return stale

    def _count(self, entry: Entry | None) -> Entry | None:
        if entry is None:
            self.counters.misses += 1
        else:
            self.counters.hits += 1
        return entry
