"""What flows at a rate: requests and tokens a minute, and retries. Pure: time is told (s)."""

RETRIES_A_CALL = 0.5
RETRIES_A_SECOND = 1.0
RETRIES_AT_ONCE = 100.0
"""Retries may be half as many as calls, one a second in any case, and some at once."""

_TIMER_S = 0.001
"""No timer is more exact: a shorter wait is none, and is made up for by the next."""


class Flow:
    """An allowance of `per_minute` that fills up steadily, at most a second's worth.

    It may be overdrawn by what is only known once it was sent; then it is waited for.
    """

    def __init__(self, per_minute: float) -> None:
        self.per_minute = per_minute
        self._level = self._most
        self._at: float | None = None

    @property
    def _per_second(self) -> float:
        return self.per_minute / 60

    @property
    def _most(self) -> float:
        return max(1.0, self._per_second)

    def wait(self, now: float) -> float:
        """Seconds until something may go."""
        self._fill(now)
        wait = (1 - self._level) / self._per_second
        return wait if wait > _TIMER_S else 0.0

    def take(self, amount: float) -> None:
        """`amount` was sent; a negative one was counted too much before."""
        self._level = min(self._most, self._level - amount)

    def _fill(self, now: float) -> None:
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        self._level = min(self._most, self._level + passed * self._per_second)


class RetryBudget:
    """Lets retries through as a share of all calls, so that trouble does not multiply load."""

    def __init__(self) -> None:
        self._left = RETRIES_AT_ONCE
        self._at: float | None = None

    def called(self) -> None:
        """A call was made for the first time: it brings its share of a retry."""
        self._left = min(RETRIES_AT_ONCE, self._left + RETRIES_A_CALL)

    def reserve(self, now: float) -> float:
        """Take a retry; seconds until it may be sent."""
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        self._left = min(RETRIES_AT_ONCE, self._left + passed * RETRIES_A_SECOND) - 1
        return max(0.0, -self._left / RETRIES_A_SECOND)


class TokenEstimate:
    """What a request will cost in tokens, from the bytes of its body and what others came to."""

    def __init__(self) -> None:
        self._per_byte = 0.3

    def tokens(self, size: int) -> float:
        """The tokens to expect, prompt and reply together, for a body of `size` bytes."""
        return self._per_byte * size

    def learn(self, size: int, actual: int) -> float:
        """A request came to `actual` tokens: by how many it was underestimated. 0 is unknown."""
        if not actual or not size:
            return 0.0
        error = actual - self.tokens(size)
        self._per_byte += 0.05 * (actual / size - self._per_byte)
        return error
