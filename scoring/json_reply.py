"""The JSON in a verifier's reply: strictly first, then tolerantly.

Models fence their JSON, talk around it, write Python literals, forget escapes, or encode it
twice. What is cut off is never completed: a shortened list would pass for a full one.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import json_repair
import orjson

MAX_CANDIDATES = 20
MAX_REPAIR_LENGTH = 1_000_000

_LINE_END = re.compile(r"[^\S\n]*+(?:\n|```|\Z)")
_OPENER = re.compile(r"[{\[]")
_TOKEN = re.compile(
    r"""\\.|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|[{}\[\]]""", re.DOTALL
)


def json_candidates(text: str) -> list[Any]:
    """Every JSON object or array in `text`, in order; the whole of `text` if that is JSON.

    NaN and Infinity come back as floats; empty when there is nothing of the kind.
    """
    whole = _strict(text)
    if isinstance(whole, str):
        return json_candidates(whole)
    if isinstance(whole, dict | list):
        return [whole]
    found = [_tolerant(text[start:stop]) for start, stop in _balanced(text)]
    if not any(found):
        found = [_tolerant(part) for part in _outermost(text)]
    return [value for value in found if value]


def in_json(text: str, position: int) -> bool:
    """Whether `position` is inside a JSON object or array of `text`."""
    return any(start < position < stop for start, stop in _balanced(text))


def _strict(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _tolerant(text: str) -> Any:
    """A JSON object or array, repaired where it must be, else None."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        value = _repair(text)
    return value if isinstance(value, dict | list) else None


def _repair(text: str) -> Any:
    if len(text) > MAX_REPAIR_LENGTH:
        return None
    try:
        return json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None


def _balanced(text: str) -> Iterator[tuple[int, int]]:
    """Where the outermost `{…}` and `[…]` that close start and stop, quotes and escapes minded."""
    position = 0
    for _ in range(MAX_CANDIDATES):
        opener = _OPENER.search(text, position)
        if opener is None:
            return
        stop = _closing(text, opener.start())
        if stop is not None:
            yield opener.start(), stop
        position = stop or opener.end()


def _closing(text: str, start: int) -> int | None:
    """Where the bracket that opens at `start` has closed."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _outermost(text: str) -> Iterator[str]:
    """From the first opening brace to the last closing one: for unescaped quotes inside.

    None where something was cut off: a bracket stays open, or the last line goes on.
    """
    start, stop = text.find("{"), text.rfind("}")
    part, rest = text[start : stop + 1], text[stop + 1 :]
    closed = all(part.count(a) == part.count(b) for a, b in ("{}", "[]"))
    if 0 <= start < stop and closed and _LINE_END.match(rest):
        yield part
