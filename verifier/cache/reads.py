"""Reads of a store, merged into batches: one costs little when many are asked for at once."""

import asyncio
from collections.abc import Mapping
from itertools import islice

from verifier.cache.backend import Backend
from verifier.cache.health import Health
from verifier.cache.key import Key

READ_S = 10.0

Waiters = list[asyncio.Future[bytes | None]]


class Reads:
    """For the loop that the backend is on."""

    def __init__(self, backend: Backend, health: Health) -> None:
        self._backend = backend
        self._health = health
        self._wanted: dict[Key, Waiters] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes = 0
        self._starting = 0

    def ask(self, key: Key) -> asyncio.Future[bytes | None]:
        """What is there of `key`; None, too, when the store fails."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes | None] = loop.create_future()
        if self._health.rest_left:
            answer.set_result(None)
            return answer
        self._wanted.setdefault(key, []).append(answer)
        # A lane that has not begun takes what is wanted by then.
        covered = self._starting * self._backend.batch
        if covered < len(self._wanted) and self._lanes < self._backend.lanes:
            self._lanes += 1
            self._starting += 1
            lane = loop.create_task(self._lane())
            self._tasks.add(lane)
            lane.add_done_callback(self._tasks.discard)
        return answer

    async def _lane(self) -> None:
        self._starting -= 1
        try:
            while self._wanted:
                keys = list(islice(self._wanted, self._backend.batch))
                await self._fetch({key: self._wanted.pop(key) for key in keys})
        finally:
            # Now, not in a callback of the task: whoever asks next must see that it is gone.
            self._lanes -= 1

    async def _fetch(self, batch: Mapping[Key, Waiters]) -> None:
        values: Mapping[Key, bytes] = {}
        try:
            if not self._health.rest_left:
                async with asyncio.timeout(READ_S):
                    values = await self._backend.get_many(list(batch))
                self._health.well()
        except Exception as error:  # noqa: BLE001 - a cache that fails is a miss, whatever it is
            self._health.counters.failed_reads += len(batch)
            self._health.failed(error)
        finally:
            for key, waiters in batch.items():
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_result(values.get(key))
