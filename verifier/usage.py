"""How many tokens an answer says it took, in the forms that providers count them. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Usage(NamedTuple):
    """Tokens of the whole prompt, of the completion, and those of the prompt read from a cache."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


def read_usage(usage: Any) -> Usage:
    """The counts in an answer's `usage`; 0 stands for what it does not say.

    A provider that counts the uncached part of a prompt alone shows itself by more cached tokens
    than prompt tokens: then both are the prompt.
    """
    if not isinstance(usage, dict):
        return Usage()
    prompt = _first(usage, "prompt_tokens", "input_tokens")
    cached = _cached(usage)
    if cached > prompt > 0:
        prompt += cached
    return Usage(prompt, _first(usage, "completion_tokens", "output_tokens"), cached)


_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")


def _cached(usage: Mapping[str, Any]) -> int:
    for name in _DETAILS:
        details = usage.get(name)
        if isinstance(details, dict) and (found := _first(details, "cached_tokens")):
            return found
    return _first(usage, *_CACHED)


def _first(counts: Mapping[str, Any], *names: str) -> int:
    for name in names:
        if name in counts and (found := _count(counts[name])):
            return found
    return 0


def _count(value: Any) -> int:
    if type(value) is int:
        return max(value, 0)
    if isinstance(value, float):
        value = int(value) if value.is_integer() else 0
    return value if isinstance(value, int) and value > 0 and value is not True else 0
