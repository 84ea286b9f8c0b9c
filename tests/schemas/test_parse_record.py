"""From values to records: what is accepted, and how errors name the key."""

import json
from typing import Any

import pytest

from schemas.arrow_verdict import verdict_table, verdicts_of
from schemas.dead_letter import DeadLetter, Stage
from schemas.errors import RecordError
from schemas.json_schema import parse_schema
from schemas.parse_record import parse_record
from schemas.reasons import FailureReason as R
from schemas.record import Message
from tests.support.builders import record, verdicts

BASE = {"document": "d", "output": {"a": 1}}
NODE = {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object"}}}


@pytest.mark.parametrize(
    ("values", "reason", "message"),
    [
        ({"output": {"a": 1}}, R.INVALID_RECORD, "messages, prompt and document are all missing"),
        ({**BASE, "document": 5}, R.INVALID_RECORD, "document must be text, not int"),
        ({**BASE, "prompt": ["x"]}, R.INVALID_RECORD, "prompt must be text"),
        ({**BASE, "messages": []}, R.INVALID_RECORD, "messages must be a list of at least one"),
        ({**BASE, "messages": "{"}, R.INVALID_RECORD, "messages is text that is not JSON"),
        ({**BASE, "messages": ["hi"]}, R.INVALID_RECORD, "messages[0] must be"),
        ({**BASE, "messages": [{"role": "judge", "content": "x"}]}, R.INVALID_RECORD, "messages[0].role is 'judge'"),
        ({**BASE, "messages": [{"role": "user", "content": 5}]}, R.INVALID_RECORD, "messages[0].content"),
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
        ({**BASE, "json_schema": "{"}, R.INVALID_SCHEMA, "json_schema is not JSON"),
        ({**BASE, "json_schema": [1]}, R.INVALID_SCHEMA, "must be a JSON object, not list"),
        ({**BASE, "json_schema": {"properties": {"a": {"type": 5}}}}, R.INVALID_SCHEMA, "invalid at properties/a/type"),
        ({**BASE, "json_schema": {"$ref": "#/$defs/No"}}, R.INVALID_SCHEMA, "'/$defs/No' does not exist"),
        ({**BASE, "json_schema": {"$ref": "http://127.0.0.1:9/x"}}, R.INVALID_SCHEMA, "is not fetched"),
        ({**BASE, "generator": 5}, R.INVALID_RECORD, "generator must be text"),
    ],
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
        ({"": 1, "a.b": 2, "日期": 3}, ("", "a.b", "日期")),
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
    literal = record("{'a': None, 'b': True}")
    assert literal.output_text == '{"a":null,"b":true}'
    assert literal.notes


def test_ids() -> None:
    """Text and integers are kept as text; without one, equal content has an equal id."""
    assert record([1], id="x").id == "x"
    assert record([1], id=0).id == "0"
    assert record([1]).id == record([1]).id
    assert len({record([1]).id, record([2]).id, record([1], document="other").id}) == 3


def test_a_schema_may_be_an_openai_response_format() -> None:
    """The schema inside is taken; a record's own comes before the run's."""
    schema = {"type": "object"}
    wrapped = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for form in (schema, json.dumps(schema), wrapped):
        found = parse_schema(form)
        assert found is not None
        assert found.value == schema
    default = parse_schema(NODE)
    assert parse_record(BASE, default_schema=default).json_schema == default
    own = parse_record({**BASE, "json_schema": schema}, default_schema=default).json_schema
    assert own is not None
    assert own.value == schema
    assert parse_schema("") is None


@pytest.mark.parametrize("payload", [b"text \xc3\xa9", b"\xff\xfe\x00", b""])
def test_a_dead_letter_keeps_its_payload(payload: bytes) -> None:
    """As text where it is UTF-8, else in base64."""
    import base64

    row = json.loads(DeadLetter("x", Stage.READ, R.INVALID_UTF8, "m", payload).to_json())
    kept = row["payload"]
    got = base64.b64decode(kept) if row["payload_encoding"] == "base64" else kept.encode()
    assert got == payload


def test_verdicts_survive_the_log() -> None:
    """Written to Arrow and read back, they are equal."""
    given = verdicts(
        ("a", "b"), {"fields_numeric": None, "accuracy_audit": '{"incorrect_fields": ["zz"]}'}
    )
    assert list(verdicts_of(verdict_table(given))) == given
