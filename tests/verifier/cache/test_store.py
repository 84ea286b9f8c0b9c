"""The cache as the engine sees it: batches, retries, and failures that touch no record."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest

from tests.verifier.cache.support import MemoryBackend, entry, key
from verifier.answer import Reply
from verifier.cache import health, reads, writes
from verifier.cache.backend import StoreError
from verifier.cache.entry import Entry, EntryCodec
from verifier.cache.store import ReplyStore


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_REST_S", 0.05)
    monkeypatch.setattr(reads, "READ_S", 0.2)
    monkeypatch.setattr(writes, "WRITE_S", 0.2)
    monkeypatch.setattr(writes, "CLOSE_S", 0.3)


def filled(count: int, lanes: int = 1, batch: int = 100) -> tuple[ReplyStore, MemoryBackend]:
    """A store that holds `count` entries, and its backend."""
    backend = MemoryBackend(lanes, batch)
    backend.values = {key(n): EntryCodec().encode(entry(f"reply {n}")) for n in range(count)}
    return ReplyStore("memory", backend), backend


def texts(entries: list[Entry | None]) -> list[str | None]:
    return [getattr(e.outcome, "text", None) if e else None for e in entries]


async def written(backend: MemoryBackend, count: int) -> None:
    async with asyncio.timeout(5):
        while len(backend.values) < count:  # noqa: ASYNC110 - the store writes behind
            await asyncio.sleep(0.01)


def test_reads_that_come_together_are_one_batch() -> None:
    """Ten records of five calls: one read of the backend, no key twice."""

    async def run() -> None:
        store, backend = filled(3)
        answers = await asyncio.gather(
            *(store.get_many([key(n) for n in range(5)]) for _ in range(10))
        )
        expected = ["reply 0", "reply 1", "reply 2", None, None]
        assert [texts(a) for a in answers] == [expected] * 10
        assert [sorted(r) for r in backend.reads] == [sorted(key(n) for n in range(5))]
        assert (store.counters.hits, store.counters.misses) == (30, 20)

    asyncio.run(run())


def test_batches_are_as_large_as_the_backend_likes_and_no_more_than_its_lanes_at_once() -> None:
    async def run() -> None:
        store, backend = filled(10, lanes=2, batch=3)
        backend.gate.clear()
        asked = asyncio.create_task(store.get_many([key(n) for n in range(10)]))
        await asyncio.sleep(0.02)
        assert [len(r) for r in backend.reads] == [3, 3]
        backend.gate.set()
        assert texts(await asked) == [f"reply {n}" for n in range(10)]
        assert [len(r) for r in backend.reads] == [3, 3, 3, 1]

    asyncio.run(run())


def test_one_read_after_the_other_is_answered() -> None:
    """Also by a lane that has just gone."""

    async def run() -> None:
        store, _ = filled(50)
        assert [await store.get(key(n)) is not None for n in range(60)] == [True] * 50 + [
            False
        ] * 10

    asyncio.run(asyncio.wait_for(run(), 10))


def test_whoever_waits_no_more_does_not_disturb_the_others() -> None:
    async def run() -> None:
        store, backend = filled(1)
        backend.gate.clear()
        impatient, patient = (asyncio.create_task(store.get(key(0))) for _ in range(2))
        await asyncio.sleep(0.02)
        impatient.cancel()
        backend.gate.set()
        assert texts([await patient]) == ["reply 0"]
        assert impatient.cancelled() or (await asyncio.wait([impatient]) and impatient.cancelled())

    asyncio.run(run())


def test_what_was_put_is_there_at_once_and_written_soon() -> None:
    async def run() -> None:
        store, backend = filled(0)
        kept = entry()
        store.put(key(1), kept)
        assert await store.get(key(1)) is kept
        assert backend.values == {}
        await written(backend, 1)
        assert await store.get(key(1)) == kept
        assert store.counters.kept == 1

    asyncio.run(run())


def test_writes_that_come_together_are_one_batch() -> None:
    async def run() -> None:
        store, backend = filled(0)
        for number in range(100):
            store.put(key(number), entry())
        await written(backend, 100)
        assert [len(w) for w in backend.writes] == [100]

    asyncio.run(run())


def test_closing_writes_what_waits() -> None:
    async def run() -> None:
        store, backend = filled(0)
        for number in range(2500):
            store.put(key(number), entry())
        await store.close()
        assert len(backend.values) == 2500
        assert backend.closed
        assert store.counters.lost == 0

    asyncio.run(run())


def test_closing_while_a_write_is_under_way_loses_nothing() -> None:
    async def run() -> None:
        store, backend = filled(0)
        backend.gate.clear()
        store.put(key(1), entry())
        async with asyncio.timeout(5):
            while not backend.writes:  # noqa: ASYNC110 - the store writes behind
                await asyncio.sleep(0.01)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0.02)
        backend.gate.set()
        await closing
        assert list(backend.values) == [key(1)]

    asyncio.run(run())


@pytest.mark.parametrize("error", [StoreError("down"), RuntimeError("a bug"), TimeoutError()])
def test_a_failing_read_is_a_miss_that_is_counted_and_warned_of(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """While the store rests it is not asked; then it is well again."""

    async def run() -> None:
        store, backend = filled(3)
        backend.broken = error
        assert await store.get_many([key(n) for n in range(3)]) == [None] * 3
        assert store.counters.failed_reads == 3
        assert await store.get(key(0)) is None
        assert len(backend.reads) == 1
        backend.broken = None
        await asyncio.sleep(0.06)
        assert texts([await store.get(key(0))]) == ["reply 0"]
        assert (store.counters.hits, store.counters.misses) == (1, 4)

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert len(caplog.messages) == 1
    assert "the cache memory fails" in caplog.messages[0]


def test_a_read_that_hangs_is_a_miss() -> None:
    async def run() -> None:
        store, backend = filled(1)
        backend.gate.clear()
        async with asyncio.timeout(2):
            assert await store.get(key(0)) is None
        assert store.counters.failed_reads == 1

    asyncio.run(run())


def test_rests_grow_and_warnings_are_few(caplog: pytest.LogCaptureFixture) -> None:
    """An outage of 0.4 s, asked all the time: rests of 0.05, 0.1 and 0.2 s or more."""

    async def run() -> None:
        store, backend = filled(1)
        backend.broken = StoreError("down")
        async with asyncio.timeout(2):
            for _ in range(80):
                await store.get(key(0))
                await asyncio.sleep(0.005)
        assert 2 <= len(backend.reads) <= 5

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert 2 <= len(caplog.messages) <= 5


def test_a_failed_write_is_tried_again() -> None:
    """Until then the reply is there for this process."""

    async def run() -> None:
        store, backend = filled(0)
        backend.broken = StoreError("down")
        store.put(key(1), entry())
        async with asyncio.timeout(5):
            while not store.counters.failed_writes:  # noqa: ASYNC110 - the store writes behind
                await asyncio.sleep(0.01)
        assert await store.get(key(1)) is not None
        backend.broken = None
        await written(backend, 1)
        assert (store.counters.kept, store.counters.lost) == (1, 0)

    asyncio.run(run())


def test_what_waits_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """More replies than that are lost, and counted."""
    monkeypatch.setattr(writes, "MAX_WAITING", 10)

    async def run() -> None:
        store, backend = filled(0)
        for number in range(15):
            store.put(key(number), entry())
        assert store.counters.lost == 5
        await written(backend, 10)
        assert store.counters.kept == 10

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert caplog.messages == ["the cache memory cannot keep all replies"]


def test_a_reply_that_cannot_be_written_is_lost_and_harms_nothing() -> None:
    """A server that counts more tokens than there are."""

    async def run() -> None:
        store, _ = filled(0)
        store.put(key(1), Entry(Reply("text", None, 2**70, 0, 0), datetime.now(UTC)))
        assert await store.get(key(1)) is None
        assert store.counters.lost == 1

    asyncio.run(run())


@pytest.mark.parametrize("hangs", [False, True])
def test_a_store_that_fails_at_the_end_does_not_hold_up_the_end(hangs: bool) -> None:
    async def run() -> None:
        store, backend = filled(0)
        backend.broken = None if hangs else StoreError("down")
        if hangs:
            backend.gate.clear()
        for number in range(3):
            store.put(key(number), entry())
        async with asyncio.timeout(2):
            await store.close()
        assert store.counters.lost == 3
        assert backend.closed

    asyncio.run(run())


def test_entries_that_are_too_old_are_replaced() -> None:
    async def run() -> None:
        backend = MemoryBackend()
        store = ReplyStore("memory", backend, max_age=timedelta(hours=1))
        codec = EntryCodec()
        backend.values = {
            key(0): codec.encode(entry("old", timedelta(minutes=61))),
            key(1): codec.encode(entry("young", timedelta(minutes=59))),
        }
        assert texts(await store.get_many([key(0), key(1)])) == [None, "young"]
        store.put(key(0), entry("new"))
        store.put(key(1), entry("surplus"))
        await store.close()
        found = [codec.decode(backend.values[key(n)]) for n in range(2)]
        assert texts([*found]) == ["new", "young"]

    asyncio.run(run())


def test_an_entry_that_cannot_be_read_is_a_miss_and_is_replaced() -> None:
    async def run() -> None:
        store, backend = filled(0)
        backend.values[key(0)] = b"\x07 of a later version"
        assert await store.get(key(0)) is None
        assert store.counters.unreadable == 1
        store.put(key(0), entry("new"))
        await store.close()
        assert texts([EntryCodec().decode(backend.values[key(0)])]) == ["new"]

    asyncio.run(run())
