"""The SQLite file: several processes, sudden ends, files that are not ours, and limits."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import UsageError
from tests.verifier.cache.support import cache_threads, entry, keep, kept, key, opened
from tests.verifier.cache.test_entry import ENTRIES
from verifier.cache import file_store, health, sqlite_file
from verifier.cache.backend import StoreStats
from verifier.cache.entry import Entry
from verifier.cache.opening import open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"


@settings(max_examples=20)
@given(st.dictionaries(st.integers(0, 1000), ENTRIES, max_size=30))
def test_what_is_kept_is_there_the_next_time(entries: dict[int, Entry]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache = f"file:{folder}/cache.sqlite"
        asyncio.run(keep(cache, entries))
        numbers = [*entries, 2000]
        assert asyncio.run(kept(cache, numbers)) == [entries.get(n) for n in numbers]


def test_the_first_reply_stays(path: Path) -> None:
    """Whoever asks later gets the one that others may have used already."""
    first = entry("first")
    asyncio.run(keep(f"file:{path}", {1: first}))
    asyncio.run(keep(f"file:{path}", {1: entry("second")}))
    assert asyncio.run(kept(f"file:{path}", [1])) == [first]


def test_folders_are_made_and_closing_leaves_one_file_and_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "cache.sqlite"
    asyncio.run(keep(f"file:{path}", {1: entry()}))
    assert list(path.parent.iterdir()) == [path]
    assert cache_threads() == []


def test_a_write_is_on_disk_within_a_moment(path: Path) -> None:
    """Another process could read it, while the store stays open."""

    async def run() -> float:
        async with opened(f"file:{path}") as store, opened(f"file:{path}") as other:
            begun = time.monotonic()
            store.put(key(1), entry())
            while await other.get(key(1)) is None:  # noqa: ASYNC110 - it is written behind
                await asyncio.sleep(0.002)
            return time.monotonic() - begun

    assert asyncio.run(run()) < 1


def test_the_loop_is_not_held_up_by_a_file_that_is_locked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes for a second: reads go on, and what was to be written is written then."""
    asyncio.run(keep(f"file:{path}", {1: entry("before")}))

    async def run() -> tuple[float, int]:
        async with opened(f"file:{path}") as store:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            store.put(key(2), entry())
            longest, begun = 0.0, time.monotonic()
            while time.monotonic() - begun < 0.5:
                tick = time.monotonic()
                assert await store.get(key(1)) is not None
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - tick)
            other.execute("ROLLBACK")
            other.close()
        return longest, store.counters.kept

    longest, written = asyncio.run(run())
    assert longest < 0.3
    assert written == 1


_WRITER = """
import asyncio, sys
from tests.verifier.cache.support import entry, key, opened

async def run(cache, first, count):
    async with opened(cache) as store:
        for number in range(first, first + count):
            store.put(key(number), entry(f"reply {number}"))
            if number % 10 == 0:
                await asyncio.sleep(0.005)
    assert store.counters.lost == 0, store.counters
    print(store.counters.kept)

asyncio.run(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


def _writer(path: Path, first: int, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, f"file:{path}", str(first), str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_several_processes_make_and_write_one_file_at_once(path: Path) -> None:
    """Their replies overlap, and none is lost."""
    count, step, workers = 600, 300, 4
    processes = [_writer(path, n * step, count) for n in range(workers)]
    assert [p.communicate(timeout=60)[0] for p in processes] == [f"{count}\n"] * workers
    numbers = range((workers - 1) * step + count)
    found = asyncio.run(kept(f"file:{path}", numbers))
    assert [getattr(e and e.outcome, "text", None) for e in found] == [
        f"reply {n}" for n in numbers
    ]


_ENDLESS = """
import asyncio, itertools, sys
from tests.verifier.cache.support import entry, key, opened

async def run(cache):
    async with opened(cache) as store:
        for number in itertools.count():
            store.put(key(number), entry(f"reply {number}"))
            await asyncio.sleep(0.0005)
            if number % 50 == 49:
                print(store.counters.kept, flush=True)

asyncio.run(run(sys.argv[1]))
"""


@pytest.mark.parametrize("after", [1, 300])
def test_a_process_killed_in_the_middle_loses_only_its_last_moment(path: Path, after: int) -> None:
    """What it had written is there, and the file is sound."""
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, f"file:{path}"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    safe = 0
    while safe < after:
        safe = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    found = asyncio.run(kept(f"file:{path}", range(safe)))
    assert [getattr(e and e.outcome, "text", None) for e in found] == [
        f"reply {n}" for n in range(safe)
    ]
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_at_exit_what_waits_can_still_be_written(path: Path) -> None:
    """Threads of an executor would be gone by then."""
    code = """
import asyncio, atexit, sys, threading
from tests.verifier.cache.support import entry, key
from verifier.cache.opening import open_store

