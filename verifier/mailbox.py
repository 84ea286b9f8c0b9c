"""Functions handed to an event loop from other threads: many of them for one wake-up."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary, ref

_log = logging.getLogger(__name__)


class Mailbox:
    """Calls what is put into it on `loop`, in order; to be put into from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # A strong reference would keep the loop in the registry below for ever.
        self._loop = ref(loop)
        self._letters: deque[Callable[[], object]] = deque()
        self._woken = False

    @classmethod
    def of_running_loop(cls) -> Mailbox:
        """The mailbox of the loop that runs here: one for all who share the loop."""
        loop = asyncio.get_running_loop()
        mailbox = _mailboxes.get(loop)
        if mailbox is None:
            mailbox = _mailboxes[loop] = cls(loop)
        return mailbox

    def put(self, function: Callable[[], object]) -> None:
        """Have `function` called on the loop soon."""
        self._letters.append(function)
        if not self._woken:
            self._woken = True
            loop = self._loop()
            if loop is not None and not loop.is_closed():
                loop.call_soon_threadsafe(self.read)

    def read(self) -> None:
        """Call all that is there; for the loop's thread. One that raises is logged."""
        self._woken = False
        while self._letters:
            function = self._letters.popleft()
            try:
                function()
            except Exception:  # noqa: BLE001 - it must not take those behind it along
                _log.exception("what was handed to the event loop failed")


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()
