"""Replies in a real Redis, which may ask for a password, be full, or go away."""

import asyncio
import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from schemas.errors import UsageError
from tests.support.redis import RedisServer, redis_server
from tests.verifier.cache.support import entry, keep, kept, key, opened
from tests.verifier.cache.test_entry import ENTRIES
from verifier.cache import health, manage, redis_store
from verifier.cache.entry import Entry
from verifier.cache.opening import open_store
from verifier.cache.redis_store import REPLIES


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(shared: RedisServer) -> RedisServer:
    """The shared server, emptied."""
    _plain(shared).flushall()
    return shared


def _plain(server: RedisServer) -> Redis:
    return Redis(port=server.port)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.integers(0, 1000), ENTRIES, max_size=30))
def test_what_is_kept_is_there_the_next_time(
    server: RedisServer, entries: dict[int, Entry]
) -> None:
    _plain(server).flushall()
    asyncio.run(keep(server.url, entries))
    numbers = [*entries, 2000]
    assert asyncio.run(kept(server.url, numbers)) == [entries.get(n) for n in numbers]


def test_keys_say_whose_they_are_and_live_for_ever(server: RedisServer) -> None:
    """Nothing else stays in the database, and others' keys are left alone."""
    plain = _plain(server)
    plain.set("somebody:else", "1")
    asyncio.run(keep(server.url, {1: entry()}))
    name = REPLIES + key(1).hex()
    assert name.startswith("construct-beam:")
    assert set(plain.keys()) == {b"somebody:else", name.encode()}
    assert plain.ttl(name) == -1
    manage.prune(server.url, max_bytes=0)
    assert plain.keys() == [b"somebody:else"]


def test_the_first_reply_stays_and_databases_are_apart(server: RedisServer) -> None:
    first = entry("first")
    asyncio.run(keep(server.url, {1: first}))
    asyncio.run(keep(server.url, {1: entry("second")}))
    assert asyncio.run(kept(server.url, [1])) == [first]
    assert asyncio.run(kept(server.url.removesuffix("/0") + "/1", [1])) == [None]


def test_entries_live_as_long_as_they_may(server: RedisServer) -> None:
    """From their arrival on; what is too old already is not written."""

    async def run() -> None:
        async with opened(server.url, max_age=timedelta(hours=2)) as store:
            store.put(key(1), entry(age=timedelta(hours=1)))
            store.put(key(2), entry(age=timedelta(hours=3)))

    asyncio.run(run())
    plain = _plain(server)
    assert 3500 <= plain.ttl(REPLIES + key(1).hex()) <= 3600
    assert plain.dbsize() == 1


def test_a_shorter_age_counts_for_what_is_there(server: RedisServer) -> None:
    """It is a miss, and the new reply replaces it."""
    asyncio.run(keep(server.url, {1: entry("old", timedelta(hours=3))}))

    async def run() -> None:
        async with opened(server.url, max_age=timedelta(hours=2)) as store:
            assert await store.get(key(1)) is None
            store.put(key(1), entry("new"))

    asyncio.run(run())
    [found] = asyncio.run(kept(server.url, [1]))
    assert found is not None
    assert getattr(found.outcome, "text", None) == "new"


