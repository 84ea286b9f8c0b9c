"""Text in a record that looks like instructions to the judge.

A first line of defence only: such text can be worded so that no pattern sees it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from schemas.record import Record

EXCERPT = 80


class _Pattern(NamedTuple):
    """`regex` is searched only where one of `needles`, in lower case, occurs: that is cheap."""

    needles: frozenset[str]
    regex: re.Pattern[str]


def _pattern(needles: str, regex: str) -> _Pattern:
    return _Pattern(frozenset(needles.split()), re.compile(regex, re.IGNORECASE))


_PATTERNS = (
    _pattern(
        "ignore disregard forget override",
        r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,30}\b"
        r"(?:previous|prior|above|earlier|preceding|all|your|other)\b[^.\n]{0,30}\b"
        r"(?:instructions?|prompts?|rules?|directions?|guidelines?|context)\b",
    ),
    _pattern(
        "100 10/10 certain correct verified accurate",
        r"\b(?:give|assign|rate|score|mark|grade|set|award)\b[^.\n]{0,40}"
        r"\b(?:every|each|all|this|the|it|them)\b[^.\n]{0,40}"
        r"(?:\b100\b|\b10/10\b|\bcertain\b|\bcorrect\b|\bverified\b|\baccurate\b)",
    ),
    _pattern(
        "score",
        r"\b(?:reply|respond|answer|output)\b[^.\n]{0,30}\bscores?\b[^.\n]{0,15}\b(?:10|100)\b",
    ),
    _pattern(
        "judge verifier evaluator grader auditor",
        r"\byou are (?:now )?(?:the|a|an) (?:judge|verifier|evaluator|grader|auditor)\b",
    ),
    _pattern(
        "correct",
        r"\b(?:no|all) fields? (?:is|are) (?:in)?correct\b[^.\n]{0,60}\b(?:answer|score|reply)\b",
    ),
    _pattern(
        "confidence_score incorrect_fields",
        r"[\"'](?:confidence_score|incorrect_fields)[\"']\s*:",
    ),
    _pattern("score think", r"<\s*(?:/\s*)?(?:score|think(?:ing)?)\s*>"),
    _pattern("untrusted_", r"<\s*(?:/\s*)?untrusted_"),
)
_NEEDLES = frozenset().union(*(pattern.needles for pattern in _PATTERNS))
_INVISIBLE = re.compile("[\U000e0000-\U000e007f]")


def instruction_like_text(record: Record) -> tuple[str, ...]:
    """Where the document or the output addresses the judge, `where: "the text"`."""
    return (*_found("document", record.document), *_found("output", _output_text(record)))


def _output_text(record: Record) -> str:
    """The output's text; where JSON escapes may hide something, its keys and strings decoded."""
    if "\\" not in record.output_text:
        return record.output_text
    return "\n".join(_strings(record.output))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _found(where: str, text: str) -> tuple[str, ...]:
    lowered = text.lower()
    present = {needle for needle in _NEEDLES if needle in lowered}
    matches = [p.regex.search(text) for p in _PATTERNS if present and present & p.needles]
    if not text.isascii():
        matches.append(_INVISIBLE.search(text))
    return tuple([f'{where}: "{m[0][:EXCERPT]}"' for m in matches if m])
