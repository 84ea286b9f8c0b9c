"""Lines of batch files: custom ids, and what a line of results says."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.reasons import FailureReason
from verifier.answer import Reply
from verifier.batch_request import CustomId, parse_custom_id
from verifier.batch_result import BatchResult, read_line, read_result
from verifier.fault import Action, Fault

CHAT = {
    "model": "m-2",
    "created": 1_760_000_000,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "text"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
}


def result(**line: Any) -> BatchResult:
    raw = json.dumps({"custom_id": "x", **line}).encode()
    data = read_line(raw)
    assert data is not None
    return read_result(data, raw)


@given(
    st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
    st.integers(0, 10**9 - 1),
    st.integers(0, 9999),
    st.integers(0, 10**6 - 1),
    st.sampled_from([1, 2]),
)
def test_a_custom_id_names_its_call(
    shard: str, row: int, template: int, chunk: int, room: int
) -> None:
    """It is read back, and has at most 64 characters that every provider takes."""
    custom_id = CustomId(shard, row, template, chunk, room)
    text = str(custom_id)
    assert parse_custom_id(text) == custom_id
    assert len(text) <= 64
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    "text",
    ["", "request-1", "cb-0123456789ab-1-2", "CB-0123456789ab-1-2-3", "cb-0-1-2-3 ", 7, None],
)
def test_other_ids_are_none_of_ours(text: object) -> None:
    """Whatever a foreign file holds."""
    assert parse_custom_id(text) is None


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b'"x"', b"\xff", b"[" * 100_000])
def test_a_line_that_holds_no_object(line: bytes) -> None:
    """Half a line, and other JSON."""
    assert read_line(line) is None


def test_a_line_that_is_not_quite_json_is_read() -> None:
    """Half of a surrogate pair and NaN, as the online client takes them."""
    raw = (
        b'{"custom_id": "x", "response": {"status_code": 200, "body": '
        + json.dumps(
            {**CHAT, "logprob": float("nan"), "choices": [{"message": {"content": "a\ud800"}}]}
        ).encode()
        + b"}}"
    )
    data = read_line(raw)
    assert data is not None
    outcome = read_result(data, raw).outcome
    assert isinstance(outcome, Reply)
    assert outcome.text == "a\\ud800"


@pytest.mark.parametrize("body", [CHAT, json.dumps(CHAT)])
def test_a_reply(body: Any) -> None:
    """The body is an object, or its text; it is dated by the model's own clock."""
    read = result(response={"status_code": 200, "body": body}, error=None)
    assert read.outcome == Reply("text", "m-2", 5, 2, 0)
    assert read.sent
    assert read.created == (datetime(2025, 10, 9, 8, 53, 20, tzinfo=UTC) if body is CHAT else None)


@pytest.mark.parametrize("created", [None, "soon", True, -5, 10**30, 0])
def test_a_date_that_is_none(created: Any) -> None:
    """The reply counts all the same."""
    read = result(response={"status_code": 200, "body": {**CHAT, "created": created}})
    assert isinstance(read.outcome, Reply)
    assert read.created is None


@pytest.mark.parametrize(
    ("line", "reason", "action", "sent"),
    [
        ({"response": None, "error": {"code": "batch_expired", "message": "late"}},
         FailureReason.TIMEOUT, Action.RETRY, False),
        ({"response": None, "error": {"code": "batch_cancelled"}},
         FailureReason.PROVIDER_ERROR, Action.RETRY, False),
        ({"response": None, "error": {"code": "server_error", "message": "oops"}},
         FailureReason.PROVIDER_ERROR, Action.RETRY, True),
        ({"response": None, "error": "something"}, FailureReason.PROVIDER_ERROR, Action.RETRY, True),
        ({"response": None, "error": None}, FailureReason.EMPTY_RESPONSE, Action.RETRY, True),
        ({}, FailureReason.EMPTY_RESPONSE, Action.RETRY, True),
        ({"response": {"status_code": 200, "body": {}}},
         FailureReason.EMPTY_RESPONSE, Action.RETRY, True),
        ({"response": {"status_code": 429, "body": {"error": {"message": "Rate limit reached"}}}},
         FailureReason.RATE_LIMITED, Action.RETRY, True),
        ({"response": {"status_code": 400, "body": {"error": {
            "message": "maximum context length is 8192 tokens", "code": "context_length_exceeded"}}}},
         FailureReason.CONTEXT_LENGTH_EXCEEDED, Action.GIVE_UP, True),
        ({"response": {"status_code": 400, "body": {"error": {
            "message": "Unsupported parameter: 'max_tokens'", "param": "max_tokens"}}}},
         FailureReason.BAD_REQUEST, Action.ADAPT, True),
        ({"response": {"status_code": 200, "body": {**CHAT, "choices": [
            {"finish_reason": "length", "message": {"content": "te"}}]}}},
         FailureReason.TRUNCATED, Action.GIVE_UP, True),
    ],
)  # fmt: skip
def test_a_fault(line: dict[str, Any], reason: FailureReason, action: Action, sent: bool) -> None:
    """Errors of requests, of the batch, and results that say nothing."""
    read = result(**line)
    assert isinstance(read.outcome, Fault)
    assert (read.outcome.reason, read.outcome.action, read.sent) == (reason, action, sent)
