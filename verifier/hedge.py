"""A duplicate of a slow call's request: the first answer counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verifier.attempt import Attempt

if TYPE_CHECKING:
    from verifier.call import Call
    from verifier.caller import Caller


class Hedge:
    """The duplicate, as work for the pool."""

    __slots__ = ("_attempt", "_call")

    def __init__(self, caller: Caller, call: Call) -> None:
        self._call = call
        self._attempt = Attempt(caller)

    async def run(self) -> None:
        """Send it, unless the call is no longer under way."""
        if self._call.result is not None or not self._call.under_way:
            return
        try:
            body = self._call.request()
            if self._call.goes(body, self) is None:
                outcome = await self._attempt.send(body)
                self._call.answered_beside(self._attempt, body, outcome)
        except Exception as error:  # noqa: BLE001 - delivered to whoever waits for the record
            self._call.fail(error)

    def tick(self, now: float) -> None:
        """It has no deadline of its own: it ends with its call."""

    def abandon(self) -> None:
        """The call is done."""
        self._attempt.expire("the other request was answered")
