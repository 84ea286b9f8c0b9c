"""What the cache command says and does."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.errors import UsageError
from tests.verifier.cache.support import entry, keep
from verifier.cache import manage


def test_statistics_of_a_file(tmp_path: Path) -> None:
    cache = f"file:{tmp_path}/cache.sqlite"
    entries = {n: entry(age=timedelta(days=n)) for n in range(3)}
    asyncio.run(keep(cache, entries))
    assert manage.stats(cache).splitlines() == [
        f"cache    {cache}",
        "replies  3",
        "size     20.5 kB",
        f"oldest   {entries[2].arrived_at:%Y-%m-%d %H:%M:%S} UTC",
        f"newest   {entries[0].arrived_at:%Y-%m-%d %H:%M:%S} UTC",
    ]


def test_pruning_a_file_says_what_was_dropped(tmp_path: Path) -> None:
    cache = f"file:{tmp_path}/cache.sqlite"
    asyncio.run(keep(cache, {n: entry("x" * n, timedelta(days=n)) for n in range(1000)}))
    said = manage.prune(cache, max_age=timedelta(days=9.5))
    assert re.match(r"dropped 990 replies, \d+\.\d kB\n", said)
    assert "replies  10\n" in said


def test_an_empty_cache_has_no_ends(tmp_path: Path) -> None:
    cache = f"file:{tmp_path}/cache.sqlite"
    asyncio.run(keep(cache, {}))
    assert manage.stats(cache).endswith("oldest   -\nnewest   -")
    assert manage.prune(cache, max_bytes=0).startswith("dropped 0 replies, 0 bytes")


def test_what_there_is_none_of_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        manage.stats(f"file:{tmp_path}/cache.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_pruning_by_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--max_bytes, --max_age or both"):
        manage.prune(f"file:{tmp_path}/cache.sqlite")


def test_no_cache_has_no_statistics() -> None:
    with pytest.raises(UsageError, match="name a cache"):
        manage.stats("none")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Damage that opening does not meet."""
    path = tmp_path / "cache.sqlite"
    asyncio.run(keep(f"file:{path}", {n: entry("x" * 500) for n in range(500)}))
    data = bytearray(path.read_bytes())
    for at in range(4 * 4096, len(data), 4096):
        data[at : at + 2000] = b"\xff" * 2000
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"--cache file:.*delete it"):
        manage.prune(f"file:{path}", max_bytes=0)
