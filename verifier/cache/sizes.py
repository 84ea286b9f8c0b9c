"""Sizes and ages as people write them: 10GB, 500 MB, 30d, 12h."""

import re
from datetime import timedelta

from schemas.errors import UsageError

_UNITS = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}
_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


def parse_bytes(text: str, flag: str) -> int:
    """`10GB`, `500 MB` or a plain number of bytes. Raises UsageError that names `flag`."""
    number, unit = _parts(text)
    if (unit or "b") not in _UNITS:
        raise UsageError(f"{flag} {text!r} is no size; use one like 500MB or 10GB")
    return round(number * _UNITS[unit or "b"])


def parse_age(text: str, flag: str) -> timedelta:
    """`30d`, `12h`, `90m`, `2w` or `45s`. Raises UsageError that names `flag`."""
    number, unit = _parts(text)
    try:
        return timedelta(**{_SPANS[unit]: number})
    except (KeyError, OverflowError):
        raise UsageError(f"{flag} {text!r} is no age; use one like 30d or 12h") from None


def show_bytes(count: int) -> str:
    """`8.1 MB`."""
    unit = next((u for u in ("TB", "GB", "MB", "kB") if count >= _UNITS[u.lower()]), None)
    return f"{count / _UNITS[unit.lower()]:.1f} {unit}" if unit else f"{count} bytes"


def _parts(text: str) -> tuple[float, str]:
    """Number and unit; a unit that nothing has, where there is no number."""
    match = _FORM.fullmatch(text)
    return (float(match[1]), match[2].lower()) if match else (0.0, "?")
