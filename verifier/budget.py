"""How much may be sent and spent: calls and dollars, in all or in each period. Pure: time is told.

Who sends asks `may_send`, then says `spent` at once, with what the call is expected to cost; once
the answer tells the cost, `spent(0, actual - expected)` corrects it. So calls in flight count, and
`max_calls` is never passed.
"""

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from schemas.errors import UsageError
from schemas.reasons import FailureReason
from verifier.fault import Action, Fault

_NANO = 10**9


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """The most calls (requests sent, retries and hedges included) and the most US dollars, over
    all processes; in each period, or in all. None is no limit."""

    max_calls: int | None = None
    max_cost_usd: float | None = None
    period: timedelta | None = None

    def share(self, processes: int) -> "BudgetLimits":
        """What one of `processes` may spend where they count apart; all together stay within it.

        Raises UsageError when there are more processes than calls.
        """
        calls, cost = self.max_calls, self.max_cost_usd
        if calls is not None and calls < processes:
            raise UsageError(
                f"--max_calls {calls} cannot be shared by {processes} processes: allow at least "
                "one call each, or use a cache that they share (--cache redis://HOST)"
            )
        return replace(
            self,
            max_calls=None if calls is None else calls // processes,
            max_cost_usd=None if cost is None else cost / processes,
        )


class Budget:
    """What is left of the limits. `now` is in seconds since 1970.

    Periods begin at multiples of their length since 1970, so that days are those of UTC and all
    processes agree. Dollars are counted in whole billionths: sums of them have no rounding.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_cost_usd: float | None = None,
        period: timedelta | None = None,
    ) -> None:
        self.limits = BudgetLimits(max_calls, max_cost_usd, period)
        self._most_nano = None if max_cost_usd is None else round(max_cost_usd * _NANO)
        self._period = 0
        self._calls = 0
        self._nano = 0

    @property
    def calls(self) -> int:
        """Calls counted in the period."""
        return self._calls

    @property
    def cost_usd(self) -> float:
        """Dollars counted in the period."""
        return self._nano / _NANO

    def may_send(self, now: float, calls: int = 1, cost_usd: float = 0.0) -> bool:
        """Whether `calls` more, expected to cost `cost_usd` together, are within the limits.

        A period that is over is forgotten first.
        """
        self._enter(now)
        most = self.limits.max_calls
        if most is not None and self._calls + calls > most:
            return False
        if self._most_nano is None:
            return True
        spent = self._nano < self._most_nano
        return spent and self._nano + round(cost_usd * _NANO) <= self._most_nano

    def spent(self, calls: int, cost_usd: float) -> None:
        """`calls` were sent and `cost_usd` was spent; a negative cost was counted too much before.

        A correction that comes after its period leaves no credit for the next.
        """
        self._calls += calls
        self._nano = max(0, self._nano + round(cost_usd * _NANO))

    def begins_anew(self) -> float | None:
        """When the period is over, in seconds since 1970; None when it never is."""
        length = self._length
        return None if length is None else (self._period + 1) * length

    def exhausted(self) -> Fault:
        """What becomes of a call that may not be sent: not retried, seen by a person."""
        flags = [
            f"--{name} {value:g}"
            for name, value in (
                ("max_calls", self.limits.max_calls),
                ("max_cost_usd", self.limits.max_cost_usd),
            )
            if value is not None
        ]
        anew = self.begins_anew()
        until = f" until {datetime.fromtimestamp(anew, UTC):%Y-%m-%d %H:%M} UTC" if anew else ""
        detail = f"the budget is spent{until} ({', '.join(flags)})"
        return Fault(Action.GIVE_UP, FailureReason.BUDGET_EXHAUSTED, detail)

    @property
    def _length(self) -> float | None:
        period = self.limits.period
        return None if period is None else period.total_seconds()

    def _enter(self, now: float) -> None:
        length = self._length
        period = 0 if length is None else math.floor(now / length)
        if period > self._period:
            self._period, self._calls, self._nano = period, 0, 0
