"""Whether two texts agree in what must not be off by a little: numbers, codes, dates."""

import re
import unicodedata

from scoring.evidence_dates import months_named
from scoring.evidence_numbers import digit_readings

_CHUNK = re.compile(r"(?:[<>≤≥≠±]\s?)?(?:(?<!\w)[-−])?[^\W_]+(?:(?<=\d)[.,]\d[^\W_]*)*")
_NUMBER = re.compile(r"[-−]?\d+(?:[.,]\d+)*")


def same_figures(one: str, other: str) -> bool:
    """Whether two texts have the same numbers, codes, comparisons and months, in order.

    A near number, code or date is a mistake, not evidence.
    """
    ours, theirs = _figures(one), _figures(other)
    return (
        len(ours) == len(theirs)
        and all(a & b for a, b in zip(ours, theirs, strict=True))
        and months_named(one) == months_named(other)
    )


def _figures(text: str) -> list[frozenset[object]]:
    """What each word with a digit in it may stand for."""
    chunks = [c for c in _CHUNK.findall(text) if any(char.isdigit() for char in c)]
    return [_meanings(unicodedata.normalize("NFKC", chunk).casefold()) for chunk in chunks]


def _meanings(chunk: str) -> frozenset[object]:
    if _NUMBER.fullmatch(chunk) is None:
        return frozenset([re.sub(r"[\s.,]", "", chunk)])
    sign = "-" if chunk[0] in "-−" else ""
    values = digit_readings(chunk.lstrip("-−"))
    return frozenset((sign, value) for value in values) or frozenset([chunk])
