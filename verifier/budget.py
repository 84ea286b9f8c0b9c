"""How much may be sent and spent: calls and dollars, in all or in each period. Pure: time is told.

Calls are counted before they are sent, with what they are expected to cost; once the answer tells
the cost, it is corrected. So calls in flight count, and `max_calls` is never passed.
"""

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from schemas.errors import UsageError
from schemas.reasons import FailureReason
from verifier.fault import Action, Fault

_NANO = 10**9


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """The most calls (requests sent, retries and hedges included) and the most US dollars, over
    all processes; in each period, or in all. None is no limit.

    Budgets with the same `id` are one: all stages and bundles of a run spend from it.
    """

    max_calls: int | None = None
    max_cost_usd: float | None = None
    period: timedelta | None = None
    id: str = field(default_factory=lambda: uuid4().hex, compare=False)

    def share(self, processes: int) -> "BudgetLimits":
        """What one of `processes` may spend where they count apart; all together stay within it.

        Raises UsageError when there are more processes than calls.
        """
        calls, cost = self.max_calls, self.max_cost_usd
        if calls is not None and calls < processes:
            raise UsageError(
                f"--max_calls {calls} cannot be shared by {processes} processes: allow at least "
                "as many calls as a record needs, for each"
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

    def __init__(self, limits: BudgetLimits) -> None:
        most = limits.max_cost_usd
        self.limits = limits
        self._most_nano = None if most is None else round(most * _NANO)
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

    def take(self, now: float, calls: int, cost_usd: float = 0.0) -> int | None:
        """Count `calls` more, expected to cost `cost_usd` together, if they are within the limits.

        Returns the period that they are counted in, for corrections; None when they are not.
        """
        self._enter(now)
        most, nano = self.limits.max_calls, round(cost_usd * _NANO)
        if most is not None and self._calls + calls > most:
            return None
        if self._most_nano is not None and (
            self._nano >= self._most_nano or self._nano + nano > self._most_nano
        ):
            return None
        self._calls += calls
        self._nano += nano
        return self._period

    def correct(self, period: int, calls: int, cost_usd: float) -> None:
        """What was counted in `period` came to so many calls and dollars more, or less.

        It is too late for a period that is over.
        """
        if period == self._period:
            self._calls += calls
            self._nano += round(cost_usd * _NANO)

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


class Purse:
    """What one record spends of a budget: enough for all its calls, or nothing.

    Money is not spent on records that cannot be finished: the first request takes what all of the
    record's calls need, each later one (a retry, a duplicate) takes its own.
    """

    __slots__ = ("_budget", "_closed", "_each", "_left", "_needed", "_period")

    def __init__(self, budget: Budget, calls: int) -> None:
        self._budget = budget
        self._needed = calls
        self._left = 0
        self._period: int | None = None
        self._each = 0.0
        self._closed = False

    def pay(self, now: float, expected_usd: float) -> bool:
        """A request that is expected to cost so much is to be sent; whether it may be."""
        if self._closed:
            return False
        if not self._left:
            first = self._period is None
            calls = self._needed if first else 1
            period = self._budget.take(now, calls, calls * expected_usd)
            if period is None:
                self._closed = first
                return False
            self._period, self._left, self._each = period, calls, expected_usd
        self._left -= 1
        return True

    def answered(self, cost_usd: float) -> None:
        """A request that was paid for came to so many dollars."""
        if self._period is not None:
            self._budget.correct(self._period, 0, cost_usd - self._each)

    def close(self) -> None:
        """Give back what was not needed: calls that the cache answered."""
        self._closed = True
        if self._period is not None and self._left:
            self._budget.correct(self._period, -self._left, -self._left * self._each)
            self._left = 0

    def exhausted(self) -> Fault:
        """What becomes of a call that may not be sent."""
        return self._budget.exhausted()
