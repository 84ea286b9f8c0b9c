"""When a provider wants a request again, from its headers or its words. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = {
    "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_WORDS = {"days?": "d", "hours?|hrs?": "h", "minutes?|mins?": "m", "seconds?|secs?": "s"}
_UNITS = "|".join([*_WORDS, *sorted(_SECONDS, key=len, reverse=True)])
_PART = rf"\d{{1,12}}(?:\.\d{{0,12}})?\s?(?:{_UNITS})(?![a-zµ])"
_DURATION = re.compile(rf"(?:{_PART}\s?)+")
_PARTS = re.compile(rf"([\d.]+)\s?({_UNITS})(?![a-zµ])")
_SAID = re.compile(r"(?:again|retry|wait)(?: \w+){0,2}? (?:in |after |for )?(\d.{0,30})")
_RESET = re.compile(r"(?:x-|anthropic-)?ratelimit(?:bysize)?-(?:[a-z-]+-)?reset(?:-[a-z_-]+)?")
_STRUCTURED = re.compile(r"\b(r|remaining|t|reset)=(\d{1,12}(?:\.\d{1,9})?)")
_NEAR_S = 30 * 86400.0
"""A number this near to the present, counted since 1970, is a moment and no wait."""


def retry_after(headers: Mapping[str, str], now: datetime, message: str = "") -> float | None:
    """The wait that an answer asks for, in seconds, None if none.

    From `retry-after-ms`, else `Retry-After` (seconds, a duration or a moment), else the longest
    of the rate-limit resets that are exhausted, else what `message` says of it. Moments are
    measured by the server's own clock, where it says what time it is.
    """
    lowered = {name.lower(): value.strip()[:64] for name, value in headers.items()}
    now = _moment(lowered.get("date", "")) or now
    milliseconds = _number(lowered.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    seconds = seconds_of(lowered.get("retry-after", ""), now)
    if seconds is None:
        seconds = _reset(lowered, now)
    return seconds if seconds is not None else _said(message)


def seconds_of(text: str, now: datetime) -> float | None:
    """Seconds from now that `text` means: `12`, `1m30.5s`, `20ms`, a date, or a moment since 1970
    in seconds or milliseconds. None for what is past, no time at all, or endless."""
    number = _number(text)
    if number is not None:
        return _until(number, now)
    if _DURATION.fullmatch(text):
        return _duration(text) or None
    moment = _moment(text)
    wait = (moment - now).total_seconds() if moment else 0.0
    return wait if wait > 0 else None


def _until(number: float, now: datetime) -> float | None:
    """A number as seconds, or as a moment where it is one of these days."""
    present = now.timestamp()
    for seconds in (number, number / 1000):
        if abs(seconds - present) < _NEAR_S:
            return seconds - present if seconds > present else None
    return number


def _duration(text: str) -> float:
    return sum(float(value) * _unit(unit) for value, unit in _PARTS.findall(text))


def _unit(word: str) -> float:
    known = (letter for words, letter in _WORDS.items() if re.fullmatch(words, word))
    return _SECONDS[next(known, word)]


def _reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """The longest wait for a limit of which nothing remains."""
    waits = [_structured(headers.get("ratelimit", ""))]
    for name, value in headers.items():
        if _RESET.fullmatch(name) and _nothing_remains(headers, name):
            waits.append(seconds_of(value, now))
    return max((wait for wait in waits if wait), default=None)


def _nothing_remains(headers: Mapping[str, str], name: str) -> bool:
    remaining = headers.get(name.replace("reset", "remaining"))
    try:
        return remaining is None or not float(remaining) > 0
    except ValueError:
        return True


def _structured(text: str) -> float | None:
    """The reset in a `RateLimit` header, like `"default";r=0;t=12` or `remaining=0, reset=12`."""
    found = {name: float(value) for name, value in _STRUCTURED.findall(text)}
    remaining = found.get("r", found.get("remaining", 0.0))
    return None if remaining else found.get("t", found.get("reset"))


def _said(message: str) -> float | None:
    """The wait that a message names: `try again in 1m2.5s`, `retry after 22 seconds`."""
    match = _SAID.search(message.lower())
    found = _DURATION.match(match[1]) if match else None
    return _duration(found[0]) or None if found else None


def _number(text: str) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < float("inf") else None


def _moment(text: str) -> datetime | None:
    """An HTTP date, or one of ISO 8601; UTC unless it says otherwise."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(text) if text else None
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
        if moment is not None:
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
