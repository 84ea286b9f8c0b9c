"""Calendar dates and clock times in text: where they stand, and what they may mean.

`03/04/2025` is read both day first and month first, and a year of two digits in both centuries.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import date, time
from typing import NamedTuple

from dateutil.parser import parserinfo

from scoring.evidence_places import Found

_NAMES = parserinfo()
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![^\W\d_])"
)
_MONTH_NAME = re.compile(_MONTH, re.IGNORECASE)
_MONTH_WORD = re.compile(rf"(?<![^\W\d_]){_MONTH}", re.IGNORECASE)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"(?<![\w])(?:"
    r"(?P<iso>\d{4}(?P<s>[-/.])\d{1,2}(?P=s)\d{1,2}|\d{4} ?年 ?\d{1,2} ?月 ?\d{1,2} ?日)"
    r"|(?P<compact>(?:19|20)\d{6})"
    r"|(?P<numeric>\d{1,2}(?P<t>[-/.] ?)\d{1,2}(?P=t)(?:\d{4}|\d{2}))(?![-/.]?\d)"
    rf"|(?P<day_first>{_DAY}[\s.,/-]{{0,3}}(?:of\s)?{_MONTH}[\s.,/-]{{0,3}}(?:\d{{4}}|'?\d{{2}}))"
    rf"|(?P<month_first>{_MONTH}[\s.-]{{0,3}}{_DAY}[\s,.-]{{1,3}}\d{{4}})"
    rf"|(?P<year_first>\d{{4}}[\s.,/-]{_MONTH}[\s.,/-]\d{{1,2}}))"
    r"(?![\d:])",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?<![\d:])(?P<h>[01]?\d|2[0-3]):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d))?(?![\d:])"
    r"(?:\s?(?P<half>[ap])\.?m\b)?",
    re.IGNORECASE,
)
_WEEKDAY = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}[.,]{0,2}\s+", re.IGNORECASE)
_CLOCK = re.compile(
    rf"(?:t|,?\s+(?:at\s)?){_TIME.pattern}(?:[.,]\d+)?\s?(?:z|utc|gmt|[-+]\d\d:?\d\d)?",
    re.IGNORECASE,
)


class Moment(NamedTuple):
    """What a text may stand for that is a date and nothing else, but for a time of day."""

    days: frozenset[date]
    clock: time | None


def dates_in(text: str) -> Iterator[Found[date]]:
    """The dates in `text` that have a year, a month and a day, in order."""
    for match in _DATE.finditer(text):
        days = _days(match)
        if days:
            sure = days if len(days) == 1 else frozenset[date]()
            yield Found(match.span(), sure, days - sure)


def times_in(text: str) -> Iterator[time]:
    """The times of day in `text`; each that has seconds also without them."""
    for match in _TIME.finditer(text):
        clock = _clock(match)
        yield clock
        if clock.second:
            yield clock.replace(second=0)


def date_value(text: str) -> Moment:
    """What `text` may stand for if it is one date, with or without weekday and time of day.

    Midnight, as databases write it behind a plain date, is no time of day.
    """
    nothing = Moment(frozenset(), None)
    weekday = _WEEKDAY.match(text)
    match = _DATE.match(text, weekday.end() if weekday else 0)
    if match is None:
        return nothing
    clock = _CLOCK.fullmatch(text, match.end())
    if clock is None and match.end() != len(text):
        return nothing
    hour = _clock(clock) if clock else time()
    return Moment(_days(match), hour if hour != time() else None)


def months_named(text: str) -> list[int]:
    """The months that `text` names, in order."""
    return [_month(match[0]) for match in _MONTH_WORD.finditer(text)]


def _month(name: str) -> int:
    number = _NAMES.month(name)
    if number is None:
        raise ValueError(f"no month: {name}")
    return number


def _days(match: re.Match[str]) -> frozenset[date]:
    """Every day of the calendar that a match of _DATE may stand for."""
    text = match[0]
    figures = [int(n) for n in re.findall(r"\d+", text)]
    if match["compact"]:
        return _valid([(int(text[:4]), int(text[4:6]), int(text[6:]))])
    if match["iso"]:
        return _valid([(figures[0], figures[1], figures[2])])
    if match["numeric"]:
        one, two, year = figures
        years = _years(year, text)
        return _valid([(y, *order) for y in years for order in ((two, one), (one, two))])
    month = _month(_MONTH_NAME.findall(text)[0])
    day, year = figures if not match["year_first"] else reversed(figures)
    return _valid([(y, month, day) for y in _years(year, text)])


def _years(year: int, text: str) -> tuple[int, ...]:
    """A year of two digits may be in this century or in the last."""
    return (year,) if re.search(r"\d{4}", text) else (2000 + year, 1900 + year)


def _valid(parts: Iterable[tuple[int, int, int]]) -> frozenset[date]:
    return frozenset(day for year, month, d in parts if (day := _date(year, month, d)) is not None)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _clock(match: re.Match[str]) -> time:
    hour = int(match["h"])
    if match["half"] and hour <= 12:
        hour = hour % 12 + (12 if match["half"].casefold() == "p" else 0)
    return time(hour, int(match["m"]), int(match["s"] or 0))
