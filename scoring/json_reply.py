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

_KEY = re.compile(r'"\s*:')
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
        return _with_first_keys(text, whole)
    found = [value for start, stop in _balanced(text) for value in _values(text[start:stop])]
    return found or [value for part in _outermost(text) for value in _values(part)]


def _values(text: str) -> list[Any]:
    value = _tolerant(text)
    return _with_first_keys(text, value) if value else []


def _with_first_keys(text: str, value: Any) -> list[Any]:
    """`value`, in which the last of equal keys count, and what the first ones say if there are any.

    Two verdicts in one object are two verdicts.
    """
    if len(_KEY.findall(text)) <= _keys_in(value):
        return [value]
    repeated: list[int] = []

    def first_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(reversed(pairs))
        repeated.append(len(pairs) - len(found))
        return found

    try:
        first = json.loads(text, strict=False, object_pairs_hook=first_keys)
    except (ValueError, RecursionError):
        return [value]
    return [value, first] if any(repeated) else [value]


def _keys_in(value: Any) -> int:
    """How many keys there are in objects, however deep."""
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            count += len(item)
            item = item.values()
        pending.extend([inner for inner in item if isinstance(inner, dict | list)])
    return count


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
