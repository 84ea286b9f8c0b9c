"""Whether a document holds something that an empty field should have: its label, or its look."""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from scoring.evidence_dates import date_value, dates_in
from scoring.evidence_numbers import number_values

PHONE_DIGITS = 7
"""Fewer digits than this are no telephone number."""

_CURRENCY = r"(?:[$€£¥₹]|EUR|USD|GBP|CHF)"
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?(?![A-Z0-9])")
_URL = re.compile(r"https?://\S{1,200}|\bwww\.\S{1,200}")
_PHONE = re.compile(r"(?<![\w.,/-])\+?\(?\d[\d ()/.-]{6,18}\d(?!\w)")
_AMOUNT = re.compile(
    rf"{_CURRENCY} ?\d[\d.,]*|(?<![\d.,])(?:\d+(?:[.,]\d+)* ?{_CURRENCY}|"
    r"\d{1,3}(?:[.,]?\d{3})*[.,]\d{2}(?![.,]?\d))"
)
_LABEL_WORDS = {"number": r"(?:number|num|no|nr)\.?"}
_NO_VALUE = re.compile(
    r"(?:n/?a|none|null|nil|tbd|unknown|not (?:provided|available|applicable|given|known)|"
    r"[-–—_.*?]+)\s*$|[^\W\d_][^\W\d_ ]*(?: [^\W\d_]+)?:",
    re.IGNORECASE,
)
"""What may follow a label that has no value: a word or a line for none, or the next label."""

_Known = tuple[re.Pattern[str], Callable[[str], str | None]]
"""What a field's name says of its values, and the search for such a value."""


class Sign(Enum):
    """What makes an empty field doubtful."""

    LABEL = "label"
    """Its name stands in the document with a value behind it."""
    PATTERN = "pattern"
    """The document has what only such a field holds, as an IBAN."""
    COMMON_PATTERN = "common pattern"
    """The document has what such a field holds, but many others hold too, as a date."""


class Overlooked(NamedTuple):
    """The text in the document that may be the value of an empty field."""

    sign: Sign
    text: str


def overlooked(text: str, field: str) -> Overlooked | None:
    """What in `text` looks like a value for `field`, None where nothing does."""
    words = _words(field)
    name = " ".join(words)
    if found := _known(_TELLING, name, text):
        return Overlooked(Sign.PATTERN, found)
    if found := _labelled(text, words):
        return Overlooked(Sign.LABEL, found)
    if found := _known(_COMMON, name, text):
        return Overlooked(Sign.COMMON_PATTERN, found)
    return None


def _words(field: str) -> list[str]:
    """The words of a field's name, in lower case: `dueDate` and `due_date` have two."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", field)
    return [word.casefold() for word in re.findall(r"[^\W_]+", apart)]


def _labelled(text: str, words: Sequence[str]) -> str | None:
    """The words as a label with a value behind it, on the same line."""
    if sum(map(len, words)) < 2:
        return None
    name = r"[ \t_-]*".join(_LABEL_WORDS.get(word) or re.escape(word) for word in words)
    label = rf"(?<!\w){name}(?!\w)[ \t]*[:=#][ \t]*(?P<value>\S[^\n]{{0,40}})"
    for match in re.finditer(label, text, re.IGNORECASE):
        if _NO_VALUE.match(match["value"]) is None:
            return match[0]
    return None


def _first(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    def look(text: str) -> str | None:
        match = pattern.search(text)
        return match[0] if match else None

    return look


def _phone(text: str) -> str | None:
    """What looks like a telephone number, and neither like a date nor like a plain number."""
    for match in _PHONE.finditer(text):
        found = match[0]
        enough = sum(map(str.isdigit, found)) >= PHONE_DIGITS
        if enough and not number_values(found) and not date_value(found).days:
            return found
    return None


def _date(text: str) -> str | None:
    found = next(dates_in(text), None)
    return None if found is None else text[slice(*found.span)]


def _known(known: Sequence[_Known], name: str, text: str) -> str | None:
    """What in `text` looks like a value of the first kind that a field's name tells."""
    look = next((look for named, look in known if named.search(name)), None)
    return look(text) if look else None


_TELLING: Sequence[_Known] = (
    (re.compile(r"e ?mail"), _first(_EMAIL)),
    (re.compile(r"iban"), _first(_IBAN)),
    (re.compile(r"phone|mobile|\btel\b"), _phone),
    (re.compile(r"\burl\b|web ?site"), _first(_URL)),
)
_COMMON: Sequence[_Known] = (
    (re.compile(r"\bdate\b|\bdob\b|birth ?day"), _date),
    (re.compile(r"\b(?:sub ?total|total|amount|price)\b"), _first(_AMOUNT)),
)
