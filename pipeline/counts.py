"""What a run placed: counts that add up over workers, and the summary made of them."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows, WindowedValue

from schemas.dead_letter import DeadLetter
from schemas.reasons import Route
from schemas.scored import ScoredRecord

BUCKETS_PER_DOUBLING = 16
"""Latencies are counted in buckets about 4 % wide, so that they add up over workers."""


@dataclass
class Counts:
    """Counts over placed records. Mergeable: the parts of a run add up."""

    routes: Counter[str] = field(default_factory=Counter)
    review_reasons: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)
    cost_usd: float | None = None
    latencies: Counter[int] = field(default_factory=Counter)

    def add(self, placed: ScoredRecord | DeadLetter) -> None:
        """Count one record."""
        if isinstance(placed, DeadLetter):
            self.dead_letters[placed.reason.value] += 1
            self.totals["calls"] += placed.attempts
            return
        self.routes[placed.decision.route.value] += 1
        self.review_reasons.update({r.split(":", 1)[0] for r in placed.decision.reasons})
        usage = placed.usage
        self.totals["calls"] += usage.calls
        self.totals["verdicts"] += placed.scores.n_verdicts
        self.totals["verdicts_from_cache"] += usage.from_cache
        self.totals["prompt_tokens"] += usage.prompt_tokens
        self.totals["completion_tokens"] += usage.completion_tokens
        self.totals["cached_tokens"] += usage.cached_tokens
        self._add_cost(usage.cost_usd)
        self.totals["records_of_unknown_cost"] += usage.cost_usd is None
        if usage.latency_ms:
            self.latencies[_bucket(usage.latency_ms)] += 1

    def merge(self, other: "Counts") -> None:
        """Add the counts of another part of the run."""
        self.routes += other.routes
        self.review_reasons += other.review_reasons
        self.dead_letters += other.dead_letters
        self.totals += other.totals
        self._add_cost(other.cost_usd)
        self.latencies += other.latencies

    def _add_cost(self, cost_usd: float | None) -> None:
        """Add what is known; the sum is not known while nothing is."""
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd

    def summary(self) -> dict[str, Any]:
        """The counts as run.json shows them; latencies are of a record's slowest call."""
        placed = {route.value: self.routes[route.value] for route in Route}
        placed["dead_letter"] = sum(self.dead_letters.values())
        names = (
            "calls", "verdicts", "verdicts_from_cache", "prompt_tokens", "completion_tokens",
            "cached_tokens",
        )  # fmt: skip
        return {
            "records": sum(placed.values()),
            "placed": placed,
            "review_reasons": _ordered(self.review_reasons),
            "dead_letter_reasons": _ordered(self.dead_letters),
            **{name: self.totals[name] for name in names},
            "cost_usd": self.cost_usd,
            "records_of_unknown_cost": self.totals["records_of_unknown_cost"],
            "latency_ms": {f"p{p}": _percentile(self.latencies, p) for p in (50, 90, 99)},
        }


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _bucket(milliseconds: float) -> int:
    return math.floor(math.log2(milliseconds) * BUCKETS_PER_DOUBLING)


def _percentile(buckets: Mapping[int, int], percent: int) -> float | None:
    """The middle of the bucket in which the percentile lies, None without any latency."""
    wanted = sum(buckets.values()) * percent / 100
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return round(2 ** ((bucket + 0.5) / BUCKETS_PER_DOUBLING), 3)
    return None


def count_placed(placed: Mapping[str, beam.PCollection]) -> beam.PCollection:
    """One Counts over PCollections of ScoredRecord or DeadLetter.

    Added up bundle by bundle, so that no record is shuffled for it.
    """
    parts = [part | f"Count/{name}" >> beam.ParDo(CountBundle()) for name, part in placed.items()]
    return parts | "Counts" >> beam.Flatten() | "AddUp" >> beam.CombineGlobally(add_up)


def add_up(parts: Iterable[Counts]) -> Counts:
    """The counts of all parts together."""
    total = Counts()
    for part in parts:
        total.merge(part)
    return total


class CountBundle(beam.DoFn):
    """One Counts for each bundle."""

    def start_bundle(self) -> None:
        """Nothing counted yet."""
        self._counts = Counts()

    def process(self, placed: ScoredRecord | DeadLetter) -> None:
        """Count one record."""
        self._counts.add(placed)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the bundle's counts."""
        yield GlobalWindows.windowed_value_at_end_of_window(self._counts)
