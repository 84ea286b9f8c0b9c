"""What `construct-beam cache stats` and `construct-beam cache prune` do and say."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from schemas.errors import UsageError
from verifier.cache.backend import StoreError, StoreStats
from verifier.cache.opening import open_store
from verifier.cache.sizes import show_bytes
from verifier.cache.store import ReplyStore


def stats(cache: str, *, password_env: str | None = None) -> str:
    """What the cache that `--cache` names holds, as text. Raises UsageError."""
    return _with_store(cache, password_env, _stats)


def prune(
    cache: str,
    *,
    max_bytes: int | None = None,
    max_age: timedelta | None = None,
    password_env: str | None = None,
) -> str:
    """Drop what is older than `max_age`, then the oldest over `max_bytes`; what was done, as text.

    Raises UsageError.
    """
    if max_bytes is None and max_age is None:
        raise UsageError("nothing to prune by; name --max_bytes, --max_age or both")

    async def work(store: ReplyStore) -> str:
        before = await store.stats()
        dropped = await store.prune(max_bytes, max_age)
        after = await store.stats()
        freed = show_bytes(max(0, before.bytes - after.bytes))
        return f"dropped {dropped:,} replies, {freed}\n{summary(store.name, after)}"

    return _with_store(cache, password_env, work)


def summary(name: str, stats: StoreStats) -> str:
    """Statistics for people to read."""
    return "\n".join(
        [
            f"cache    {name}",
            f"replies  {stats.entries:,}",
            f"size     {show_bytes(stats.bytes)}",
            f"oldest   {_moment(stats.oldest)}",
            f"newest   {_moment(stats.newest)}",
        ]
    )


async def _stats(store: ReplyStore) -> str:
    return summary(store.name, await store.stats())


def _moment(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else "-"


def _with_store(
    cache: str, password_env: str | None, work: Callable[[ReplyStore], Awaitable[str]]
) -> str:
    async def run() -> str:
        store = await open_store(cache, password_env=password_env, create=False)
        if store is None:
            raise UsageError("--cache none keeps nothing; name a cache")
        try:
            return await work(store)
        except StoreError as error:
            raise UsageError(f"--cache {store.name}: {error}") from error
        finally:
            await store.close()

    return asyncio.run(run())
