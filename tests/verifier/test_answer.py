"""What an HTTP answer means: a reply, or a fault and what to do about it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.reasons import FailureReason as R
from verifier.answer import Reply, read_answer
from verifier.fault import Action, Fault

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def read(status: int, body: Any, **headers: str) -> Reply | Fault:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(status, {k.replace("_", "-"): v for k, v in headers.items()}, raw, NOW)


def message(finish_reason: str | None = "stop", **values: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": finish_reason, "message": values}]}


def error(text: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": text, **more}}


def test_a_reply_with_its_usage() -> None:
    """Text, the model that answered, and all three token counts."""
    body = message(content="hello") | {
        "model": "m-2024",
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 5},
        },
    }
    assert read(200, body) == Reply("hello", "m-2024", 7, 3, 5)


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": None}, "n/a", {"prompt_tokens_details": None}]
)
def test_usage_may_be_missing(usage: Any) -> None:
    """A server that counts nothing costs no verdict."""
    assert read(200, message(content="x") | {"usage": usage}) == Reply("x", None, 0, 0, 0)


@pytest.mark.parametrize(
    "values",
    [
        {"content": "verdict"},
        {"content": [{"type": "text", "text": "ver"}, {"type": "text", "text": "dict"}]},
        {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "verdict"}]},
        {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "verdict"}}]},
        {"content": None, "reasoning_content": "verdict"},
        {"content": "  ", "reasoning": "verdict"},
        {"content": "verdict", "reasoning_content": "draft"},
        {"content": "verdict", "refusal": None},
    ],
)
def test_where_the_text_may_stand(values: dict[str, Any]) -> None:
    """Content, its text parts, tool-call arguments, or the reasoning field, in that order."""
    reply = read(200, message(**values))
    assert isinstance(reply, Reply)
    assert reply.text == "verdict"


GOOD = json.dumps(message(content="x")).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"\n\n\n   \n" + GOOD,
        GOOD + b"\n\n \n",
        b"\r\n" * 5000 + GOOD,
        b"\xef\xbb\xbf" + GOOD,
        b"\x00\x00" + GOOD + b"\x00",
        b": keep-alive\n\n: keep-alive\n\n" + GOOD,
        b"[" + GOOD + b"]",
    ],
)
def test_padding_around_a_body_is_skipped(body: bytes) -> None:
    """Blank lines, comments and marks that a loaded server or a proxy puts around an answer."""
    assert read(200, body) == Reply("x", None, 0, 0, 0)


@pytest.mark.parametrize("status", [200, 201, 202, 203])
def test_any_success_may_hold_a_reply(status: int) -> None:
    """A gateway's 202 is as good as a 200; without a reply it is as empty."""
    assert read(status, message(content="x")) == Reply("x", None, 0, 0, 0)
    empty = read(status, {"status": "queued"})
    assert isinstance(empty, Fault)
    assert (empty.action, empty.reason) == (Action.RETRY, R.EMPTY_RESPONSE)


def test_json_that_is_not_quite_json() -> None:
    """NaN among the counts, and half of a surrogate pair in the text, cost no reply."""
    body = b'{"choices": [{"message": {"content": "a\\ud83d"}}], "usage": {"prompt_tokens": NaN}}'
    assert read(200, body) == Reply("a\\ud83d", None, 0, 0, 0)


