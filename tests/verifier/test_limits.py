"""Slots, places, the record's clock, and backoff: arithmetic and bookkeeping."""

import asyncio
import random
import threading

import pytest

from verifier.backoff import CAP_S, retry_wait
from verifier.clock import RecordClock
from verifier.slots import Places, Slots


def test_slots_are_given_in_order_and_never_beyond_the_limit() -> None:
    """Waiters get their turn first come first served."""

    async def run() -> tuple[list[int], int]:
        slots, order, peak = Slots(2), [], 0

        async def work(number: int) -> None:
            nonlocal peak
            await slots.acquire()
            peak = max(peak, slots.in_flight)
            order.append(number)
            await asyncio.sleep(0.001)
            slots.release()

        await asyncio.gather(*(work(i) for i in range(20)))
        assert slots.in_flight == 0
        return order, peak

    order, peak = asyncio.run(run())
    assert order == list(range(20))
    assert peak == 2


def test_a_cancelled_waiter_gives_its_turn_away() -> None:
    """Cancelled before its turn or just as it came, no slot is lost."""

    async def run() -> None:
        slots = Slots(1)
        assert slots.try_acquire()
        waiters = [asyncio.create_task(slots.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        waiters[0].cancel()
        slots.release()
        waiters[1].cancel()
        await asyncio.wait_for(waiters[2], 1)
        assert slots.in_flight == 1
        slots.release()
        assert slots.in_flight == 0
        assert slots.try_acquire()

    asyncio.run(run())


def test_places_block_threads_at_the_limit() -> None:
    """A thread waits for a place until one is given back."""
    places = Places(1)
    assert places.acquire(0)
    assert not places.acquire(0.01)
    threading.Timer(0.05, places.release).start()
    assert places.acquire(2)
    assert places.taken == 1


def test_the_clock_expires_once_its_seconds_have_run() -> None:
    """Without holds it is a plain timer."""

    async def run() -> None:
        rung = asyncio.Event()
        clock = RecordClock(0.02, rung.set)
        await asyncio.wait_for(rung.wait(), 1)
        assert clock.expired

    asyncio.run(run())


def test_held_time_does_not_count() -> None:
    """While any call holds the clock it stands still; then it goes on where it was."""

    async def run() -> None:
        clock = RecordClock(0.05, lambda: None)
        with clock.held():
            with clock.held():
                await asyncio.sleep(0.06)
            await asyncio.sleep(0.06)
        assert not clock.expired
        await asyncio.sleep(0.1)
        assert clock.expired

    asyncio.run(run())


def test_a_closed_clock_never_rings() -> None:
    """Also when a hold ends after it was closed."""

    async def run() -> None:
        clock = RecordClock(0.01, lambda: None)
        with clock.held():
            clock.close()
        await asyncio.sleep(0.03)
        assert not clock.expired

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
