"""Replies as objects on an emulated bucket."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import UsageError
from storage import gcs
from tests.support.gcs import emulated_bucket
from tests.verifier.cache.support import cache_threads, entry, keep, kept, key, opened
from tests.verifier.cache.test_entry import ENTRIES
from verifier.cache import gcs_store, manage, reads, writes
from verifier.cache.entry import Entry
from verifier.cache.opening import open_store


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with emulated_bucket(monkeypatch) as bucket:
        yield f"{bucket}/some/cache"


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.integers(0, 1000), ENTRIES, max_size=10))
def test_what_is_kept_is_there_the_next_time(cache: str, entries: dict[int, Entry]) -> None:
    manage.prune(cache, max_bytes=0)
    asyncio.run(keep(cache, entries))
    numbers = [*entries, 2000]
    assert asyncio.run(kept(cache, numbers)) == [entries.get(n) for n in numbers]
    assert cache_threads() == []


def test_objects_are_named_by_their_key_below_the_prefix(cache: str) -> None:
    asyncio.run(keep(cache, {1: entry(), 2: entry()}))
    assert gcs.expand(f"{cache}/*") == sorted(f"{cache}/{key(n).hex()}" for n in (1, 2))
    assert asyncio.run(kept(f"{cache}2", [1])) == [None]


def test_statistics_and_pruning(cache: str) -> None:
    """The neighbours of the cache in the bucket do not count, and are left alone."""
    neighbour = cache.removesuffix("cache") + "results.jsonl"
    gcs.write_bytes(neighbour, b"{}")
    begun = datetime.now(UTC)
    asyncio.run(keep(cache, {n: entry() for n in range(5)}))

    async def run() -> None:
        async with opened(cache) as store:
            stats = await store.stats()
            assert stats.entries == 5
            assert stats.oldest is not None
            assert stats.newest is not None
            assert begun <= stats.oldest <= stats.newest <= datetime.now(UTC)
            assert await store.prune(max_age=timedelta(hours=1)) == 0
            assert await store.prune(max_bytes=stats.bytes // 2) == 3
            assert await store.prune(max_age=timedelta(0)) == 2
            assert (await store.stats()).entries == 0

    asyncio.run(run())
    assert gcs.exists(neighbour)


def test_a_bucket_that_is_not_there_is_refused(cache: str) -> None:
    missing = cache.replace("gs://bucket", "gs://no-such-bucket")
    with pytest.raises(UsageError, match="--cache gs://no-such-bucket/some/cache/ cannot be used"):
        asyncio.run(open_store(missing))
    assert cache_threads() == []


def test_a_service_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr(
        gcs_store, "_OPTIONS", {"retry": gcs_store._RETRY.with_timeout(0.3), "timeout": 1}
    )
    gcs._client.cache_clear()
    try:
        with pytest.raises(UsageError, match="use --cache none"):
            asyncio.run(open_store("gs://bucket/cache"))
    finally:
        gcs._client.cache_clear()


class _Bucket(BaseHTTPRequestHandler):
    """Takes objects only where there is none, as the service does and the emulator does not."""

    objects: dict[str, bytes]
    status = 0

    def do_GET(self) -> None:
        if self.status:
            self._say(self.status, b"{}")
        elif self.path.startswith("/storage/v1/b/bucket/o?"):
            self._say(200, b'{"items": []}')
        else:
            body = self.objects.get(self._name)
            self._say(404 if body is None else 200, body or b"{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        boundary = body.split(b"\r\n", 1)[0]
        parts = body.split(boundary)
        value = parts[2].split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
        name = orjson.loads(parts[1].split(b"\r\n\r\n", 1)[1])["name"].removeprefix("cache/")
        must_be_new = parse_qs(urlsplit(self.path).query).get("ifGenerationMatch") == ["0"]
        if must_be_new and name in self.objects:
            self._say(412, b"{}")
            return
        self.objects[name] = value
        self._say(200, b'{"generation": "1"}')

    @property
    def _name(self) -> str:
        return urlsplit(self.path).path.rsplit("%2F", 1)[-1].rsplit("/", 1)[-1]

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Bucket]]:
    handler = type("Bucket", (_Bucket,), {"objects": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_address[1]}")
    gcs._client.cache_clear()
    try:
        yield handler
    finally:
        gcs._client.cache_clear()
        server.shutdown()
        thread.join(10)
        server.server_close()


def test_the_first_reply_stays(strict: type[_Bucket]) -> None:
    """An object that is there already is no failure."""
    first = entry("first")

    async def run() -> None:
        async with opened("gs://bucket/cache") as store:
            store.put(key(1), entry("second"))
        assert store.counters.kept == 1
        assert store.counters.failed_writes == 0

    asyncio.run(keep("gs://bucket/cache", {1: first}))
    asyncio.run(run())
    assert asyncio.run(kept("gs://bucket/cache", [1])) == [first]


def test_an_object_that_cannot_be_read_is_replaced(strict: type[_Bucket]) -> None:
    strict.objects[key(1).hex()] = b"something else"
    new = entry("new")

    async def run() -> None:
        async with opened("gs://bucket/cache") as store:
            assert await store.get(key(1)) is None
            store.put(key(1), new)

    asyncio.run(run())
    assert asyncio.run(kept("gs://bucket/cache", [1])) == [new]


def test_an_outage_costs_misses_and_no_record(
    strict: type[_Bucket], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        gcs_store, "_OPTIONS", {"retry": gcs_store._RETRY.with_timeout(0.1), "timeout": 1}
    )
    asyncio.run(keep("gs://bucket/cache", {1: entry()}))

    async def run() -> None:
        async with opened("gs://bucket/cache") as store:
            monkeypatch.setattr(strict, "status", 503)
            assert await store.get(key(1)) is None
            assert store.counters.failed_reads == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "the cache gs://bucket/cache/ fails" in caplog.text
    assert (reads.READ_S, writes.CLOSE_S) == (10.0, 4.0)
