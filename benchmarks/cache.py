"""What a reply costs to keep and to get again, for each kind of cache.

  python benchmarks/cache.py [--entries 20000] [file:PATH redis://… gs://…]

Without a cache named: a file in a temporary folder, and a Redis started for this if redis-server
is installed. Replies are of about 900 characters; records ask for five at once, 256 records in
flight. CPU is that of this process, all threads; `longest` is how long the loop was held up.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson
import uvloop
from reporting import redis_server

from verifier.answer import Reply
from verifier.cache.entry import Entry
from verifier.cache.key import RequestKeys
from verifier.cache.opening import open_store
from verifier.cache.store import ReplyStore

SENTENCE = (
    "the value stands in the second line of the document word for word and the invoice total "
    "matches the amount due but the currency is not stated and could be confused with another"
)
WORDS = SENTENCE.split()
CALLS = 5
IN_FLIGHT = 256


def entries(count: int) -> list[Entry]:
    """Replies of four fields with explanations."""
    rng = random.Random(1)  # noqa: S311 - a fixed seed is the point
    now = datetime.now(UTC)
    return [Entry(Reply(_text(rng), "m-2026-01-01", 1200, 200, 0), now) for _ in range(count)]


def _text(rng: random.Random) -> str:
    fields = {
        f"field_{n}": {
            "explanation": " ".join(rng.choices(WORDS, k=30)),
            "score": rng.randrange(101),
        }
        for n in range(4)
    }
    return orjson.dumps(fields).decode()


class Meter:
    """Wall and CPU seconds, and the longest that the loop was held up."""

    async def __aenter__(self) -> "Meter":
        self.longest = 0.0
        self._ticker = asyncio.create_task(self._tick())
        await asyncio.sleep(0)
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu
        self._ticker.cancel()

    async def _tick(self) -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.perf_counter() - begun - 0.001)

    def show(self, what: str, count: int) -> None:
        """A line of the table."""
        print(
            f"  {what:<22}{count / self.wall:>10.0f}/s{self.cpu / count * 1e6:>9.1f} us CPU"
            f"{self.longest * 1000:>9.1f} ms longest",
            flush=True,
        )


async def measure(cache: str, kept: Sequence[Entry]) -> None:
    """Print the figures of one cache."""
    keys = [
        RequestKeys("http://h/v1").key(orjson.dumps([time.time(), n])) for n in range(len(kept))
    ]
    print(cache, flush=True)
    store = await _open(cache)
    async with Meter() as meter:
        for number, (key, entry) in enumerate(zip(keys, kept, strict=True)):
            store.put(key, entry)
            if number % 50 == 49:
                await asyncio.sleep(0.002)
        while store.counters.kept + store.counters.lost < len(kept):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.002)
    meter.show("put, until it is safe", len(kept))
    if store.counters.kept != len(kept):
        raise SystemExit(f"kept {store.counters.kept} of {len(kept)}: {store.counters}")
    await store.close()

    store = await _open(cache)
    async with Meter() as meter:
        await _get_all(store, keys)
    meter.show("get, there", len(keys))
    if store.counters.hits != len(keys):
        raise SystemExit(f"not all was there: {store.counters}")
    missing = [RequestKeys("http://other").key(key) for key in keys]
    async with Meter() as meter:
        await _get_all(store, missing)
    meter.show("get, not there", len(keys))
    alone = keys[:200]
    begun = time.perf_counter()
    for key in alone:
        await store.get(key)
    print(
        f"  get, one at a time    {(time.perf_counter() - begun) / len(alone) * 1e3:>10.2f} ms each"
    )
    await store.close()


async def _open(cache: str) -> ReplyStore:
    store = await open_store(cache)
    if store is None:
        raise SystemExit("name a cache")
    return store


async def _get_all(store: ReplyStore, keys: Sequence[bytes]) -> None:
    records = iter([keys[n : n + CALLS] for n in range(0, len(keys), CALLS)])

    async def take() -> None:
        for record in records:
            await store.get_many(record)

    await asyncio.gather(*(take() for _ in range(IN_FLIGHT)))


@contextmanager
def local_caches() -> Iterator[list[str]]:
    """A file and, where there is redis-server, a Redis."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as redis:
        yield [f"file:{folder}/cache.sqlite", *([redis] if redis else [])]


def main() -> None:
    """Measure the caches that are named, or the local ones."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("caches", nargs="*")
    options = parser.parse_args()
    kept = entries(options.entries)
    with local_caches() if not options.caches else contextmanager(_named)(options.caches) as caches:
        for cache in caches:
            uvloop.run(measure(cache, kept))


def _named(caches: list[str]) -> Iterator[list[str]]:
    yield caches


if __name__ == "__main__":
    main()
