"""The pool, places, the gate, a record's clock, and backoff: arithmetic and bookkeeping."""

import asyncio
import random
import threading
from collections.abc import Callable

import pytest

from verifier.backoff import CAP_S, retry_wait
from verifier.places import Gate, Places
from verifier.pool import Pool
from verifier.record_run import RecordRun


class Job:
    """Work that notes when it ran, and how many ran beside it."""

    def __init__(self, pool: Pool, number: int, order: list[int], peaks: list[int]) -> None:
        self._pool, self._number, self._order, self._peaks = pool, number, order, peaks

    async def run(self) -> None:
        self._order.append(self._number)
        self._peaks.append(len(self._pool.active))
        await asyncio.sleep(0.001)

    def tick(self, now: float) -> None:
        raise AssertionError(now)


class Open:
    """Admits whatever comes."""

    allowed = 1000

    def wait(self, _now: float) -> float:
        return 0.0

    def goes(self, work: object) -> None:
        pass

    def ended(self, work: object) -> None:
        pass

    def waited(self, seconds: float) -> None:
        raise AssertionError(seconds)


async def idle(pool: Pool) -> None:
    """Wait until nothing is queued or under way, then end the workers."""
    while pool.queued or pool.active:  # noqa: ASYNC110 - a pool tells nobody that it is idle
        await asyncio.sleep(0.001)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def test_a_pool_works_in_order_and_never_beyond_its_limit() -> None:
    """First come first served, also when work comes while all workers are busy or parked."""

    async def run() -> tuple[list[int], int]:
        pool, order, peaks = Pool(2, Open()), list[int](), list[int]()
        for number in range(20):
            pool.put(Job(pool, number, order, peaks))
            if number % 7 == 0:
                await asyncio.sleep(0.005)
        await idle(pool)
        return order, max(peaks)

    assert asyncio.run(run()) == (list(range(20)), 2)


def test_a_tightened_pool_loses_workers() -> None:
    """A smaller limit holds as soon as the work under way is done."""

    async def run() -> int:
        pool, order, peaks = Pool(8, Open()), list[int](), list[int]()
        for number in range(8):
            pool.put(Job(pool, number, order, peaks))
        await asyncio.sleep(0)
        pool.limit = 2
        for number in range(8, 40):
            pool.put(Job(pool, number, order, peaks))
        await idle(pool)
        assert len(order) == 40
        return max(peaks[-20:])

    assert asyncio.run(run()) <= 2


def test_a_gate_admits_in_order_and_survives_many_that_leave_at_once() -> None:
    """Whoever starts may leave at once, thousands in a row."""
    gate, started = Gate(2), list[int]()

    def leaver(number: int) -> Callable[[], None]:
        def start() -> None:
            started.append(number)
            gate.leave()

        return start

    gate.admit(lambda: started.append(-2))
    gate.admit(lambda: started.append(-1))
    for number in range(5000):
        gate.admit(leaver(number))
    assert started == [-2, -1]
    gate.leave()
    assert started == [-2, -1, *range(5000)]
    assert gate.inside == 1


def test_places_block_threads_at_the_limit() -> None:
    """A thread waits for a place until one is given back."""
    places = Places(1)
    assert places.acquire(0)
    assert not places.acquire(0.01)
    threading.Timer(0.05, places.release).start()
    assert places.acquire(2)
    assert places.taken == 1


async def record_run(seconds: float) -> tuple[RecordRun, list[BaseException | None]]:
    delivered: list[BaseException | None] = []
    run = RecordRun(
        "r",
        seconds,
        lambda _run, error: delivered.append(error),
        lambda _run, _now: None,
        asyncio.get_running_loop(),
    )
    return run, delivered


class Waiting:
    """A call that only counts how often it was given up."""

    given_up = 0

    def queue(self) -> None:
        pass

    def give_up(self, _why: str) -> None:
        self.given_up += 1

    def abandon(self) -> None:
        pass


def test_held_time_does_not_count_for_the_records_deadline() -> None:
    """While any call is held the clock stands still; then it goes on where it was."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        record, _ = await record_run(0.05)
        call = Waiting()
        record.start([call])  # type: ignore[list-item]
        record.hold()
        record.hold()
        record.tick(loop.time() + 10)
        record.release()
        record.tick(loop.time() + 10)
        record.release()
        record.tick(loop.time() + 0.01)
        assert call.given_up == 0
        record.tick(loop.time() + 0.1)
        assert call.given_up == 1

    asyncio.run(run())


def test_a_record_is_delivered_once() -> None:
    """By its last call or by a fault of the run, whichever comes first."""

    async def run() -> None:
        for fail_first in (True, False):
            record, delivered = await record_run(1)
            record.start([Waiting(), Waiting()])  # type: ignore[list-item]
            error = ValueError("x")
            if fail_first:
                record.fail(error)
            record.one_done()
            record.one_done()
            record.fail(error)
            assert delivered == [error if fail_first else None]

    asyncio.run(run())


@pytest.mark.parametrize("asked", [0.5, 7.0])
def test_an_asked_wait_is_kept_and_spread(asked: float) -> None:
    """Never shorter than asked, and not all at the same moment."""
    waits = [retry_wait(1, asked, random.Random(i)) for i in range(50)]
    assert all(asked <= w <= asked * 1.25 for w in waits)
    assert len(set(waits)) == 50


def test_backoff_grows_to_its_cap_with_full_jitter() -> None:
    """Anything from 0 to the doubling bound."""
    for attempt, bound in ((1, 0.5), (2, 1.0), (3, 2.0), (12, CAP_S)):
        waits = [retry_wait(attempt, None, random.Random(i)) for i in range(300)]
        assert all(0 <= w <= bound for w in waits)
        assert max(waits) > 0.9 * bound
        assert min(waits) < 0.1 * bound
