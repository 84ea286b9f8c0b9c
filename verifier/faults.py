"""Faults that a verifier server can inject, and which requests they hit. Pure."""

import difflib
import hashlib
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
    """The share of requests that each kind of fault hits; together at most 1.

    Which ones is decided by a keyed hash of the body and of how often it was seen: the same
    whatever the order of arrival, and a retry can fare better.
    """

    rates: Mapping[FaultKind, float]
    seed: int = 0
    _seen: Counter[bytes] = field(default_factory=Counter, repr=False, compare=False)

    def __post_init__(self) -> None:
        if any(rate < 0 for rate in self.rates.values()) or sum(self.rates.values()) > 1:
            raise ValueError("fault rates must be at least 0 and add up to at most 1")

    def draw(self, body: bytes) -> FaultKind | None:
        """The fault of this request, None for a good answer."""
        if not self.rates:
            return None
        digest = hashlib.blake2b(body, digest_size=16).digest()
        self._seen[digest] += 1
        text = f"{self.seed}:{self._seen[digest]}:{digest.hex()}".encode()
        point = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) / 2**64
        for kind, rate in self.rates.items():
            point -= rate
            if point < 0:
                return kind
        return None


def parse_faults(specs: Sequence[str], seed: int = 0) -> Faults:
    """Faults from `kind:rate` texts. Raises UsageError that names the nearest kind."""
    rates: dict[FaultKind, float] = {}
    for spec in specs:
        kind, _, rate = spec.partition(":")
        rates[_kind(kind)] = _rate(spec, rate)
    try:
        return Faults(rates, seed)
    except ValueError as error:
        raise UsageError(f"--fault: {error}") from error


def _kind(text: str) -> FaultKind:
    try:
        return FaultKind(text)
    except ValueError:
        kinds = [k.value for k in FaultKind]
        nearest = difflib.get_close_matches(text, kinds, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"one of {', '.join(kinds)}"
        raise UsageError(f"--fault {text}: no such kind; {hint}") from None


def _rate(spec: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--fault {spec}: write kind:rate, like hang:0.02") from None
