"""The JSON in a reply: found wherever it stands, repaired, and never completed."""

import json
from typing import Any

import pytest

from scoring.json_reply import in_json, json_candidates

A1 = {"a": 1}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}', [A1]),
        (' \n{"a": 1}\n', [A1]),
        ("[1, 2]", [[1, 2]]),
        ('```json\n{"a": 1}\n```', [A1]),
        ('```json\n{"a": 1}', [A1]),
        ('Sure: {"a": 1} and {"b": 2}. Done.', [A1, {"b": 2}]),
        ("I'm sure it's {\"a\": 1}", [A1]),
        ('{unfinished ... {"a": 1}', [A1]),
        (json.dumps('{"a": 1}'), [A1]),
        (json.dumps(json.dumps('{"a": 1}')), [A1]),
        ("{'a': 1,}", [A1]),
        ("{'a': None, 'b': True}", [{"a": None, "b": True}]),
        ('{"a": "None, True, it\'s {0} }"}', [{"a": "None, True, it's {0} }"}]),
        ('x {"a": "line\n\tbreak"}', [{"a": "line\n\tbreak"}]),
        ('{"a": "\\u00e9 \\\\ \\""}', [{"a": 'é \\ "'}]),
        ('{"a": "he said "hi" to me"}', [{"a": 'he said "hi" to me'}]),
        ('{"a": "a 6" pipe", "b": 2}\nAnything else?', [{"a": 'a 6" pipe', "b": 2}]),
        ("", []),
        ("{}", []),
        ("null", []),
        ("42", []),
        ('"text"', []),
        ("no braces at all", []),
    ],
)
def test_candidates(text: str, values: list[Any]) -> None:
    """Every object and array that holds something, in order."""
    assert [v for v in json_candidates(text) if v] == values


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1',
        '{"a": [1, 2',
        '{"list": ["a}", "b',
        '{"list": ["a}',
        '{"list": [], "a": 1, "text": "a } brace and then the cut',
        '{"list": ["a", "b"], "text": "{x} and',
        '```json\n{"a": "x"',
        '{"a": "\\',
    ],
)
def test_what_is_cut_off_is_not_completed(text: str) -> None:
    """A shortened list would pass for a full one; braces in its texts close nothing."""
    objects = [v for v in json_candidates(text) if isinstance(v, dict)]
    assert not any("a" in v or "list" in v for v in objects)


def test_an_escaped_object_counts_once() -> None:
    r"""Quotes escaped without quotes around them, `{\"a\": 1}`, are one object still."""
    assert len(json_candidates('{\\"a\\": 1} ok')) <= 1


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ('{"a": "x|y"}', True),
        ('prose {"a": ["x|y"]} prose', True),
        ("thinking {'a': 1}|{'b': 2}", False),
        ("|{'a': 1}", False),
        ("{'a': 1}|", False),
        ("{never closed | {'a': 1}", False),
        ("I'm thinking | {'a': 1}", False),
    ],
)
def test_inside_json(text: str, inside: bool) -> None:
    """Whether the bar stands within an object or array that closes."""
    assert in_json(text, text.index("|")) is inside


@pytest.mark.parametrize(
    ("unit", "length"),
    [
        *((unit, 1_000_000) for unit in ('\\"', "\\'", "\\", "'\\", "word ", '"', "} ", " \n", "\u2028", "<")),
        *((unit, 50_000) for unit in ("{a b}", "{'a': None, ", '{"a":', "{,", "{/*", "[[],", '{"x": "', "}{", '""{')),
    ],
)  # fmt: skip
def test_garbage_is_read_in_linear_time(unit: str, length: int) -> None:
    """Work that grew with the square of the length would outlast the time limit of any test."""
    json_candidates("{" + unit * (length // len(unit)))


@pytest.mark.parametrize("depth", [900, 1024, 5000, 50_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_bombs_are_survived(depth: int, opening: str, closing: str) -> None:
    """Closed or not, alone or in prose: read or left, but nothing is raised."""
    for text in (opening * depth + "1" + closing * depth, opening * depth):
        json_candidates(text)
        json_candidates(f"see {text} there")


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ('{"a": 1, "a": 2}', [{"a": 2}, {"a": 1}]),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', [{"a": 1, "b": {"c": 1}}] * 2),
        ('x {"a" : 1, "a"\n: 2} y', [{"a": 2}, {"a": 1}]),
        ('{"a": "\\"b\\": \\"c\\":"}', [{"a": '"b": "c":'}]),
        ('{"a": {"x": 1}, "b": {"x": 2}}', [{"a": {"x": 1}, "b": {"x": 2}}]),
    ],
)
def test_equal_keys_are_verdicts_of_their_own(text: str, candidates: list[Any]) -> None:
    """Neither the first nor the last of equal keys counts alone."""
    assert json_candidates(text) == candidates
