"""How a cache is doing: what it did, what failed, and whether to leave it alone for a while."""

import logging
import time
from dataclasses import dataclass

FIRST_REST_S = 1.0
LONGEST_REST_S = 30.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class CacheCounters:
    """What a cache did so far. A failed read is of one key; a failed write is tried again.

    `lost` replies were paid for and could not be kept.
    """

    hits: int = 0
    misses: int = 0
    kept: int = 0
    failed_reads: int = 0
    failed_writes: int = 0
    unreadable: int = 0
    lost: int = 0


class Health:
    """Of one way of using a store, reading or writing: after a failure it rests, then longer.

    A store that cannot be written (a full disk) can still be read.
    """

    def __init__(self, name: str, counters: CacheCounters) -> None:
        self.counters = counters
        self._name = name
        self._rest = FIRST_REST_S
        self._until = 0.0

    @property
    def rest_left(self) -> float:
        """Seconds for which the store is to be left alone; 0 when all is well."""
        return max(0.0, self._until - time.monotonic())

    def well(self) -> None:
        """The store answered."""
        self._rest, self._until = FIRST_REST_S, 0.0

    def failed(self, error: Exception) -> None:
        """The store failed: warn, unless that was just done, and let it rest."""
        if self.rest_left:
            return
        _log.warning(
            "the cache %s fails (%s: %s); calls that it holds may be paid for again. So far %d "
            "reads and %d writes failed",
            self._name, type(error).__name__, error,
            self.counters.failed_reads, self.counters.failed_writes,
        )  # fmt: skip
        self._until = time.monotonic() + self._rest
        self._rest = min(2 * self._rest, LONGEST_REST_S)

    def lost(self, replies: int) -> None:
        """Replies could not be kept."""
        if replies and not self.counters.lost:
            _log.warning("the cache %s cannot keep all replies", self._name)
        self.counters.lost += replies
