"""Threads that do blocking work for an event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Workers:
    """`count` daemon threads. Unlike those of an executor, they still work at exit, when the last
    replies are written."""

    def __init__(self, name: str, count: int = 1) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=name, daemon=True) for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """What `function` returns or raises, called on one of the threads."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            settle: Callable[[], None]
            try:
                settle = partial(done.set_result, function(*arguments))
            except Exception as error:  # noqa: BLE001 - raised where it is awaited
                settle = partial(done.set_exception, error)
            # A loop that was closed meanwhile has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, done, settle)

        self._jobs.put(job)
        return await done

    def stop(self) -> None:
        """End the threads once they have done what they were given; waits for idle ones."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(0.1)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _settle(done: asyncio.Future[Any], settle: Callable[[], None]) -> None:
    if not done.done():
        settle()