@pytest.mark.parametrize(
    ("status", "body", "action", "reason"),
    [
        (200, b"", Action.RETRY, R.EMPTY_RESPONSE),
        (200, b"\n\n\n", Action.RETRY, R.EMPTY_RESPONSE),
        (200, b": keep-alive\n\n: keep-alive\n\n", Action.RETRY, R.EMPTY_RESPONSE),
        (200, {"choices": []}, Action.RETRY, R.EMPTY_RESPONSE),
        (200, {"choices": None}, Action.RETRY, R.EMPTY_RESPONSE),
        (200, {"choices": ["text"]}, Action.RETRY, R.EMPTY_RESPONSE),
        (200, {"choices": [{"message": "text"}]}, Action.RETRY, R.EMPTY_RESPONSE),
        (200, message(content=[{"type": "thinking"}, "x"]), Action.RETRY, R.EMPTY_RESPONSE),
        (200, message(content=None, tool_calls=[{}]), Action.RETRY, R.EMPTY_RESPONSE),
        (200, {}, Action.RETRY, R.EMPTY_RESPONSE),
        (200, message(), Action.RETRY, R.EMPTY_RESPONSE),
        (200, message(content=""), Action.RETRY, R.EMPTY_RESPONSE),
        (200, b"<html>busy</html>", Action.RETRY, R.PROVIDER_ERROR),
        (200, b'{"choices": [', Action.RETRY, R.PROVIDER_ERROR),
        (
            200,
            {"choices": [{"finish_reason": "SAFETY", "message": None}]},
            Action.GIVE_UP,
            R.CONTENT_FILTER,
        ),
        (200, message("RECITATION"), Action.GIVE_UP, R.CONTENT_FILTER),
        (200, message("content_filter", content='{"a'), Action.GIVE_UP, R.CONTENT_FILTER),
        (200, message("length", content='{"a'), Action.GIVE_UP, R.TRUNCATED),
        (200, message("MAX_TOKENS", content='{"a'), Action.GIVE_UP, R.TRUNCATED),
        (200, message("length", content=None, reasoning="{}"), Action.GIVE_UP, R.TRUNCATED),
        (200, message("SAFETY", content=None, reasoning="{}"), Action.GIVE_UP, R.CONTENT_FILTER),
        (200, message("PROHIBITED_CONTENT"), Action.GIVE_UP, R.CONTENT_FILTER),
        (200, message("refusal", content="No."), Action.GIVE_UP, R.REFUSAL),
        (200, message(content=None, refusal="I can't."), Action.GIVE_UP, R.REFUSAL),
        (200, message(content="", refusal="I can't."), Action.GIVE_UP, R.REFUSAL),
        (200, message(content=[{"type": "refusal", "refusal": "No."}]), Action.GIVE_UP, R.REFUSAL),
        (200, error("Rate limit exceeded", code=429), Action.RETRY, R.RATE_LIMITED),
        (200, error("Provider returned error", code=502), Action.RETRY, R.PROVIDER_ERROR),
        (200, error("No auth credentials found", code=401), Action.STOP, R.AUTH),
        (200, {"error": "model is loading"}, Action.RETRY, R.PROVIDER_ERROR),
        (429, error("slow down", code="rate_limit_exceeded"), Action.RETRY, R.RATE_LIMITED),
        (
            429,
            error("You exceeded your current quota", code="insufficient_quota"),
            Action.STOP,
            R.QUOTA_EXHAUSTED,
        ),
        (402, error("Payment required, add credits"), Action.STOP, R.QUOTA_EXHAUSTED),
        (500, b"<html>oops</html>", Action.RETRY, R.PROVIDER_ERROR),
        (502, b"<html><h1>502 Bad Gateway</h1></html>", Action.RETRY, R.PROVIDER_ERROR),
        (524, b"\xff\xfe", Action.RETRY, R.PROVIDER_ERROR),
        (503, {}, Action.RETRY, R.PROVIDER_ERROR),
        (529, error("overloaded"), Action.RETRY, R.PROVIDER_ERROR),
        (408, {}, Action.RETRY, R.PROVIDER_ERROR),
        (401, error("Incorrect API key provided"), Action.STOP, R.AUTH),
        (403, error("forbidden"), Action.FORBIDDEN, R.AUTH),
        (404, error("Resource not found"), Action.STOP, R.BAD_REQUEST),
        (301, b"", Action.STOP, R.BAD_REQUEST),
        (413, b"too large", Action.GIVE_UP, R.CONTEXT_LENGTH_EXCEEDED),
        (400, error("bad request"), Action.GIVE_UP, R.BAD_REQUEST),
        (422, {"detail": "nope"}, Action.GIVE_UP, R.BAD_REQUEST),
        (400, [error("bad request")], Action.GIVE_UP, R.BAD_REQUEST),
    ],
)
def test_faults(status: int, body: Any, action: Action, reason: R) -> None:
    """Every way to fail has one action and one reason."""
    fault = read(status, body)
    assert isinstance(fault, Fault)
    assert (fault.action, fault.reason) == (action, reason)


