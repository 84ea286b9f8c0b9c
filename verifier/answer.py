"""From an HTTP answer to a model's reply, or to a fault. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from schemas.reasons import FailureReason
from verifier.fault import (
    DETAIL_LENGTH,
    Action,
    ErrorBody,
    Fault,
    error_of,
    plain_text,
    read_error,
    status_within,
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The text that a model answered, and the tokens the provider counted."""

    text: str
    model: str | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


def read_answer(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime | None = None
) -> Reply | Fault:
    """The reply in an HTTP answer, or its fault. `headers` are case-insensitive.

    A date in Retry-After is taken from `now`, the present unless given.
    """
    data = _load(body)
    if status == 200 and data is None:
        if not body.strip() or body.lstrip().startswith(b":"):
            return _retry(FailureReason.EMPTY_RESPONSE, "the answer has no body")
        return _retry(FailureReason.PROVIDER_ERROR, f"not JSON: {body[:80]!r}")
    error = error_of(data)
    if status == 200 and error is None:
        return _read_completion(data or {})
    if status == 200:
        status = status_within(error)
    return read_error(
        status, headers, error or ErrorBody(plain_text(body), "", ""), now or datetime.now(UTC)
    )


def _load(body: bytes) -> dict[str, Any] | None:
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    return data if isinstance(data, dict) else None


def _retry(reason: FailureReason, detail: str) -> Fault:
    return Fault(Action.RETRY, reason, detail)


_FINISH_REASONS = {
    "length": FailureReason.TRUNCATED,
    "max_tokens": FailureReason.TRUNCATED,
    "model_length": FailureReason.TRUNCATED,
    "content_filter": FailureReason.CONTENT_FILTER,
    "safety": FailureReason.CONTENT_FILTER,
    "recitation": FailureReason.CONTENT_FILTER,
    "blocklist": FailureReason.CONTENT_FILTER,
    "prohibited_content": FailureReason.CONTENT_FILTER,
    "spii": FailureReason.CONTENT_FILTER,
    "refusal": FailureReason.REFUSAL,
}


def _read_completion(data: Mapping[str, Any]) -> Reply | Fault:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return _retry(FailureReason.EMPTY_RESPONSE, "the answer has no choices")
    choice = choices[0]
    finish = str(choice.get("finish_reason") or "").lower()
    if finish in _FINISH_REASONS:
        return Fault(Action.GIVE_UP, _FINISH_REASONS[finish], f"finish_reason {finish}")
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    refusal = _refusal(message)
    if refusal:
        return Fault(Action.GIVE_UP, FailureReason.REFUSAL, refusal[:DETAIL_LENGTH])
    text = _text_of(message)
    if not text:
        return _retry(FailureReason.EMPTY_RESPONSE, "the message has no content")
    usage = data.get("usage")
    return _with_usage(text, data.get("model"), usage if isinstance(usage, dict) else {})


def _with_usage(text: str, model: object, usage: Mapping[str, Any]) -> Reply:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Reply(
        text=text,
        model=model if isinstance(model, str) else None,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(cached),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [p for p in content if isinstance(p, dict)] if isinstance(content, list) else []


def _refusal(message: Mapping[str, Any]) -> str | None:
    if message.get("refusal") is None and isinstance(message.get("content"), str):
        return None
    found = [message.get("refusal"), *(p.get("refusal") for p in _parts(message))]
    return next((r for r in found if isinstance(r, str) and r), None)


def _text_of(message: Mapping[str, Any]) -> str:
    """The content; where it is blank, tool-call arguments, else the reasoning field."""
    content = message.get("content")
    if isinstance(content, str) and content and not content.isspace():
        return content
    if not isinstance(content, str):
        texts = (p.get("text") for p in _parts(message) if p.get("type") in {"text", "output_text"})
        content = "".join(t for t in texts if isinstance(t, str))
    others = (_arguments(message), message.get("reasoning_content"), message.get("reasoning"))
    return next((t for t in (content, *others) if isinstance(t, str) and t.strip()), "")


def _arguments(message: Mapping[str, Any]) -> str | None:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls and isinstance(calls[0], dict):
        function = calls[0].get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        return arguments if isinstance(arguments, str) else None
    return None
