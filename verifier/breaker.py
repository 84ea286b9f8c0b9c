"""A circuit breaker: while an endpoint answers nobody, one probe at a time and no more."""

import math
import random

OPENS_AFTER = 20
"""So many failures in a row open the breaker,"""
OPENS_AFTER_RECORDS = 3
"""if they are of as many records: a record that always fails is no outage."""
MOST_SUSPECTS = 1000
"""So many records are remembered as suspected of always failing, the latest."""
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 4.0


class Breaker:
    """Closed while calls go through. Open, it lets a probe through now and then. Pure: time is
    told to it, in seconds."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._failures = 0
        self._records: set[str] = set()
        self._suspects: dict[str, None] = {}
        self._opened: float | None = None
        self._wait = 0.0
        self._next = 0.0
        self._probe: object | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are held."""
        return self._opened is not None

    def outage(self, now: float) -> float:
        """For how many seconds calls have been held; 0 while closed."""
        return 0.0 if self._opened is None else now - self._opened

    def wait(self, now: float) -> float:
        """Seconds until a call may go; infinite while a probe is under way."""
        if self._opened is None:
            return 0.0
        return math.inf if self._probe is not None else max(0.0, self._next - now)

    def goes(self, call: object) -> None:
        """`call` is sent; if the breaker is open, as the probe."""
        if self._opened is not None:
            self._probe = call

    def ended(self, call: object) -> None:
        """`call` is over, with or without an answer; a probe without one makes room for another."""
        if self._probe is call:
            self._probe = None

    def answered(self, record_id: str, started: float) -> bool:
        """A call sent at `started` was answered: whether that closes the breaker.

        One from before the outage says nothing. Records that fail while others are answered are
        suspected of being the cause themselves, until they are answered, too.
        """
        if self._opened is not None and started <= self._opened:
            return False
        closes = self._opened is not None
        if self._failures and not closes:
            self._suspects.update(dict.fromkeys(self._records))
            while len(self._suspects) > MOST_SUSPECTS:
                del self._suspects[next(iter(self._suspects))]
        self._suspects.pop(record_id, None)
        self._opened, self._failures = None, 0
        self._records.clear()
        return closes

    def failed(
        self,
        record_id: str,
        now: float,
        asked: float | None = None,
        started: float = math.inf,
    ) -> None:
        """A call failed for a reason of the endpoint's, which asks for `asked` seconds of quiet.

        One sent at `started`, before the outage, is no probe; that of a suspect opens nothing.
        """
        if self._opened is None:
            if record_id in self._suspects:
                return
        elif started <= self._opened:
            return
        self._failures += 1
        if len(self._records) < OPENS_AFTER_RECORDS:
            self._records.add(record_id)
        if self._opened is None:
            if self._failures < OPENS_AFTER or len(self._records) < OPENS_AFTER_RECORDS:
                return
            self._opened, self._wait = now, FIRST_WAIT_S
        elif self._probe is None:
            return
        else:
            self._wait = min(2 * self._wait, LONGEST_WAIT_S)
        self._probe = None
        self._next = now + max(asked or 0.0, self._wait * self._rng.uniform(0.75, 1.25))
