"""From values to records: what is accepted, and how errors name the key."""

from typing import Any

import pyarrow as pa
import pytest

from schemas.errors import RecordError
from schemas.json_schema import parse_schema
from schemas.parse_record import parse_record
from schemas.reasons import FailureReason as R
from schemas.record import DocumentFrom, Message
from schemas.row import Row
from tests.support.builders import record

BASE = {"document": "d", "output": {"a": 1}}
NODE = {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object"}}}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("values", "reason", "message"),
    [
        ({"output": {"a": 1}}, R.INVALID_RECORD, "messages, prompt and document are all missing"),
        ({**BASE, "document": 5}, R.INVALID_RECORD, "document must be text, not int"),
        ({**BASE, "prompt": ["x"]}, R.INVALID_RECORD, "prompt must be text"),
        ({**BASE, "messages": []}, R.INVALID_RECORD, "messages must be a list of at least one"),
        ({**BASE, "messages": "{"}, R.INVALID_RECORD, "messages is text that is not JSON"),
        ({**BASE, "messages": "[1e99999999999999999999]"}, R.INVALID_RECORD, "exponent"),
        ({**BASE, "messages": ["hi"]}, R.INVALID_RECORD, "messages[0] must be"),
        ({**BASE, "messages": [{"role": "judge", "content": "x"}]}, R.INVALID_RECORD, "messages[0].role is 'judge'"),
        ({**BASE, "messages": [{"role": "user", "content": 5}]}, R.INVALID_RECORD, "messages[0].content"),
        ({**BASE, "messages": [{"role": ["user"], "content": "x"}]}, R.INVALID_RECORD, "messages[0].role"),
        ({**BASE, "output": {"a": object()}}, R.INVALID_RECORD, "output has no JSON form"),
        ({**BASE, "id": 1.5}, R.INVALID_RECORD, "id must be text or an integer"),
        ({**BASE, "id": True}, R.INVALID_RECORD, "id must be text or an integer"),
        ({**BASE, "output": None}, R.EMPTY_OUTPUT, "output is null or an empty object"),
        ({**BASE, "output": "null"}, R.EMPTY_OUTPUT, ""),
        ({**BASE, "output": " "}, R.EMPTY_OUTPUT, ""),
        ({**BASE, "output": "{ }"}, R.EMPTY_OUTPUT, ""),
        ({**BASE, "output": {}}, R.EMPTY_OUTPUT, ""),
        ({**BASE, "output": "the total is 40"}, R.INVALID_JSON, "output is not JSON"),
        ({**BASE, "output": '{"a": NaN}'}, R.INVALID_JSON, "NaN is not JSON"),
        ({**BASE, "output": "[" * 100_000}, R.INVALID_JSON, "output is not JSON"),
        ({**BASE, "output": "__import__('os')"}, R.INVALID_JSON, ""),
        ({**BASE, "messages": [{"content": "x"}]}, R.INVALID_RECORD, "messages[0].role is None"),
        ({**BASE, "messages": [{"role": "user", "content": ["x"]}]}, R.INVALID_RECORD, "messages[0].content"),
        ({**BASE, "instructions": 5}, R.INVALID_RECORD, "instructions must be text, not int"),
        ({**BASE, "id": ["x"]}, R.INVALID_RECORD, "id must be text or an integer, not list"),
        ({"document": "d"}, R.EMPTY_OUTPUT, "output is null or an empty object"),
        ({**BASE, "output": '{"a": 1'}, R.INVALID_JSON, "output is not JSON"),
        ({**BASE, "output": "{'a': open('x')}"}, R.INVALID_JSON, "output is not JSON"),
        ({**BASE, "output": "{'a': b'x'}"}, R.INVALID_JSON, "output is not JSON"),
        ({**BASE, "output": '{"a":' * 2000 + "1" + "}" * 2000}, R.INVALID_JSON, "nested deeper"),
        ({**BASE, "output": deep(300)}, R.INVALID_RECORD, "nested deeper"),
        ({**BASE, "output": deep(2000)}, R.INVALID_RECORD, "output has no JSON form"),
        ({**BASE, "json_schema": "{"}, R.INVALID_SCHEMA, "json_schema is not JSON"),
        ({**BASE, "json_schema": {"$ref": "#/$defs/No"}}, R.INVALID_SCHEMA, "'/$defs/No' does not exist"),
        ({**BASE, "generator": 5}, R.INVALID_RECORD, "generator must be text"),
    ],
    ids=lambda v: str(v)[:60] if isinstance(v, str) else "",
)  # fmt: skip
def test_errors_name_the_key(values: dict[str, Any], reason: R, message: str) -> None:
    """One reason, and what to look at."""
    with pytest.raises(RecordError) as error:
        parse_record(values)
    assert error.value.reason is reason
    assert message in error.value.message


