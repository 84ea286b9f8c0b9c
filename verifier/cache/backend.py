"""What a store must be able to do: keep bytes under keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from schemas.errors import ConstructBeamError
from verifier.cache.entry import moment
from verifier.cache.key import Key


class StoreError(ConstructBeamError):
    """The store could not do what was asked, now; it may at another time."""


@dataclass(frozen=True, slots=True)
class Item:
    """An entry as bytes. `arrived` is in microseconds since 1970.

    Where the key is taken, what is there stays, unless the item `replaces` it: all who ask
    later agree on the first reply.
    """

    key: Key
    value: bytes
    arrived: int
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What a store holds: entries, the bytes they take, and when the ends of it arrived (UTC)."""

    entries: int
    bytes: int
    oldest: datetime | None
    newest: datetime | None


class Backend(Protocol):
    """A place for bytes under keys, for one event loop.

    `lanes` reads may be under way at once, each of at most `batch` keys; a write is of at most
    `write_batch` items. All methods raise StoreError when the store fails.
    """

    lanes: int
    batch: int
    write_batch: int

    async def get_many(self, keys: Sequence[Key]) -> Mapping[Key, bytes]:
        """What is there of `keys`."""
        ...

    async def put_many(self, items: Sequence[Item]) -> None:
        """Keep all of `items`; done when they are safe."""
        ...

    async def stats(self) -> StoreStats:
        """What the store holds; may read all of it."""
        ...

    async def prune(self, max_bytes: int | None, before: int | None) -> int:
        """Drop entries that arrived before a moment (microseconds), then the oldest until at
        most `max_bytes` are taken; returns how many were dropped."""
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """What pruning and statistics need to know of an entry; `arrived` is 0 if unreadable."""

    arrived: int
    bytes: int
    name: str


def stats_of(held: Sequence[Held]) -> StoreStats:
    """The statistics of a store that holds these."""
    arrivals = [h.arrived for h in held if h.arrived]
    ends = [moment(end(arrivals)) if arrivals else None for end in (min, max)]
    return StoreStats(len(held), sum(h.bytes for h in held), *ends)


def surplus(held: Sequence[Held], max_bytes: int | None, before: int | None) -> list[Held]:
    """Those to be dropped, oldest first, as `Backend.prune` says."""
    ordered = sorted(held, key=lambda h: h.arrived)
    over = sum(h.bytes for h in ordered) - max_bytes if max_bytes is not None else 0
    dropped = []
    for entry in ordered:
        if over <= 0 and (before is None or entry.arrived >= before):
            break
        over -= entry.bytes
        dropped.append(entry)
    return dropped
