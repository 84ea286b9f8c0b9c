"""A request that is cut off: by its deadline, by the worker's own end, or by both at once."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from schemas.reasons import FailureReason
from verifier.attempt import Attempt
from verifier.fault import Action, Fault


class Endless:
    """A caller whose server never answers; `lingers` is for how many turns a cut-off takes."""

    def __init__(self, lingers: int = 0) -> None:
        self.loop = asyncio.get_running_loop()
        self._lingers = lingers

    async def key(self) -> None:
        return None

    async def post(self, _body: bytes, _key: str | None) -> tuple[int, Mapping[str, str], bytes]:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(self._lingers):
                await asyncio.sleep(0)
        raise AssertionError


def attempt(lingers: int = 0) -> Attempt:
    caller: Any = Endless(lingers)
    return Attempt(caller)


async def begun(one: Attempt) -> "asyncio.Task[Any]":
    task: asyncio.Task[Any] = asyncio.create_task(one.send(b""))
    await asyncio.sleep(0)
    assert one.under_way
    return task


@pytest.mark.parametrize("lingers", [0, 3])
def test_one_that_is_cut_off_times_out(lingers: int) -> None:
    """Its worker can go on with the next, and that is not cut off in its place."""

    async def run() -> None:
        one = attempt(lingers)
        one.expire("before it began")

        async def twice() -> list[Any]:
            return [await one.send(b""), await one.send(b"")]

        task = asyncio.create_task(twice())
        for why in ("too late", "again"):
            await asyncio.sleep(0.01)
            assert one.under_way
            one.expire(why)
            one.expire("not counted")
            await asyncio.sleep(0.01)
        outcomes = await task
        assert outcomes == [
            Fault(Action.RETRY, FailureReason.TIMEOUT, why) for why in ("too late", "again")
        ]
        assert not task.cancelling()
        assert not one.under_way

    asyncio.run(run())


@pytest.mark.parametrize("lingers", [0, 1, 3])
@pytest.mark.parametrize("first", ["expire", "cancel"])
def test_a_worker_that_is_cancelled_ends_even_if_its_request_is_cut_off(
    first: str, lingers: int
) -> None:
    """Both come in the same moment, in either order: else the engine would not close."""

    async def run() -> None:
        one = attempt(lingers)
        task = await begun(one)
        for what in (first, "cancel" if first == "expire" else "expire"):
            if what == "expire":
                one.expire("too late")
            else:
                task.cancel()
        await asyncio.wait([task], timeout=1)
        assert task.cancelled()

    asyncio.run(run())


def test_a_worker_that_is_cancelled_alone_ends() -> None:
    """As any task."""

    async def run() -> None:
        task = await begun(attempt())
        task.cancel()
        await asyncio.wait([task], timeout=1)
        assert task.cancelled()

    asyncio.run(run())
