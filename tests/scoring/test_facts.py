"""What routing must know of a record: its fields, which are empty, what breaks the schema."""

import json
from typing import Any

import pytest

from scoring.facts import MAX_VIOLATIONS, MESSAGE_LENGTH, facts_of, is_empty, schema_violations
from tests.support.builders import record

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
}


@pytest.mark.parametrize(
    ("value", "empty"),
    [
        (None, True),
        ("", True),
        (" \n", True),
        ([], True),
        ({}, True),
        (0, False),
        (False, False),
        ("0", False),
        ([None], False),
        ({"a": None}, False),
    ],
)
def test_empty_values(value: Any, empty: bool) -> None:
    """Null, blanks and nothing inside; 0 and false are values."""
    assert is_empty(value) is empty


@pytest.mark.parametrize(
    ("output", "empty", "violations"),
    [
        ({"a": 1, "b": "x"}, (), 0),
        ({"a": None, "b": " "}, ("a", "b"), 1),
        ({"a": 0, "b": ""}, ("b",), 0),
        ({"a": "1", "b": []}, ("b",), 2),
        ({"b": {}}, ("b",), 2),
        ([1], (), 1),
        ([], ("$",), 1),
        ("text", (), 1),
    ],
)
def test_facts(output: Any, empty: tuple[str, ...], violations: int) -> None:
    """Of an object by key; an array or a scalar is the one field `$`."""
    facts = facts_of(record(json.dumps(output), json_schema=SCHEMA))
    assert facts.fields == (tuple(output) if isinstance(output, dict) else ("$",))
    assert facts.empty_fields == empty
    assert len(facts.schema_violations) == violations


def test_without_a_schema_nothing_is_violated() -> None:
    """Nor by one that allows all."""
    assert schema_violations(record({"a": 1})) == ()
    assert schema_violations(record({"a": 1}, json_schema={})) == ()


@pytest.mark.parametrize(
    ("schema", "output", "where"),
    [
        ({"properties": {"a": {"type": "string"}}}, '{"a": 5}', "$.a: "),
        ({"properties": {"a b": {"type": "string"}}}, '{"a b": 5}', "$['a b']: "),
        ({"properties": {"日期": {"type": "string"}}}, '{"日期": 5}', "$.日期: "),
        ({"properties": {"a": {"items": {"type": "string"}}}}, '{"a": ["x", 5]}', "$.a[1]: "),
        ({"required": ["a"]}, '{"b": 5}', "$: "),
        ({"items": {"required": ["a"]}}, '[{"a": 1}, {}]', "$[1]: "),
        ({"properties": {"a": {"format": "date"}}}, '{"a": "March"}', "$.a: "),
        ({"properties": {"a": {"maximum": 5}}}, '{"a": 1e400}', "$.a: "),
        ({"properties": {"a": {"maximum": 5}}}, f'{{"a": {"9" * 100}}}', "$.a: "),
        ({"properties": {"a": {"enum": [1.25]}}}, '{"a": 1.26}', "$.a: "),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, json.dumps({"a": "a" * 40 + "b"}), "$.a: "),
        (False, '{"a": 5}', "$: "),
    ],
)
def test_a_violation_says_where(schema: Any, output: str, where: str) -> None:
    """By path, with what is wrong behind it."""
    (found,) = schema_violations(record(output, json_schema=schema))
    assert found.startswith(where)
    assert len(found) > len(where)


@pytest.mark.parametrize(
    ("schema", "output"),
    [
        ({"properties": {"a": {"type": "integer"}}}, '{"a": 1.0}'),
        ({"properties": {"a": {"multipleOf": 0.01}}}, '{"a": 12.34}'),
        ({"properties": {"a": {"const": 1.25}}}, '{"a": 1.25}'),
        ({"properties": {"a": {"format": "date"}}}, '{"a": "2024-03-01"}'),
        ({"properties": {"a": {"type": "string"}}}, '{"a": "\\\\ud800"}'),
        ({"properties": {"a": {"type": "number"}}}, f'{{"a": {"9" * 100}.5}}'),
    ],
)
def test_exact_numbers_fit_where_they_should(schema: Any, output: str) -> None:
    """1.0 is an integer, 12.34 is whole cents: no rounding makes a violation."""
    assert schema_violations(record(output, json_schema=schema)) == ()


def test_violations_are_bounded() -> None:
    """In number and length, however wrong an output is."""
    schema = {"items": {"enum": ["x" * 1000]}}
    found = schema_violations(record([5] * 1000, json_schema=schema))
    assert len(found) == MAX_VIOLATIONS
    assert all(len(v.split(": ", 1)[1]) == MESSAGE_LENGTH for v in found)


@pytest.mark.parametrize("where", ["$defs", "definitions"])
def test_recursive_schemas_are_applied(where: str) -> None:
    """A self-referring schema checks nested values as deep as they go, and ends."""
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": f"#/{where}/N"}}},
    }
    schema = {"$ref": f"#/{where}/N", where: {"N": node}}
    good = record({"name": "root", "children": [{"children": []}]}, json_schema=schema)
    bad = record({"children": [{"children": [{"children": 5}]}]}, json_schema=schema)
    assert facts_of(good).fields == ("name", "children")
    assert facts_of(good).schema_violations == ()
    assert facts_of(bad).schema_violations == (
        '$.children[0].children[0].children: 5 is not of type "array"',
    )
