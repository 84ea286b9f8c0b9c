"""Dead letters: one line of JSON each, whatever the record held, and the way back."""

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.dead_letter import DeadLetter, Stage, lost_record, lost_row, original_payload
from schemas.errors import RecordError
from schemas.parse_record import parse_record
from schemas.reasons import FailureReason as R
from schemas.record import invalid
from schemas.row import Row
from tests.support.builders import record


def line(letter: DeadLetter) -> dict[str, Any]:
    data = letter.to_json()
    assert b"\n" not in data
    row: dict[str, Any] = json.loads(data)
    return row


@pytest.mark.parametrize(
    ("payload", "encoding"),
    [
        (b"text \xc3\xa9", "utf-8"),
        (b"", "utf-8"),
        (b'{"a": "\x00\\u0000\n"}', "utf-8"),
        (b"\xff\xfe\x00", "base64"),
        (b'{"a": "\xed\xa0\x80"}', "base64"),
    ],
)
def test_the_payload_is_kept_byte_for_byte(payload: bytes, encoding: str) -> None:
    """As text where it is UTF-8, else in base64; it is found again either way."""
    row = line(DeadLetter("x", Stage.READ, R.INVALID_UTF8, "m", payload))
    assert row["payload_encoding"] == encoding
    if encoding == "base64":
        assert base64.b64decode(row["payload"]) == payload
    assert original_payload(row) == payload


@given(payload=st.binary())
def test_any_payload_survives(payload: bytes) -> None:
    """Written and driven again, the bytes are the same."""
    assert original_payload(line(DeadLetter(None, Stage.READ, R.INVALID_JSON, "", payload))) == (
        payload
    )


def test_a_line_says_what_happened() -> None:
    """Id, stage, reason, message, attempts, source and time stand beside the payload."""
    letter = DeadLetter("7", Stage.VERIFY, R.TIMEOUT, "too slow", b"p", attempts=3, source="f")
    row = line(letter)
    assert (row["id"], row["stage"], row["reason"]) == ("7", "verify", "timeout")
    assert (row["message"], row["attempts"], row["source"]) == ("too slow", 3, "f")
    assert row["time"] == letter.time.isoformat()
    assert row["time"].endswith("+00:00")


def test_no_text_keeps_a_letter_from_being_written() -> None:
    """Lone surrogates, as in the name of a file that is not UTF-8, are written out."""
    row = line(DeadLetter("\ud800", Stage.READ, R.INVALID_JSON, "m\udfff", b"p", source="f\udcff"))
    assert (row["id"], row["message"], row["source"]) == ("\\ud800", "m\\udfff", "f\\udcff")


ROW = {"id": 7, "document": "d", "output": "not json", "amount": None, "raw": b"\xff"}


def test_a_rows_letter_has_all_its_columns() -> None:
    """Null where a value is null, base64 where it is no text; the id is text."""
    row = Row(pa.RecordBatch.from_pylist([ROW]), 0)
    letter = lost_row(row, invalid("output is wrong"), "in.parquet")
    assert (letter.id, letter.reason, letter.source) == ("7", R.INVALID_RECORD, "in.parquet")
    assert json.loads(letter.payload) == ROW | {"raw": "/w=="}


def test_a_records_letter_can_be_driven_again() -> None:
    """The payload is the input row, or without one the record itself: it makes the same record."""
    one = record({"a": [1, {"b": None}]}, id="7", json_schema={"type": "object"}, generator="g")
    letter = lost_record(one, R.TIMEOUT, "m", attempts=2)
    assert (letter.id, letter.stage, letter.attempts) == ("7", Stage.VERIFY, 2)
    assert parse_record(json.loads(original_payload(line(letter)))) == one
    values = {"id": "8", "document": "d", "output": '{"a": 1}', "carried": 5}
    rowed = parse_record(values, Row(pa.RecordBatch.from_pylist([values]), 0))
    assert json.loads(lost_record(rowed, R.TIMEOUT, "m").payload) == values


@pytest.mark.parametrize(
    ("given", "reason", "message"),
    [
        ({}, R.INVALID_RECORD, "no dead letter"),
        ({"payload": "x"}, R.INVALID_RECORD, "no dead letter"),
        ({"payload": 5, "payload_encoding": "utf-8"}, R.INVALID_RECORD, "no dead letter"),
        ({"payload": "x", "payload_encoding": "rot13"}, R.INVALID_RECORD, "no dead letter"),
        ({"payload": "abc", "payload_encoding": "base64"}, R.INVALID_RECORD, "is not base64"),
        ({"payload": "é", "payload_encoding": "base64"}, R.INVALID_RECORD, "is not base64"),
        ({"payload": "\ud800", "payload_encoding": "utf-8"}, R.INVALID_RECORD, "is not utf-8"),
        (
            {"payload": "f.parquet", "payload_encoding": "utf-8", "reason": "unreadable_file"},
            R.UNREADABLE_FILE,
            "--input: f.parquet",
        ),
    ],
)
def test_a_line_without_an_original_is_refused(
    given: dict[str, Any], reason: R, message: str
) -> None:
    """The error says what is missing; a whole file is to be named instead."""
    with pytest.raises(RecordError) as error:
        original_payload(given)
    assert error.value.reason is reason
    assert message in error.value.message