@pytest.mark.parametrize(
    ("values", "messages"),
    [
        ({"document": "d"}, (Message("user", "d"),)),
        ({"document": "d", "instructions": "i"}, (Message("system", "i"), Message("user", "d"))),
        ({"prompt": "p", "document": "d"}, (Message("user", "p"),)),
        (
            {"messages": '[{"role": "user", "content": "m"}]', "prompt": "p"},
            (Message("user", "m"),),
        ),
        ({"messages": [{"role": "user", "content": None}]}, (Message("user", ""),)),
    ],
)
def test_the_request(values: dict[str, Any], messages: tuple[Message, ...]) -> None:
    """messages, else prompt, else document and instructions."""
    assert parse_record({**values, "output": [1]}).messages == messages


def test_content_parts_keep_text_and_attachments() -> None:
    """Text parts are joined; images pass through."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    parts = [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]
    (message,) = parse_record(
        {"messages": [{"role": "user", "content": parts}], "output": [1]}
    ).messages
    assert (message.text, message.attachments) == ("a\nb", (image,))


def test_the_document_is_the_last_user_message() -> None:
    """Few-shot examples before it are no evidence."""
    roles = ("system", "user", "assistant", "user", "assistant")
    messages = [{"role": r, "content": f"{r}{i}"} for i, r in enumerate(roles)]
    parsed = parse_record({"messages": messages, "output": [1]})
    assert (parsed.document_index, parsed.document) == (3, "user3")


@pytest.mark.parametrize(
    ("output", "fields"),
    [
        ({"b": 1, "a": None}, ("b", "a")),
        ('{"b": 1, "a": 2}', ("b", "a")),
        ("{'b': None, 'a': ['x']}", ("b", "a")),
        ([1, 2], ("$",)),
        ('"text"', ("$",)),
        (0, ("$",)),
        (False, ("$",)),
        ("[]", ("$",)),
        ([], ("$",)),
        ([{"value": 1}, {"value": 2}], ("$",)),
        ({"meta": {}, "lines": []}, ("meta", "lines")),
        ({"a": None}, ("a",)),
        ({"": 1, "a.b": 2, "日期": 3}, ("", "a.b", "日期")),
        ({"id": 1, "score": 2, "error": None, "class": 3}, ("id", "score", "error", "class")),
    ],
)
def test_fields_are_the_top_level_keys(output: Any, fields: tuple[str, ...]) -> None:
    """In order; an array or a scalar is one field `$`."""
    assert record(output).fields == fields


def test_the_output_text_is_kept_as_it_came() -> None:
    """Digits, spaces and escapes of JSON text stay; a Python literal becomes JSON, with a note."""
    text = '{"price": 12.50,  "big": 123456789012345678901234567890}'
    assert record(text).output_text == text
    assert record(text).output["big"] == 123456789012345678901234567890
    assert record(text).notes == ()


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("{'a': None, 'b': True}", '{"a":null,"b":true}'),
        (" {'a': ('x', 1.5)}\n", '{"a":["x",1.5]}'),
        ("['it\\'s', \"None\"]", '["it\'s","None"]'),
        ("{'a': '\\ud800'}", '{"a":"\\\\ud800"}'),
        ("{1: 2}", '{"1":2}'),
    ],
)
def test_a_python_literal_becomes_json(literal: str, text: str) -> None:
    """As pandas writes dicts; a note says so."""
    one = record(literal)
    assert one.output_text == text
    assert one.notes == ("output was a Python literal, not JSON",)


def test_ids() -> None:
    """Text and integers are kept as text; without one, equal content has an equal id."""
    assert record([1], id="x").id == "x"
    assert record([1], id=0).id == "0"
    assert record([1], id="\ud800").id == "\\ud800"
    assert record([1], id="").id == record([1], id=None).id == record([1]).id
    assert record([1]).id == record([1]).id
    others = (
        record([2]),
        record([1], document="other"),
        record([1], json_schema={"type": "array"}),
    )
    assert len({record([1]).id, *(other.id for other in others)}) == 4
    assert record({"id": "inner"}).id != "inner"


def test_a_records_own_schema_comes_before_the_runs() -> None:
    """The default is for records that have none."""
    default = parse_schema(NODE)
    assert parse_record(BASE, default_schema=default).json_schema == default
    assert parse_record({**BASE, "json_schema": ""}, default_schema=default).json_schema == default
    own = parse_record({**BASE, "json_schema": {"type": "object"}}, default_schema=default)
    assert own.json_schema == parse_schema({"type": "object"})
    assert parse_record(BASE).json_schema is None


def test_the_row_travels_along() -> None:
    """With the choice of the document's message."""
    row = Row(pa.RecordBatch.from_pylist([BASE]), 0)
    one = parse_record(BASE, row, document_from=DocumentFrom.SYSTEM)
    assert one.row is row
    assert one.document_from is DocumentFrom.SYSTEM
