"""Numbers and dates in text: where they stand, and what they may mean.

A notation can be ambiguous (1.250, 03/04/2025); then it means all that it may mean.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from dateutil import parser as dateutil

Span = tuple[int, int]

_SPACE = r"[ \u00a0\u2009\u202f'’]"
_NUMBER = re.compile(
    rf"(?<![\w.,])(?:[A-Z]{{2,3}}|[^\W\d_]{{0,3}}[$€£¥₹])?(?P<sign>[-−(]?)\s?"
    rf"(?P<digits>\d{{1,3}}(?:{_SPACE}\d{{3}})+(?:[.,]\d+)?|\d+(?:[.,]\d+)*)(?P<percent>\s?%)?"
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DATE = re.compile(
    r"(?<![\w])(?:"
    r"(?P<iso>\d{4}[-/.]\d{1,2}[-/.]\d{1,2})(?!\d)"
    r"|(?P<numeric>\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))(?![\d])"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?[ -]?(?:of )?{_MONTH}[ ,-]{{0,2}}\d{{4}}"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? ?\d{{4}}"
    r")(?![^\W_])",
    re.IGNORECASE,
)
_DEFAULT = datetime(2000, 1, 1)


def numbers_in(text: str) -> Iterator[tuple[Span, frozenset[Decimal]]]:
    """The numbers in `text`: the span of the digits, and the values they may stand for."""
    for match in _NUMBER.finditer(text):
        digits = match["digits"]
        values = _readings(digits)
        if match["percent"]:
            values |= {v / 100 for v in values}
        if match["sign"]:
            values |= {-v for v in values}
        yield match.span("digits"), frozenset(values)
        if re.search(_SPACE, digits):
            yield from _parts(digits, match.start("digits"))


def _parts(digits: str, offset: int) -> Iterator[tuple[Span, frozenset[Decimal]]]:
    """`12 500` may also be two numbers."""
    for part in re.finditer(r"[\d.,]+", digits):
        values = _readings(part[0])
        yield (offset + part.start(), offset + part.end()), frozenset(values)


def number_values(text: str) -> frozenset[Decimal]:
    """What `text` may stand for if it is one number and nothing else, else nothing."""
    match = _NUMBER.fullmatch(text.strip().removesuffix(")"))
    return next((values for _, values in numbers_in(text)), frozenset()) if match else frozenset()


def _readings(digits: str) -> set[Decimal]:
    """`1,250.50` is one number; `1.250` may be two."""
    plain = re.sub(_SPACE, "", digits)
    last = max(plain.rfind("."), plain.rfind(","))
    if last < 0:
        return _decimals(plain)
    mark = plain[last]
    other = "," if mark == "." else "."
    whole, decimals = plain[:last], plain[last + 1 :]
    readings = set()
    if whole.count(mark) == 0:
        readings |= _decimals(f"{whole.replace(other, '')}.{decimals}")
    if len(decimals) == 3 and other not in whole:
        readings |= _decimals(plain.replace(mark, ""))
    return readings


def _decimals(text: str) -> set[Decimal]:
    try:
        return {Decimal(text)}
    except InvalidOperation:
        return set()


def dates_in(text: str) -> Iterator[tuple[Span, frozenset[date]]]:
    """The dates in `text` with a year, day and month: the span, and what it may stand for."""
    for match in _DATE.finditer(text):
        orders = (True, False) if match["numeric"] else (False,)
        found = {_parse(match[0], day_first) for day_first in orders}
        days = frozenset(d for d in found if d is not None)
        if days:
            yield match.span(), days


def date_values(text: str) -> frozenset[date]:
    """What `text` may stand for if it is one date and nothing else, else nothing."""
    stripped = text.strip()
    for (start, end), days in dates_in(stripped):
        return days if (start, end) == (0, len(stripped)) else frozenset()
    return frozenset()


def _parse(text: str, day_first: bool) -> date | None:
    try:
        return dateutil.parse(text, dayfirst=day_first, default=_DEFAULT).date()
    except (ValueError, OverflowError):
        return None
