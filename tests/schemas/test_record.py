"""The record: which message is its document, and how JSON is read."""

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import RecordError
from schemas.parse_record import parse_record
from schemas.reasons import FailureReason
from schemas.record import MAX_DEPTH, DocumentFrom, Message, clean, parse_json, record_values
from tests.support.builders import pickled, record

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def nested(levels: int, inner: str = "1") -> str:
    return "[" * levels + inner + "]" * levels


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 12.50}', {"a": Decimal("12.50")}),
        ("9" * 100, int("9" * 100)),
        ("1e400", Decimal("1e400")),
        ('{"a": 1, "b": "\\u00e9"}', {"a": 1, "b": "é"}),
        ('["\\ud800", "\\ud83d\\ude00"]', ["\\ud800", "😀"]),
        (b'{"a": "\xc3\xa9"}', {"a": "é"}),
        (nested(3), [[[1]]]),
    ],
)
def test_json_is_read_exactly(text: str | bytes, value: Any) -> None:
    """Digits are kept; a lone surrogate is written out, a pair is its character."""
    found = parse_json(text)
    assert found == value
    assert str(found) == str(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("{'a': 1}", "Expecting property name"),
        ('{"a": 1} x', "Extra data"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ('{"a": 1e99999999999999999999}', "exponent"),
        ("9" * 5000, "4300"),
        (nested(MAX_DEPTH + 1), "nested deeper"),
        (nested(100_000), "nested deeper"),
        ('{"a":' * 300 + "1" + "}" * 300, "nested deeper"),
        (b'"\xff"', "utf-8"),
    ],
    ids=lambda v: str(v)[:30],
)
def test_what_is_not_json_is_a_value_error(text: str | bytes, message: str) -> None:
    """Strictly; nothing else is ever raised."""
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_json(text)


def test_the_greatest_depth_is_read() -> None:
    """Brackets in strings do not count."""
    text = nested(MAX_DEPTH, '"[[{{"')
    assert parse_json(text) is not None


@given(value=st.recursive(st.text(st.characters()) | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(st.characters()), x)))  # fmt: skip
def test_cleaned_values_are_utf_8(value: Any) -> None:
    """And what was clean is as it was."""
    cleaned = clean(value)
    assert json.dumps(cleaned, ensure_ascii=False).encode("utf-8")
    assert clean(cleaned) == cleaned


ROLES = ("system", "user", "assistant", "developer", "user", "assistant")


@pytest.mark.parametrize(
    ("roles", "chosen", "index"),
    [
        (ROLES, DocumentFrom.LAST_USER, 4),
        (ROLES, DocumentFrom.FIRST_USER, 1),
        (ROLES, DocumentFrom.SYSTEM, 3),
        (("system", "assistant"), DocumentFrom.LAST_USER, 1),
        (("system", "assistant"), DocumentFrom.FIRST_USER, 1),
        (("user", "assistant"), DocumentFrom.SYSTEM, 1),
    ],
)
def test_the_documents_message(roles: tuple[str, ...], chosen: DocumentFrom, index: int) -> None:
    """As chosen; the last message where there is none of that role."""
    messages = [{"role": role, "content": f"text {i}"} for i, role in enumerate(roles)]
    parsed = parse_record({"messages": messages, "output": [1]}, document_from=chosen)
    assert parsed.document_index == index
    assert parsed.document == f"text {index}"


@pytest.mark.parametrize(
    ("content", "text", "attachments"),
    [
        ("plain", "plain", 0),
        ((), "", 0),
        (({"type": "text", "text": "a"}, {"type": "text", "text": "b"}), "a\nb", 0),
        (({"type": "text", "text": None, "image_url": None},), "", 0),
        (({"type": "text"}, {"type": "image_url", "image_url": {"url": "u"}}), "", 1),
    ],
)
def test_a_messages_text_is_that_of_its_text_parts(
    content: Any, text: str, attachments: int
) -> None:
    """A part without text, as Arrow structs have them, adds none."""
    message = Message("user", content)
    assert message.text == text
    assert len(message.attachments) == attachments


def test_a_record_is_made_again_from_its_values() -> None:
    """Also after pickling; messages, schema, generator and output stay equal."""
    one = record(
        '{"price": 12.50, "n": [null]}',
        id=5,
        instructions="i",
        json_schema={"type": "object"},
        generator="g",
    )
    assert parse_record(record_values(one)) == one
    assert pickled(one) == one


def test_record_errors_keep_their_reason_between_processes() -> None:
    """A pickled error is the same error."""
    error = RecordError(FailureReason.INVALID_JSON, "m")
    copy = pickled(error)
    assert (copy.reason, copy.message, str(copy)) == (error.reason, "m", "m")


@given(
    value=st.dictionaries(TEXT, st.integers() | TEXT | st.none(), min_size=1),
    document=TEXT,
)
def test_fields_and_values(value: dict[str, Any], document: str) -> None:
    """Any keys of any script are fields, in order, each with its value."""
    one = record(value, document=document)
    assert one.fields == tuple(value)
    assert {f: one.value(f) for f in one.fields} == value
    assert one.document == document
