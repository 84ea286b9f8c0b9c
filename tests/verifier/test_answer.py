"""What an HTTP answer means: a reply, or a fault and what to do about it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.reasons import FailureReason as R
from verifier.answer import Reply, read_answer
from verifier.fault import Action, Fault, retry_after

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


def test_blank_lines_before_the_body_are_skipped() -> None:
    """Keep-alive lines of a loaded server."""
    body = b"\n\n\n   \n" + json.dumps(message(content="x")).encode()
    assert isinstance(read(200, body), Reply)


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


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 128900 tokens.",
        "the request exceeds the available context size, try increasing it",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Requested token count exceeds the model's maximum context window",
        "Input is too long for requested model: request too large",
    ],
)
def test_context_overflow_in_many_wordings(text: str) -> None:
    """It is about this record alone, and not to be sent again."""
    fault = read(400, error(text, type="invalid_request_error"))
    assert isinstance(fault, Fault)
    assert (fault.action, fault.reason) == (Action.GIVE_UP, R.CONTEXT_LENGTH_EXCEEDED)


def test_a_filtered_prompt() -> None:
    """Azure's 400 is a content filter, not a bad request."""
    fault = read(400, error("The response was filtered", code="content_filter", param="prompt"))
    assert isinstance(fault, Fault)
    assert (fault.action, fault.reason) == (Action.GIVE_UP, R.CONTENT_FILTER)


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        (
            error(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                param="max_tokens",
            ),
            "max_tokens",
        ),
        (
            error(
                "Unsupported value: 'temperature' does not support 0 with this model.",
                param="temperature",
            ),
            "temperature",
        ),
        (error("This response_format type is unavailable now"), "response_format"),
        ({"error": "'response_format.type' must be 'json_schema' or 'text'"}, "response_format"),
        (
            error(
                "'messages' must contain the word 'json' to use 'response_format' of type 'json_object'.",
                param="messages",
            ),
            "response_format",
        ),
        (
            error(
                "Invalid schema for response_format 'verdict': 'additionalProperties' is required"
            ),
            "response_format",
        ),
        (
            error("Request contains an invalid argument.", status="INVALID_ARGUMENT"),
            "response_format",
        ),
    ],
)
def test_refused_parameters_are_named(body: Any, parameter: str) -> None:
    """The fault says what to leave out."""
    fault = read(400, body)
    assert isinstance(fault, Fault)
    assert (fault.action, fault.parameter) == (Action.ADAPT, parameter)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "Thu, 01 Jan 2026 00:00:07 GMT"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"Retry-After": "Wed, 31 Dec 2025 23:00:00 GMT"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "0"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "1e400"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
        ({"retry-after": "86400"}, 86400.0),
        ({"X-RateLimit-Reset": "1767225605000", "X-RateLimit-Remaining": "0"}, 5.0),
        ({"X-RateLimit-Reset": "1767225605"}, 5.0),
        ({"ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-reset-requests": "1m30s", "x-ratelimit-remaining-requests": "0"}, 90.0),
        ({"x-ratelimit-reset-tokens": "20ms", "x-ratelimit-reset-requests": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "7"}, None),
        ({"x-ratelimit-reset-requests": "soon"}, None),
        ({"X-RateLimit-Reset": "1767225500"}, None),
        ({"retry-after": "2", "x-ratelimit-reset-requests": "9s"}, 2.0),
    ],
)
def test_retry_after(headers: dict[str, str], wait: float | None) -> None:
    """Seconds, dates and milliseconds are read; a past date or nonsense asks for no wait."""
    assert retry_after(headers, NOW) == wait


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
