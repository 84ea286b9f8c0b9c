"""Numbers in text: where they stand, and what they may mean.

A notation can be ambiguous: `1.250` is two readings, `-20` may follow a dash. Readings that ask
for good will are told apart from plain ones.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from scoring.evidence_places import Found

_SPACE = "[ \u00a0\u2007\u2009\u202f]"
_MINUS = "[-−\u2010\u2011]"
_SIGNS = "$€£¥₹₽₩₺₫฿₴₦₱₪¢"
_CODES = (
    "USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|INR|CNY|RMB|SGD|HKD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BRL|MXN|ZAR|"
    "KRW|IDR|MYR|THB|PHP|VND|AED|SAR|ILS|TRY|RUB|UAH|EURO?S?|Rs|RM|Rp|kr|zł|Kč|Ft|Fr"
)
_CURRENCY = rf"(?:(?:US|CA|AU|NZ|HK|S|C|A|R)?[{_SIGNS}]|(?:{_CODES})(?![^\W\d_])\.?)"
_DIGITS = (
    rf"(?:\d{{1,3}}(?:{_SPACE}\d{{3}})+(?!\d)(?:[.,]\d+)?"
    r"|\d{1,3}(?:['’]\d{3})+(?!\d)(?:[.,]\d+)?"
    r"|\d+(?:[.,]\d+)*|(?<![^\s<>=≤≥~($€£−-])\.\d+)"
)
_NUMBER = re.compile(
    rf"(?<![\w])(?<!\d[.,])(?P<sign>{_MINUS}|\()?(?:{_CURRENCY}{_SPACE}?)?(?P<inner>{_MINUS})?"
    rf"(?P<digits>{_DIGITS})(?P<power>[eE][-+−]?\d{{1,3}}(?!\w|[.,]\d))?"
    rf"(?P<percent>{_SPACE}?%)?"
)
_LONE = re.compile(rf"\+?{_NUMBER.pattern}\)?(?:[.,][-–—]*)?(?:{_SPACE}?{_CURRENCY})?\)?")
_BLANK = re.compile(rf"{_SPACE}|['’]")
_GROUPS = re.compile(r"\d{1,3}(?:[.,]\d{2,3})*")
_BETWEEN_SPACES = re.compile(rf"(?:(?!{_SPACE}).)+")
_BETWEEN_COMMAS = re.compile(r"[^,]+")
_BEFORE = re.compile(r"\d[-/.:]$")
_BEHIND = re.compile(r"[-/.:]\d")


def numbers_in(text: str) -> Iterator[Found[Decimal]]:
    """The numbers in `text`, in order; parts of words (`RX12`) and of dates (`-05`) are none."""
    for match in _NUMBER.finditer(text):
        if _is_padded_part(text, *match.span("digits")):
            continue
        plain, doubtful = _meaning(match)
        if plain:
            end = max(match.end("digits"), match.end("power"))
            yield Found((match.start("digits"), end), plain, doubtful)
        yield from _parts(match, bool(plain))


def number_values(text: str) -> frozenset[Decimal]:
    """What `text` may stand for if it is one number and nothing else, else nothing.

    A currency sign or code, a percent sign, and parentheses for a negative amount may go with it.
    """
    match = _LONE.fullmatch(text)
    if match is None:
        return frozenset()
    plain, doubtful = _meaning(match)
    return plain | doubtful if match["percent"] or match["sign"] == "(" else plain


def digit_readings(digits: str, exponent: int = 0) -> frozenset[Decimal]:
    """What digits with separators may stand for: one value for `1,250.50`, two for `1.250`."""
    compact = _BLANK.sub("", digits)
    last = max(compact.rfind("."), compact.rfind(","))
    if last < 0:
        return frozenset([Decimal(f"{compact}E{exponent}")])
    mark = compact[last]
    other = "," if mark == "." else "."
    whole, decimals = compact[:last], compact[last + 1 :]
    readings = set()
    if mark not in whole and (other not in whole or _GROUPS.fullmatch(whole)):
        readings.add(f"{whole.replace(other, '')}.{decimals}")
    if len(decimals) == 3 and other not in whole and whole != "0" and _GROUPS.fullmatch(whole):
        readings.add(compact.replace(mark, ""))
    return frozenset([Decimal(f"{reading}E{exponent}") for reading in readings])


def _is_padded_part(text: str, start: int, end: int) -> bool:
    """Whether digits that begin with a zero are a part of a date or a time: `2025-03-05`."""
    if text[start] != "0" or not text[start:end].isdecimal() or end - start < 2:
        return False
    return bool(_BEFORE.search(text, max(0, start - 2), start) or _BEHIND.match(text, end))


def _meaning(match: re.Match[str]) -> tuple[frozenset[Decimal], frozenset[Decimal]]:
    """Plain readings; and doubtful ones: a percentage as a share, an amount without its dash."""
    exponent = int((match["power"] or "e0")[1:].replace("−", "-"))
    plain = digit_readings(match["digits"], exponent)
    shares = digit_readings(match["digits"], exponent - 2) if match["percent"] else frozenset()
    if match["inner"] or (match["sign"] and match["sign"] != "("):
        return _negated(plain), plain | _negated(shares)
    return plain, shares | _negated(plain) if match["sign"] else shares


def _negated(values: frozenset[Decimal]) -> frozenset[Decimal]:
    return frozenset([v.copy_negate() for v in values])


def _parts(match: re.Match[str], is_number: bool) -> Iterator[Found[Decimal]]:
    """`12 500` may also be two numbers, and `12,13,14` can only be several."""
    digits, start = match["digits"], match.start("digits")
    if digits.isdecimal():
        return
    for part in (_BETWEEN_SPACES if is_number else _BETWEEN_COMMAS).finditer(digits):
        if part.span() != (0, len(digits)):
            span = (start + part.start(), start + part.end())
            yield Found(span, frozenset(), digit_readings(part[0]))
