"""How long a call is waited for: deadlines learned from the latencies of its template."""

import math

from verifier.latencies import Latencies

CUT_SHARE = 0.98
CUT_FACTOR = 1.15
CUT_FACTOR_HEDGED = 1.5
"""A straggler is cut off this far beyond the latency that CUT_SHARE of the calls keep to; a hedged
one later, so that its duplicate has time to answer."""

CUT_MEDIANS = 3.0
SHORTEST_CUT_S = 0.25
"""Steady latencies leave no room between their median and their CUT_SHARE: then these count."""

HEDGE_SHARE = 0.97
MOST_HEDGES = 0.05
"""At most this share of an endpoint's calls is sent twice."""


class Patience:
    """What is to be expected of each template's calls at one endpoint and model."""

    def __init__(self, *, hedged: bool) -> None:
        self._factor = CUT_FACTOR_HEDGED if hedged else CUT_FACTOR
        self._latencies: dict[str, Latencies] = {}
        self._cuts: dict[str, float] = {}
        self._hedges: dict[str, float] = {}
        self._soonest = math.inf

    def answered(self, template: str, seconds: float) -> None:
        """A call got its reply after `seconds`, retries included."""
        self._of(template).add(seconds)

    def missed(self, template: str, seconds: float) -> None:
        """A call was given up after `seconds`."""
        self._of(template).add(seconds, missed=True)

    def cut_after(self, template: str) -> float | None:
        """Seconds after which a call that is no longer needed is cut off; None: not known yet."""
        return self._cuts.get(template)

    def hedge_after(self, template: str) -> float | None:
        """Seconds after which a call is worth a duplicate; None: not known yet."""
        return self._hedges.get(template)

    @property
    def soonest(self) -> float:
        """No call is late before so many seconds; infinite while nothing is known."""
        return self._soonest

    def refresh(self) -> None:
        """Take in what was learned since the last time."""
        for template, latencies in self._latencies.items():
            median, hedge, high = map(latencies.quantile, (0.5, HEDGE_SHARE, CUT_SHARE))
            if median is None or hedge is None or high is None:
                continue
            self._hedges[template] = hedge
            self._cuts[template] = max(SHORTEST_CUT_S, CUT_MEDIANS * median, self._factor * high)
        self._soonest = min((*self._hedges.values(), *self._cuts.values()), default=math.inf)

    def _of(self, template: str) -> Latencies:
        latencies = self._latencies.get(template)
        if latencies is None:
            latencies = self._latencies[template] = Latencies()
        return latencies