@pytest.mark.parametrize("status", [429, 503])
def test_the_wait_comes_with_the_fault(status: int) -> None:
    """Rate limits and overload both say when to return."""
    fault = read(status, {}, Retry_After="3")
    assert isinstance(fault, Fault)
    assert fault.wait == 3.0


def test_a_gateways_wait_stands_in_the_body() -> None:
    """An error under HTTP 200 with the provider's headers in it."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225605000"}
    fault = read(200, error("Rate limit exceeded", code=429, metadata={"headers": headers}))
    assert isinstance(fault, Fault)
    assert (fault.reason, fault.wait) == (R.RATE_LIMITED, 5.0)


def test_details_are_short_and_plain() -> None:
    """An error page's text without its markup, cut."""
    fault = read(500, b"<html><h1>Bad</h1> gateway" + b"x" * 5000)
    assert isinstance(fault, Fault)
    assert fault.detail.startswith("HTTP 500: Bad gateway")
    assert len(fault.detail) <= 300


@pytest.mark.parametrize(
    ("finish", "action", "reason"),
    [
        ("length", Action.GIVE_UP, R.TRUNCATED),
        ("MAX_TOKENS", Action.GIVE_UP, R.TRUNCATED),
        ("model_length", Action.GIVE_UP, R.TRUNCATED),
        ("FinishReason.MAX_TOKENS", Action.GIVE_UP, R.TRUNCATED),
        ("content_filter", Action.GIVE_UP, R.CONTENT_FILTER),
        ("content_filter: RECITATION", Action.GIVE_UP, R.CONTENT_FILTER),
        ("content_filtered", Action.GIVE_UP, R.CONTENT_FILTER),
        ("SAFETY", Action.GIVE_UP, R.CONTENT_FILTER),
        ("IMAGE_SAFETY", Action.GIVE_UP, R.CONTENT_FILTER),
        ("BLOCKLIST", Action.GIVE_UP, R.CONTENT_FILTER),
        ("SPII", Action.GIVE_UP, R.CONTENT_FILTER),
        ("sensitive", Action.GIVE_UP, R.CONTENT_FILTER),
        ("guardrail_intervened", Action.GIVE_UP, R.CONTENT_FILTER),
        ("refusal", Action.GIVE_UP, R.REFUSAL),
        ("model_context_window_exceeded", Action.GIVE_UP, R.CONTEXT_LENGTH_EXCEEDED),
        ("error", Action.RETRY, R.PROVIDER_ERROR),
        ("network_error", Action.RETRY, R.PROVIDER_ERROR),
        ("insufficient_system_resource", Action.RETRY, R.PROVIDER_ERROR),
        ("abort", Action.RETRY, R.PROVIDER_ERROR),
    ],
)
@pytest.mark.parametrize("content", ['{"a": {"explanation": "ok", "score": 90}}', '{"a', None])
def test_how_a_reply_ended(finish: str, action: Action, reason: R, content: str | None) -> None:
    """What did not end by itself is no reply, however whole it looks."""
    fault = read(200, message(finish, content=content))
    assert isinstance(fault, Fault)
    assert (fault.action, fault.reason) == (action, reason)