def test_statistics_and_pruning(server: RedisServer) -> None:
    entries = {n: entry(age=timedelta(hours=n)) for n in range(1200)}
    asyncio.run(keep(server.url, entries))
    said = manage.stats(server.url)
    assert "replies  1,200\n" in said
    assert f"newest   {entries[0].arrived_at:%Y-%m-%d %H:%M:%S} UTC" in said
    assert "dropped 200 replies" in manage.prune(server.url, max_age=timedelta(hours=999.5))

    async def half() -> int:
        async with opened(server.url) as store:
            before = await store.stats()
            await store.prune(max_bytes=before.bytes // 2)
            after = await store.stats()
            assert after.oldest == entries[after.entries - 1].arrived_at
            return after.entries

    assert 490 <= asyncio.run(half()) <= 510


def test_a_server_that_is_not_there_is_refused_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(
        UsageError, match=r"--cache redis://127\.0\.0\.1:9/0 cannot be used"
    ) as said:
        asyncio.run(open_store("redis://127.0.0.1:9"))
    assert "start Redis there, name another cache, or use --cache none" in str(said.value)
    assert time.monotonic() - begun < 5


def test_a_server_that_says_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "SOCKET_S", 0.2)

    async def run() -> None:
        silent = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(UsageError, match="cannot be used"):
            await open_store(f"redis://127.0.0.1:{port}")
        silent.close()

    asyncio.run(asyncio.wait_for(run(), 10))


def test_the_password_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From REDIS_PASSWORD, or from the variable that is named; it is never said."""
    monkeypatch.delenv("REDIS_PASSWORD", raising=False)
    with redis_server(tmp_path, "--requirepass", "hunter2") as server:
        with pytest.raises(UsageError, match="environment variable REDIS_PASSWORD"):
            asyncio.run(open_store(server.url))
        monkeypatch.setenv("REDIS_PASSWORD", "hunter3")
        with pytest.raises(UsageError, match="refuses the password") as wrong:
            asyncio.run(open_store(server.url))
        assert "hunter" not in str(wrong.value)
        monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
        asyncio.run(keep(server.url, {1: entry()}))
        monkeypatch.setenv("REDIS_PASSWORD", "hunter3")
        monkeypatch.setenv("CACHE_PASSWORD", "hunter2")

        async def run() -> None:
            async with opened(server.url, password_env="CACHE_PASSWORD") as store:
                assert await store.get(key(1)) is not None

        asyncio.run(run())
    with pytest.raises(UsageError, match=r"NO_SUCH_NAME is not set.*--cache_password_env"):
        asyncio.run(open_store("redis://h", password_env="NO_SUCH_NAME"))


def test_an_outage_costs_misses_and_no_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was put meanwhile is written once the server is back."""
    monkeypatch.setattr(health, "FIRST_REST_S", 0.05)
    monkeypatch.setattr(health, "LONGEST_REST_S", 0.2)

    async def run(server: RedisServer) -> None:
        async with opened(server.url) as store:
            store.put(key(1), entry("before"))
            async with asyncio.timeout(10):
                while not store.counters.kept:  # noqa: ASYNC110 - it is written behind
                    await asyncio.sleep(0.01)
                server.stop()
                assert await store.get(key(1)) is None
                store.put(key(2), entry("meanwhile"))
                while not store.counters.failed_writes:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                server.start()
                while store.counters.kept < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.25)
            assert await store.get(key(2)) is not None
        assert store.counters.failed_reads == 1
        assert store.counters.lost == 0

    with redis_server(tmp_path) as server, caplog.at_level(logging.WARNING):
        asyncio.run(run(server))
    assert f"the cache {server.url} fails" in caplog.text


def test_a_server_that_is_full_costs_replies_but_no_record(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning quotes no reply."""
    asyncio.run(keep(server.url, {1: entry("before")}))

    async def run() -> None:
        async with opened(server.url) as store:
            _plain(server).config_set("maxmemory", "1")
            store.put(key(2), entry("the vendor's secret"))
            assert await store.get(key(1)) is not None
        assert store.counters.lost == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    _plain(server).config_set("maxmemory", "0")
    assert "maxmemory" in caplog.text
    assert "secret" not in caplog.text
    assert "SET" not in caplog.text


def test_a_read_only_server_is_refused(server: RedisServer) -> None:
    plain = _plain(server)
    plain.replicaof("127.0.0.1", "9")
    try:
        with pytest.raises(UsageError, match="read only replica"):
            asyncio.run(open_store(server.url))
    finally:
        plain.replicaof("NO", "ONE")
