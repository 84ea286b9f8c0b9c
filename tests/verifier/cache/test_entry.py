"""What is kept of a reply comes back as it was, or not at all."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from inspect import signature
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verifier.cache.support import entry
from verifier.answer import Reply, read_answer
from verifier.cache.entry import (
    HEAD_BYTES,
    Entry,
    EntryCodec,
    UnreadableEntryError,
    arrival,
    microseconds,
    worth_keeping,
)
from verifier.fault import Fault

COUNTS = st.integers(0, 2**63)
REPLIES = st.builds(
    Reply,
    text=st.text(),
    model=st.none() | st.text(),
    prompt_tokens=COUNTS,
    completion_tokens=COUNTS,
    cached_tokens=COUNTS,
)
FINITE = st.none() | st.floats(0, 1e6)
FAULT_FIELDS: dict[str, Any] = {
    **dict.fromkeys(signature(Fault).parameters, ...),
    "wait": FINITE,
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"), COUNTS),
}
FAULTS = st.builds(Fault, **FAULT_FIELDS)
ENTRIES = st.builds(
    Entry, outcome=REPLIES | FAULTS, arrived_at=st.datetimes(timezones=st.just(UTC))
)
CODEC = EntryCodec()


@given(ENTRIES)
def test_nothing_of_an_entry_is_lost(kept: Entry) -> None:
    data = CODEC.encode(kept)
    assert CODEC.decode(data) == kept
    assert arrival(data[:HEAD_BYTES]) == microseconds(kept.arrived_at)


def test_all_of_a_reply_is_kept() -> None:
    """Whoever gives it another field has to write it, and to say what entries without it mean."""
    assert [*signature(Reply).parameters] == [
        "text", "model", "prompt_tokens", "completion_tokens", "cached_tokens"
    ]  # fmt: skip


def test_arrivals_of_other_zones_come_back_in_utc() -> None:
    there = datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=2)))
    again = CODEC.decode(CODEC.encode(Entry(entry().outcome, there))).arrived_at
    assert again == there
    assert again.tzinfo is UTC


@given(ENTRIES, st.data())
def test_a_damaged_entry_is_never_taken_for_another_reply(kept: Entry, data: st.DataObject) -> None:
    """One flipped bit after the arrival, or a cut anywhere."""
    whole = bytearray(CODEC.encode(kept))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(HEAD_BYTES, len(whole) - 1))
        whole[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    with suppress(UnreadableEntryError):
        assert CODEC.decode(bytes(whole)) == kept


@given(st.binary())
def test_bytes_of_something_else_are_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableEntryError):
        CODEC.decode(data)


def test_entries_of_another_version_are_unreadable() -> None:
    data = CODEC.encode(entry())
    with pytest.raises(UnreadableEntryError, match="version"):
        CODEC.decode(b"\x02" + data[1:])


def test_entries_are_compact() -> None:
    """Ten explanations take less than half of their text."""
    text = "".join(
        f'"field_{n}":{{"explanation":"The value {n * 37} stands in line {n}.","score":{90 + n}}},'
        for n in range(10)
    )
    assert len(CODEC.encode(entry(text))) < len(text) / 2


def _completion(finish: str, **message: str) -> bytes:
    return orjson.dumps({"choices": [{"finish_reason": finish, "message": message}]})


@pytest.mark.parametrize(
    ("status", "body", "keeps"),
    [
        (200, _completion("stop", content="<score>90</score>"), True),
        (201, _completion("stop", refusal="I cannot help with that."), True),
        (200, _completion("stop", content="neither JSON nor a score"), True),
        (200, _completion("length", content="cut of"), True),
        (200, _completion("stop", refusal="I cannot help with that."), True),
        (200, _completion("content_filter", content=""), True),
        (200, _completion("stop", content=""), False),
        (200, b"", False),
        (200, b'{"error": {"message": "overloaded", "code": 503}}', False),
        (
            400,
            b'{"error": {"message": "content management policy", "code": "content_filter"}}',
            False,
        ),
        (400, b'{"error": {"message": "maximum context length exceeded"}}', False),
        (401, b'{"error": {"message": "bad key"}}', False),
        (429, b'{"error": {"message": "slow down"}}', False),
        (500, b"", False),
    ],
)
def test_what_was_paid_for_is_kept(status: int, body: bytes, keeps: bool) -> None:
    """Replies, refusals and cut-off replies; no answer that may be another one next time."""
    assert worth_keeping(status, read_answer(status, {}, body)) is keeps