@pytest.mark.parametrize(
    "finish", ["stop", "STOP", "FinishReason.STOP", "eos", "end_turn", "tool_calls", "", None, 1]
)
def test_a_reply_that_ended_by_itself(finish: Any) -> None:
    """As each provider calls it, or does not."""
    assert read(200, message(finish, content="x")) == Reply("x", None, 0, 0, 0)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 3}, (9, 3, 0)),
        ({"input_tokens": 9, "output_tokens": 3}, (9, 3, 0)),
        ({"prompt_tokens": 9.0, "completion_tokens": 3.5}, (9, 0, 0)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}, (9, 0, 8)),
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 8}}, (9, 0, 8)),
        ({"prompt_tokens": 9, "cached_tokens": 8}, (9, 0, 8)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 8}, (9, 0, 8)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {}, "cache_read_input_tokens": 8},
            (9, 0, 8),
        ),
        ({"prompt_tokens": 2, "cache_read_input_tokens": 8}, (10, 0, 8)),
        ({"prompt_tokens": -9, "completion_tokens": True}, (0, 0, 0)),
        ({"prompt_tokens": "9", "prompt_tokens_details": "8"}, (0, 0, 0)),
        ([9], (0, 0, 0)),
    ],
)
def test_tokens_are_counted_in_many_ways(usage: Any, counts: tuple[int, int, int]) -> None:
    """Prompt, completion and cached; the prompt's count is that of the whole prompt."""
    assert read(200, message(content="x") | {"usage": usage}) == Reply("x", None, *counts)


@pytest.mark.parametrize(
    ("body", "action", "reason"),
    [
        (error("Provider returned error", code=502), Action.RETRY, R.PROVIDER_ERROR),
        (error("Provider returned error", code="502"), Action.RETRY, R.PROVIDER_ERROR),
        ({"error": "model is loading"}, Action.RETRY, R.PROVIDER_ERROR),
        ({"error": {"code": 429}, "choices": []}, Action.RETRY, R.RATE_LIMITED),
        ({"message": "no", "code": 401}, Action.STOP, R.AUTH),
        ({"msg": "no", "code": 429, "success": False}, Action.RETRY, R.RATE_LIMITED),
        ({"errors": [{"message": "no", "code": 429}]}, Action.RETRY, R.RATE_LIMITED),
        ({"detail": "Something went wrong"}, Action.RETRY, R.PROVIDER_ERROR),
        (error("An unknown error"), Action.RETRY, R.PROVIDER_ERROR),
        (error("Bad", code=400), Action.GIVE_UP, R.BAD_REQUEST),
        (
            message("error", content="{") | {"choices": [{"error": {"code": 429, "message": "m"}}]},
            Action.RETRY,
            R.RATE_LIMITED,
        ),
        (
            {"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "lost"}}]},
            Action.RETRY,
            R.PROVIDER_ERROR,
        ),
        ({"promptFeedback": {"blockReason": "OTHER"}}, Action.GIVE_UP, R.CONTENT_FILTER),
        (
            {"choices": [], "prompt_feedback": {"block_reason": "SAFETY"}},
            Action.GIVE_UP,
            R.CONTENT_FILTER,
        ),
        ({"choices": [], "promptFeedback": {}}, Action.RETRY, R.EMPTY_RESPONSE),
    ],
)
def test_an_error_under_200(body: Any, action: Action, reason: R) -> None:
    """By its own status, else by its words, else the server's fault; never a missing key."""
    fault = read(200, body)
    assert isinstance(fault, Fault)
    assert (fault.action, fault.reason) == (action, reason)


def test_a_reply_that_the_provider_refused_is_read_all_the_same() -> None:
    """It is paid for, and may be good enough; what was cut off is not."""
    body = error(
        "Failed to validate JSON", code="json_validate_failed", failed_generation="{'a': 1}"
    )
    assert read(400, body) == Reply("{'a': 1}", None, 0, 0, 0)
    cut = error("max completion tokens reached", code="json_validate_failed", failed_generation="{")
    fault = read(400, cut)
    assert isinstance(fault, Fault)
    assert fault.reason is R.TRUNCATED
