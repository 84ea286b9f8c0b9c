"""Recent latencies of one template's calls, as a histogram: what a call may be expected to take."""

import math

FEWEST = 50
"""Before so many calls nothing is expected."""

_WINDOW = 1000
"""Counts are halved whenever twice as many calls were seen: the recent ones weigh most."""

_SHORTEST_S = 0.001
_STEP = 1.05
"""Each bucket reaches 5 % further than the one below it."""

_BUCKETS = 300
_PER_BUCKET = math.log(_STEP)
MISSED = 2.0
"""A call that was not waited for would have taken longer: it counts for so many times its wait."""


class Latencies:
    """A decaying histogram of seconds; adding one costs a logarithm, a quantile a scan."""

    def __init__(self) -> None:
        self._counts = [0.0] * _BUCKETS
        self._total = 0.0

    def add(self, seconds: float, *, missed: bool = False) -> None:
        """A call that took `seconds`, or that was given up after them (`missed`).

        Without those given up, expectations would shrink with every call that is cut off.
        """
        taken = seconds * MISSED if missed else seconds
        bucket = int(math.log(max(taken, _SHORTEST_S) / _SHORTEST_S) / _PER_BUCKET)
        self._counts[min(bucket, _BUCKETS - 1)] += 1
        self._total += 1
        if self._total >= 2 * _WINDOW:
            self._counts = [count / 2 for count in self._counts]
            self._total /= 2

    def quantile(self, share: float) -> float | None:
        """The seconds that `share` of recent calls took at most; None before FEWEST calls."""
        if self._total < FEWEST:
            return None
        above, left = 0.0, (1 - share) * self._total
        for bucket in range(_BUCKETS - 1, -1, -1):
            count = self._counts[bucket]
            if count and above + count >= left:
                inside = (above + count - left) / count
                return _SHORTEST_S * math.exp(_PER_BUCKET * (bucket + inside))
            above += count
        return _SHORTEST_S