loop = asyncio.new_event_loop()
thread = threading.Thread(target=loop.run_forever, daemon=True)
thread.start()

def call(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(10)

store = call(open_store(sys.argv[1]))
loop.call_soon_threadsafe(store.put, key(1), entry())
atexit.register(lambda: call(store.close()))
"""
    subprocess.run([sys.executable, "-c", code, f"file:{path}"], check=True, timeout=60)
    assert asyncio.run(kept(f"file:{path}", [1])) != [None]


def _refused(cache: str) -> str:
    with pytest.raises(UsageError, match="--cache") as caught:
        asyncio.run(open_store(cache))
    assert cache_threads() == []
    return str(caught.value)


def _sqlite(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_the_sqlite_file_of_another_program_is_refused_and_not_touched(path: Path) -> None:
    _sqlite(path, "CREATE TABLE bookmarks (url TEXT)")
    before = path.read_bytes()
    said = _refused(f"file:{path}")
    assert str(path) in said
    assert "another program; name another file, or use --cache none" in said
    assert path.read_bytes() == before


def test_a_file_of_another_version_is_refused(path: Path) -> None:
    asyncio.run(keep(f"file:{path}", {1: entry()}))
    _sqlite(path, "PRAGMA user_version = 7")
    assert "another version of construct-beam (format 7, this one reads 1)" in _refused(
        f"file:{path}"
    )


def test_a_file_that_is_no_sqlite_file_is_refused_and_not_touched(path: Path) -> None:
    path.write_bytes(b"id,total\n" * 1000)
    assert "no SQLite file; name another file" in _refused(f"file:{path}")
    assert path.read_bytes() == b"id,total\n" * 1000


@pytest.mark.parametrize("left", [150, 4096, 6000])
def test_a_file_that_was_cut_is_refused(path: Path, left: int) -> None:
    asyncio.run(keep(f"file:{path}", {n: entry() for n in range(200)}))
    with path.open("r+b") as file:
        file.truncate(left)
    said = _refused(f"file:{path}")
    assert "delete it" in said or "no SQLite file" in said


def test_damage_within_the_file_makes_misses_not_errors(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And a warning that says which file to delete."""
    asyncio.run(keep(f"file:{path}", {n: entry("x" * 300) for n in range(500)}))
    data = bytearray(path.read_bytes())
    for at in range(8 * 4096, len(data), 4096):
        data[at : at + 2000] = b"\xff" * 2000
    path.write_bytes(data)

    async def run() -> int:
        async with opened(f"file:{path}") as store:
            found = await store.get_many([key(n) for n in range(500)])
            store.put(key(1000), entry())
            assert found == [None] * 500
            return store.counters.failed_reads

    assert asyncio.run(run()) > 0
    assert str(path) in caplog.text
    assert "delete it" in caplog.text


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder; name a file in it" in _refused(f"file:{tmp_path}")


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    assert "use --cache none" in _refused("file:/proc/nowhere/cache.sqlite")


def test_a_missing_file_is_not_made_unless_wanted(path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        asyncio.run(open_store(f"file:{path}", create=False))
    assert not path.exists()
    assert cache_threads() == []


_OPENS_AS_NOBODY = """
import asyncio, os, sys
from schemas.errors import UsageError
from verifier.cache.opening import open_store

if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    asyncio.run(open_store(sys.argv[1]))
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize("has_file", [False, True])
def test_what_cannot_be_written_is_refused(has_file: bool) -> None:
    """A folder, or the file in it, that is only to be read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cache.sqlite")
        if has_file:
            asyncio.run(keep(f"file:{path}", {1: entry()}))
            path.chmod(0o444)
        Path(folder).chmod(0o777 if has_file else 0o555)
        done = subprocess.run(
            [sys.executable, "-c", _OPENS_AS_NOBODY, f"file:{path}"],
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        Path(folder).chmod(0o755)
    assert f"--cache file:{path} cannot be used: the file or its folder cannot be" in done.stdout, (
        done.stderr
    )


def test_a_full_disk_costs_replies_but_no_record(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was written before stays readable."""
    monkeypatch.setattr(health, "FIRST_REST_S", 0.05)
    asyncio.run(keep(f"file:{path}", {1: entry("before")}))

    async def run() -> None:
        async with opened(f"file:{path}") as store:
            backend = store._backend
            assert isinstance(backend, file_store.FileBackend)
            await backend._write(lambda c: c.execute("PRAGMA max_page_count = 10").fetchall())
            for number in range(100, 300):
                store.put(key(number), entry("x" * 300 + str(number)))
            async with asyncio.timeout(10):
                while not store.counters.failed_writes:  # noqa: ASYNC110 - it is written behind
                    await asyncio.sleep(0.01)
            assert await store.get(key(1)) is not None
            assert await store.get(key(200)) is not None
        assert store.counters.lost == 200

    asyncio.run(run())
    assert "the disk is full; make room" in caplog.text
    assert asyncio.run(kept(f"file:{path}", [100])) == [None]


def test_the_file_is_kept_below_its_limit(path: Path) -> None:
    """The oldest go first, and the file does not grow on."""
    limit = 300_000

    async def run() -> tuple[int, list[bool]]:
        async with opened(f"file:{path}", max_bytes=limit) as store:
            for number in range(2000):
                store.put(key(number), entry(os.urandom(300).hex(), timedelta(seconds=-number)))
                if number % 100 == 99:
                    await asyncio.sleep(0.06)
        async with opened(f"file:{path}", max_bytes=limit) as store:
            found = await store.get_many([key(n) for n in range(2000)])
            return (await store.stats()).bytes, [e is not None for e in found]

    taken, there = asyncio.run(run())
    assert taken <= limit
    assert path.stat().st_size <= limit + 100_000
    assert there == sorted(there)
    assert sum(there) > 200


def test_a_lower_limit_is_reached_while_the_run_goes_on(path: Path) -> None:
    """A file made under a larger one shrinks, some rows a write."""
    asyncio.run(keep(f"file:{path}", {n: entry(os.urandom(300).hex()) for n in range(2000)}))
    before = path.stat().st_size

    async def run() -> None:
        async with opened(f"file:{path}", max_bytes=before // 4) as store:
            for number in range(5000, 5010):
                store.put(key(number), entry())
                await asyncio.sleep(0.06)

    asyncio.run(run())
    assert path.stat().st_size <= before // 4 + 50_000
    assert asyncio.run(kept(f"file:{path}", [5009])) != [None]


def test_entries_that_are_too_old_are_dropped_as_the_run_goes_on(path: Path) -> None:
    ages = {n: entry(age=timedelta(days=n)) for n in range(10)}
    asyncio.run(keep(f"file:{path}", ages))

    async def run() -> int:
        async with opened(f"file:{path}", max_age=timedelta(days=4.5)) as store:
            found = await store.get_many([key(n) for n in range(10)])
            assert [e is not None for e in found] == [True] * 5 + [False] * 5
            store.put(key(100), entry())
        async with opened(f"file:{path}") as store:
            return (await store.stats()).entries

    assert asyncio.run(run()) == 6


def test_pruning_drops_by_age_then_by_size_and_gives_the_room_back(path: Path) -> None:
    """While others have the file open and write."""
    entries = {n: entry(os.urandom(300).hex(), timedelta(hours=4000 - n)) for n in range(4000)}
    asyncio.run(keep(f"file:{path}", entries))
    before = path.stat().st_size

    async def run() -> None:
        async with opened(f"file:{path}") as store, opened(f"file:{path}") as other:
            by_age = await store.prune(max_age=timedelta(hours=3000.5))
            assert by_age == 1000
            other.put(key(9999), entry())
            dropped = await store.prune(max_bytes=before // 4)
            assert 1500 < dropped < 2500
            stats = await store.stats()
            assert stats.bytes <= before // 4
            assert stats.oldest == entries[1000 + dropped].arrived_at

    asyncio.run(run())
    assert path.stat().st_size <= before // 4 + 8192
    assert asyncio.run(kept(f"file:{path}", [3999, 9999, 1000])) == [
        entries[3999],
        asyncio.run(kept(f"file:{path}", [9999]))[0],
        None,
    ]


def test_statistics(path: Path) -> None:
    entries = {n: entry(age=timedelta(hours=n)) for n in range(3)}
    asyncio.run(keep(f"file:{path}", entries))

    async def run() -> StoreStats:
        async with opened(f"file:{path}") as store:
            return await store.stats()

    ends = (entries[2].arrived_at, entries[0].arrived_at)
    assert asyncio.run(run()) == StoreStats(3, path.stat().st_size, *ends)


def test_the_file_can_give_room_back(path: Path) -> None:
    """That is decided when it is made."""
    asyncio.run(keep(f"file:{path}", {}))
    connection = sqlite_file.open_reader(path)
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    connection.close()


_OPENER = """
import sys, time
from pathlib import Path
from verifier.cache.sqlite_file import open_file

while time.time() < float(sys.argv[1]):
    pass
for number in range(40):
    open_file(Path(sys.argv[2]) / str(number), True).close()
"""


def test_a_file_that_another_process_is_making_is_ours(tmp_path: Path) -> None:
    """Four processes open the same new files in the same moment; to none it seems another's."""
    at = str(time.time() + 1.5)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _OPENER, at, str(tmp_path)], stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    assert [process.communicate(timeout=60)[1] for process in processes] == [""] * 4
