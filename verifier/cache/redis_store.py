"""Replies in Redis, for workers that share no disk."""

import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from schemas.errors import UsageError
from verifier.cache.backend import Held, Item, StoreError, StoreStats, stats_of, surplus
from verifier.cache.entry import HEAD_BYTES, UnreadableEntryError, arrival
from verifier.cache.key import Key
from verifier.cache.spec import RedisSpec

PREFIX = "construct-beam:"
REPLIES = f"{PREFIX}reply:"
PASSWORD_ENV = "REDIS_PASSWORD"  # noqa: S105 - a variable's name
_PROBE = f"{PREFIX}probe"
SOCKET_S = 3.0
SCAN_COUNT = 500


class RedisBackend:
    """Strings under `REPLIES` and the key in hex, dropped by Redis once they are `max_age` old.

    How much memory they may take is a matter of the server's maxmemory. The password is read from
    the variable `password_env` (REDIS_PASSWORD, if there is one); UsageError if it is not set.
    """

    lanes = 2
    batch = 200
    write_batch = 500

    def __init__(
        self, spec: RedisSpec, max_age: timedelta | None, password_env: str | None
    ) -> None:
        self._spec = spec
        self._max_age = max_age
        self._password_env = password_env or PASSWORD_ENV
        self._client = Redis(
            host=spec.host,
            port=spec.port,
            db=spec.database,
            ssl=spec.tls,
            password=_password(password_env),
            socket_timeout=SOCKET_S,
            socket_connect_timeout=SOCKET_S,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries=2),
        )

    async def open(self) -> None:
        """Try to write. Raises UsageError."""
        try:
            await self._client.set(_PROBE, b"", px=1000)
            await self._client.delete(_PROBE)
        except (RedisError, OSError) as error:
            await self.close()
            raise self._unusable(error) from error

    async def get_many(self, keys: Sequence[Key]) -> Mapping[Key, bytes]:
        """What is there of `keys`."""
        with _failing():
            values = await self._client.mget([_name(key) for key in keys])
        return {key: v for key, v in zip(keys, values, strict=True) if isinstance(v, bytes)}

    async def put_many(self, items: Sequence[Item]) -> None:
        """Set all of `items` in one round trip."""
        now = time.time_ns() // 1000
        with _failing():
            async with self._client.pipeline(transaction=False) as pipe:
                for item in items:
                    left = self._left(item, now)
                    if left is None or left > 0:
                        pipe.set(_name(item.key), item.value, nx=not item.replaces, px=left)
                await _answers(pipe)

    async def stats(self) -> StoreStats:
        """Entries, bytes of their names and values, oldest and newest; looks at all of them."""
        with _failing():
            return stats_of([held async for held in self._held()])

    async def prune(self, max_bytes: int | None, before: int | None) -> int:
        """Drop entries; looks at all of them."""
        dropped = 0
        with _failing():
            doomed = surplus([held async for held in self._held()], max_bytes, before)
            for start in range(0, len(doomed), SCAN_COUNT):
                names = [held.name for held in doomed[start : start + SCAN_COUNT]]
                dropped += int(await self._client.unlink(*names))
        return dropped

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _left(self, item: Item, now: int) -> int | None:
        """The milliseconds that an item has to live, None when it may live for ever."""
        if self._max_age is None:
            return None
        return (item.arrived - now) // 1000 + self._max_age // timedelta(milliseconds=1)

    async def _held(self) -> AsyncIterator[Held]:
        """All entries; one that cannot be read counts as very old."""
        cursor = None
        while cursor != 0:
            cursor, names = await self._client.scan(cursor or 0, f"{REPLIES}*", SCAN_COUNT)
            async with self._client.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.getrange(name, 0, HEAD_BYTES - 1)
                    pipe.strlen(name)
                answers = await _answers(pipe)
            for name, head, length in zip(names, answers[::2], answers[1::2], strict=True):
                yield Held(_arrival(head), len(name) + length, _text(name))

    def _unusable(self, error: Exception) -> UsageError:
        if isinstance(error, AuthenticationError | NoPermissionError):
            return UsageError(
                f"--cache {self._spec}: Redis refuses the password ({error}); put the right one "
                f"into the environment variable {self._password_env}, or name another variable "
                "with --cache_password_env"
            )
        return UsageError(
            f"--cache {self._spec} cannot be used ({error}); start Redis there, name another "
            "cache, or use --cache none"
        )


async def _answers(pipe: Pipeline) -> list[Any]:
    """The answers to all commands; the error of one says nothing of its arguments, the replies."""
    answers: list[Any] = await pipe.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def _password(variable: str | None) -> str | None:
    password = os.environ.get(variable or PASSWORD_ENV)
    if variable and not password:
        raise UsageError(
            f"the environment variable {variable} is not set: put the password of Redis there, "
            "or name another with --cache_password_env"
        )
    return password or None


def _name(key: Key) -> str:
    return REPLIES + key.hex()


def _text(name: bytes | str) -> str:
    return name if isinstance(name, str) else name.decode()


def _arrival(head: bytes) -> int:
    try:
        return arrival(head)
    except UnreadableEntryError:
        return 0


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise StoreError(str(error) or type(error).__name__) from error
