"""Schemas: the forms they come in, and the ones that are refused."""

import json
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.json_schema import parse_schema, validator_of
from schemas.reasons import FailureReason

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        (OBJECT, OBJECT),
        (json.dumps(OBJECT), OBJECT),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": OBJECT}}, OBJECT),
        (json.dumps({"type": "json_schema", "json_schema": {"schema": OBJECT}}), OBJECT),
        ({"json_schema": OBJECT}, OBJECT),
        (DRAFT_4, DRAFT_4),
        ({}, {}),
        (True, True),
        ("false", False),
    ],
)
def test_a_schema_comes_in_many_forms(given: Any, schema: Any) -> None:
    """An object, JSON text, or the OpenAI response_format that holds it; its text is JSON."""
    found = parse_schema(given)
    assert found is not None
    assert found.value == schema
    assert json.loads(found.text) == schema


@pytest.mark.parametrize("given", [None, "", " \n", "null"])
def test_no_schema_is_none(given: Any) -> None:
    """A record without a schema is a record all the same."""
    assert parse_schema(given) is None


def nested(levels: int) -> str:
    return '{"properties":{"a":' * levels + "{}" + "}}" * levels


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{", "json_schema is not JSON"),
        ("object", "json_schema is not JSON"),
        ([1], "must be a JSON object, not list"),
        (5, "must be a JSON object, not int"),
        ('"object"', "must be a JSON object, not str"),
        ({"json_schema": {"schema": [1]}}, "must be a JSON object, not list"),
        ({"type": "objekt"}, "invalid at type"),
        ({"properties": {"a": {"type": 5}}}, "invalid at properties/a/type"),
        ({"required": "a"}, "invalid at required"),
        ({"pattern": "("}, "invalid at pattern"),
        ({"$ref": "#/$defs/No"}, "'/$defs/No' does not exist"),
        ({"$ref": "http://127.0.0.1:9/x"}, "is not fetched"),
        ({"$schema": "http://127.0.0.1:9/meta"}, "invalid at its root"),
        ({"const": {1, 2}}, "no JSON form"),
        ({"title": "\ud800"}, "cannot be applied"),
        (nested(300), "cannot be applied"),
        (f'{{"json_schema": {{"schema": {nested(450)}}}}}', "json_schema"),
        (nested(50_000), "json_schema is not JSON"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_a_wrong_schema_is_one_records_fault(given: Any, message: str) -> None:
    """Whatever is wrong with it, the error has its reason and says where."""
    with pytest.raises(RecordError) as error:
        parse_schema(given)
    assert error.value.reason is FailureReason.INVALID_SCHEMA
    assert message in error.value.message


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        },
    ],
)
def test_a_schema_that_only_refers_to_itself_ends(schema: Any) -> None:
    """It says nothing, so nothing breaks it; following it has an end."""
    found = parse_schema(schema)
    assert found is not None
    assert validator_of(found.text).is_valid({"a": 1})
