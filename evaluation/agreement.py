"""Whether an extracted value agrees with the gold value, by a rule for each field. Pure."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from dateutil import parser as dates

from schemas.arrow_json import dump_json
from schemas.errors import UsageError
from scoring.facts import is_empty


class Rule(StrEnum):
    """How two values are compared.

    `auto` goes by the gold value: numbers as `number`, texts as `text`, lists as `set`, objects as
    `nested`; `exact` compares JSON values, `date` what a text means as a date.
    """

    AUTO = "auto"
    EXACT = "exact"
    TEXT = "text"
    NUMBER = "number"
    DATE = "date"
    SET = "set"
    NESTED = "nested"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A rule, and for numbers how far they may be apart, as a share of the gold value."""

    rule: Rule = Rule.AUTO
    tolerance: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparison of each field."""

    default: Comparison = Comparison()
    fields: Mapping[str, Comparison] = field(default_factory=dict)

    def agree(self, name: str, value: Any, gold: Any) -> bool:
        """Whether `value` of field `name` is what `gold` says; what is missing or empty is null."""
        return agree(self.fields.get(name, self.default), value, gold)


_DEFAULT = "default"
_PART = re.compile(r"(?P<field>[^=]+)=(?P<rule>[a-z]+)(?::(?P<tolerance>[0-9.]+)(?P<percent>%?))?")


def parse_comparisons(text: str | None) -> Comparisons:
    """`total=number:1%,issued=date,default=exact`. Raises UsageError."""
    found: dict[str, Comparison] = {}
    for part in filter(None, (p.strip() for p in (text or "").split(","))):
        match = _PART.fullmatch(part)
        if match is None or match["rule"] not in set(Rule):
            rules = ", ".join(Rule)
            raise UsageError(f"--compare {part}: write FIELD=RULE, rule one of {rules}")
        if match["tolerance"] and match["rule"] != Rule.NUMBER:
            raise UsageError(f"--compare {part}: only numbers have a tolerance")
        found[match["field"].strip()] = Comparison(Rule(match["rule"]), _tolerance(part, match))
    return Comparisons(found.pop(_DEFAULT, Comparison()), found)


def _tolerance(part: str, match: re.Match[str]) -> Decimal:
    try:
        tolerance = Decimal(match["tolerance"] or 0)
    except InvalidOperation:
        raise UsageError(f"--compare {part}: the tolerance is no number") from None
    return tolerance / 100 if match["percent"] else tolerance


def agree(comparison: Comparison, value: Any, gold: Any) -> bool:
    """Whether `value` is what `gold` says."""
    if is_empty(value) or is_empty(gold):
        return is_empty(value) and is_empty(gold)
    rule = _of_type(gold) if comparison.rule is Rule.AUTO else comparison.rule
    return _AGREE[rule](comparison, value, gold)


def _of_type(gold: Any) -> Rule:
    if isinstance(gold, bool):
        return Rule.EXACT
    if isinstance(gold, int | float | Decimal):
        return Rule.NUMBER
    kinds: tuple[tuple[type, Rule], ...] = (
        (str, Rule.TEXT), (list, Rule.SET), (dict, Rule.NESTED)
    )  # fmt: skip
    return next((rule for kind, rule in kinds if isinstance(gold, kind)), Rule.EXACT)


def _exact(_comparison: Comparison, value: Any, gold: Any) -> bool:
    return isinstance(value, bool) == isinstance(gold, bool) and bool(value == gold)


def _text(_comparison: Comparison, value: Any, gold: Any) -> bool:
    return normalised(_as_text(value)) == normalised(_as_text(gold))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value)


def normalised(text: str) -> str:
    """A text without what readers overlook: case, widths, kinds of blanks and quotes."""
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    return " ".join(folded.split()).strip(" .,;:")


_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-"})


def _number(comparison: Comparison, value: Any, gold: Any) -> bool:
    mine, theirs = as_number(value), as_number(gold)
    if mine is None or theirs is None:
        return _text(comparison, value, gold)
    return abs(mine - theirs) <= comparison.tolerance * abs(theirs)


_GROUPED = re.compile(r"[+-]?\d{1,3}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
_PLAIN = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
_NOT_NUMBER = re.compile(r"^[^\d+-]{1,4}|[^\d]{1,4}$")


def as_number(value: Any) -> Decimal | None:
    """The number that a value is, or that a text holds beside a currency or a unit."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | Decimal):
        number = Decimal(str(value))
        return number if number.is_finite() else None
    if not isinstance(value, str):
        return None
    text = _NOT_NUMBER.sub("", value.strip()).strip()
    grouped = _GROUPED.fullmatch(text)
    if grouped:
        mark = grouped[1]
        text = text.replace(mark, "")
    if not _PLAIN.fullmatch(text):
        return None
    return Decimal(text.replace(",", "."))


def _date(comparison: Comparison, value: Any, gold: Any) -> bool:
    mine, theirs = _as_date(value), _as_date(gold)
    if mine is None or theirs is None:
        return _text(comparison, value, gold)
    return mine == theirs


def _as_date(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return dates.parse(value, default=datetime(1, 1, 1)).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _set(comparison: Comparison, value: Any, gold: Any) -> bool:
    """Each of the gold's elements has one of its own among the value's, in whatever order."""
    mine, theirs = _as_list(value), _as_list(gold)
    if len(mine) != len(theirs):
        return False
    inner = Comparison(Rule.AUTO, comparison.tolerance)
    for element in theirs:
        found = next((i for i, one in enumerate(mine) if agree(inner, one, element)), None)
        if found is None:
            return False
        del mine[found]
    return True


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _nested(comparison: Comparison, value: Any, gold: Any) -> bool:
    inner = Comparison(Rule.AUTO, comparison.tolerance)
    if isinstance(value, dict) and isinstance(gold, dict):
        return all(agree(inner, value.get(k), gold.get(k)) for k in value.keys() | gold.keys())
    if isinstance(value, list) and isinstance(gold, list):
        pairs: Sequence[tuple[Any, Any]] = list(zip(value, gold, strict=False))
        return len(value) == len(gold) and all(agree(inner, v, g) for v, g in pairs)
    return agree(inner, value, gold) if not isinstance(gold, dict) else False


_AGREE: Mapping[Rule, Callable[[Comparison, Any, Any], bool]] = {
    Rule.EXACT: _exact,
    Rule.TEXT: _text,
    Rule.NUMBER: _number,
    Rule.DATE: _date,
    Rule.SET: _set,
    Rule.NESTED: _nested,
}
