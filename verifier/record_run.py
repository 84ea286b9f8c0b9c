"""A record on its way through the engine: its calls, its clock, and where the result goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verifier.budget import Purse
    from verifier.call import Call

Deliver = Callable[["RecordRun", BaseException | None], object]
SeeToStragglers = Callable[["RecordRun", float], object]


class RecordRun:
    """Counts a record's calls down and keeps its deadline. For the engine's loop only.

    The clock stands still while any of the calls is held in our own queue.
    """

    __slots__ = (
        "_deliver", "_elapsed", "_excused", "_held", "_left", "_loop", "_seconds",
        "_see_to_stragglers", "_since", "_waiting", "calls", "delivered", "purse", "record_id",
        "started",
    )  # fmt: skip

    def __init__(
        self,
        record_id: str,
        seconds: float,
        deliver: Deliver,
        see_to_stragglers: SeeToStragglers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.record_id = record_id
        self.calls: Sequence[Call] = ()
        self.delivered = False
        self.purse: Purse | None = None
        self._seconds = seconds
        self._deliver = deliver
        self._see_to_stragglers = see_to_stragglers
        self._loop = loop
        self._left = 0
        self._waiting: Sequence[Call] = ()
        self._held = 0
        self._elapsed = self._excused = 0.0
        self._since = self.started = loop.time()

    def start(
        self, calls: Sequence[Call], *, lead: bool = False, purse: Purse | None = None
    ) -> None:
        """Queue all calls, paid for from `purse`; with `lead`, the first alone, and the others once
        it is done."""
        self.calls = calls
        self.purse = purse
        self._left = len(calls)
        self._waiting = calls[1:] if lead else ()
        for call in calls[:1] if lead else calls:
            call.queue()

    def hold(self) -> None:
        """A call waits in our queue from now on."""
        if self._held == 0:
            self._elapsed += self._loop.time() - self._since
        self._held += 1

    def release(self) -> None:
        """A call waits no more."""
        self._held -= 1
        if self._held == 0:
            self._since = self._loop.time()

    def excuse(self, seconds: float) -> None:
        """The last so many seconds, of an attempt during an outage: they do not count.

        Those of attempts side by side are the same seconds.
        """
        now = self._loop.time()
        running = 0.0 if self._held else now - self._since
        fresh = min(seconds, now - self._excused)
        self._excused = now
        self._elapsed = max(self._elapsed - fresh, -running)

    def tick(self, now: float) -> None:
        """Give all calls up if the record's deadline has passed; else see to its stragglers."""
        if not self._held and self._elapsed + now - self._since >= self._seconds:
            for call in self.calls:
                call.give_up("the record's deadline passed")
        else:
            self._see_to_stragglers(self, now)

    def one_done(self) -> None:
        """A call is done; the last one completes the record."""
        self._left -= 1
        waiting, self._waiting = self._waiting, ()
        for call in waiting:
            call.queue()
        if self._left == 0 and not self.delivered:
            self.delivered = True
            self._end(None)

    def fail(self, error: BaseException) -> None:
        """End the record with the run's fault; its requests are cut off."""
        if not self.delivered:
            self.delivered = True
            for call in self.calls:
                call.abandon()
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """Deliver, and let go of the calls.

        They refer to the record: in such a cycle all of it would stay until garbage is looked for.
        """
        if self.purse is not None:
            self.purse.close()
        self._deliver(self, error)
        self.calls = self._waiting = ()
