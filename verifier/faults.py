"""Faults that a verifier server can inject, and which requests they hit. Pure."""

import difflib
import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from schemas.errors import UsageError


class FaultKind(StrEnum):
    """How an answer goes wrong."""

    RATE_LIMIT = "rate_limit"
    SERVER_ERROR = "server_error"
    SLOW = "slow"
    HANG = "hang"
    CUT_OFF = "cut_off"
    RESET = "reset"
    GARBAGE = "garbage"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    UNPARSEABLE = "unparseable"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    AUTH = "auth"
    ERROR_IN_200 = "error_in_200"


@dataclass(frozen=True, slots=True)
class Faults:
    """The share of requests that each kind of fault hits, and how long `slow` waits (ms).

    Which requests is decided by a keyed hash of the body and of how often it was seen: the same
    whatever the order of arrival, and a retry can fare better. Raises ValueError for a rate
    outside 0 to 1, and for rates that add up to more than 1.
    """

    rates: Mapping[FaultKind, float]
    seed: int = 0
    slow_ms: float = 2000.0
    _seen: Counter[bytes] = field(default_factory=Counter, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for kind, rate in self.rates.items():
            if not 0 <= rate <= 1:
                raise ValueError(f"the rate of {kind.value} is {rate:g}; it goes from 0 to 1")
        total = math.fsum(self.rates.values())
        if total > 1:
            raise ValueError(f"the rates add up to {total:g}; together they are at most 1")

    def draw(self, body: bytes) -> FaultKind | None:
        """The fault of this request, None for a good answer. Counts the body as seen."""
        if not self.rates:
            return None
        digest = hashlib.blake2b(body, digest_size=16).digest()
        self._seen[digest] += 1
        point = _point(self.seed, digest, self._seen[digest])
        for kind, rate in self.rates.items():
            if point < rate:
                return kind
            point -= rate
        return None


def _point(seed: int, digest: bytes, times: int) -> float:
    """A point in [0, 1); 53 bits, so that no rounding reaches 1."""
    key = hashlib.blake2b(b"%d" % seed).digest()
    drawn = hashlib.blake2b(digest + times.to_bytes(8), key=key, digest_size=8).digest()
    return (int.from_bytes(drawn) >> 11) / 2**53


def parse_faults(specs: Sequence[str], seed: int = 0) -> Faults:
    """Faults from `kind:rate` texts. Raises UsageError that names the nearest kind."""
    rates: dict[FaultKind, float] = {}
    for spec in specs:
        name, _, rate = spec.partition(":")
        kind = _kind(name)
        if kind in rates:
            raise UsageError(f"--fault {spec}: {kind.value} is given twice; give it once")
        rates[kind] = _rate(spec, rate)
    try:
        return Faults(rates, seed)
    except ValueError as error:
        raise UsageError(f"--fault: {error}") from error


def _kind(text: str) -> FaultKind:
    try:
        return FaultKind(text)
    except ValueError:
        kinds = [k.value for k in FaultKind]
        nearest = difflib.get_close_matches(text.lower(), kinds, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"one of {', '.join(kinds)}"
        raise UsageError(f"--fault {text}: no such kind; {hint}") from None


def _rate(spec: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--fault {spec}: write kind:rate, like hang:0.02") from None
