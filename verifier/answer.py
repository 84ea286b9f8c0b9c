"""From an HTTP answer to a model's reply, or to a fault. Pure."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
from msgspec import Struct

from schemas.reasons import FailureReason
from schemas.record import clean
from verifier.error_body import ErrorBody, error_of, plain_text, status_within
from verifier.fault import DETAIL_LENGTH, Action, Fault, read_error
from verifier.usage import read_usage
from verifier.wordings import NO_ROOM


class Reply(Struct, frozen=True):
    """The text that a model answered, and the tokens the provider counted (0: it did not)."""

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
    good = 200 <= status < 300
    if good and data is None:
        return _no_answer(body)
    error = error_of(data)
    if good and error is None:
        return _read_completion(data or {})
    if error is not None and error.reply and not NO_ROOM.search(error.text):
        return Reply(error.reply, None, 0, 0, 0)
    now = now or datetime.now(UTC)
    if not good or error is None:
        return read_error(status, headers, error or ErrorBody(plain_text(body), "", ""), now)
    return _error_in_200(headers, error, now)


def _error_in_200(headers: Mapping[str, str], error: ErrorBody, now: datetime) -> Fault:
    """An error under HTTP 200: as its own status says, else its words, else the server's fault."""
    status = status_within(error)
    fault = read_error(status or 400, headers, error, now)
    vague = fault.action is Action.GIVE_UP and fault.reason is FailureReason.BAD_REQUEST
    return fault if status or not vague else read_error(500, headers, error, now)


def _no_answer(body: bytes) -> Fault:
    if not _unpadded(body):
        return _retry(FailureReason.EMPTY_RESPONSE, "the answer has no body")
    return _retry(FailureReason.PROVIDER_ERROR, f"not JSON: {body[:80]!r}")


def _load(body: bytes) -> dict[str, Any] | None:
    """The JSON object in a body, or in a list of one."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        data = _load_leniently(_unpadded(body))
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    return data if isinstance(data, dict) else None


def _unpadded(body: bytes) -> bytes:
    """A body without what a loaded server sends to keep the connection: blanks and comments."""
    body = body.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n\x00")
    while body.startswith(b":"):
        body = body.partition(b"\n")[2].strip(b" \t\r\n\x00")
    return body


def _load_leniently(body: bytes) -> Any:
    """JSON that is not quite: with NaN, half of a surrogate pair, or padding around it."""
    if not body.startswith((b"{", b"[")):
        return None
    try:
        return clean(json.loads(body, strict=False))
    except (ValueError, RecursionError):
        return None


def _retry(reason: FailureReason, detail: str) -> Fault:
    return Fault(Action.RETRY, reason, detail)


_FINISH_REASONS = {
    **dict.fromkeys(("length", "max_tokens", "model_length"), FailureReason.TRUNCATED),
    **dict.fromkeys(
        (
            "content_filter", "content_filtered", "safety", "recitation", "blocklist", "spii",
            "prohibited_content", "image_safety", "sensitive", "guardrail_intervened",
        ),
        FailureReason.CONTENT_FILTER,
    ),
    "refusal": FailureReason.REFUSAL,
    "model_context_window_exceeded": FailureReason.CONTEXT_LENGTH_EXCEEDED,
}  # fmt: skip
_BROKEN_OFF = {"error", "network_error", "insufficient_system_resource", "abort", "cancelled"}


def _read_completion(data: Mapping[str, Any]) -> Reply | Fault:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return _without_choices(data)
    usage = read_usage(data.get("usage"))
    read = _read_choice(choices[0])
    if isinstance(read, Fault):
        return replace(read, **usage._asdict())
    model = data.get("model")
    return Reply(read, model if isinstance(model, str) else None, *usage)


def _read_choice(choice: Mapping[str, Any]) -> str | Fault:
    """The text of the reply, or why there is none."""
    finish = _finish(choice.get("finish_reason"))
    if finish in _FINISH_REASONS:
        return Fault(Action.GIVE_UP, _FINISH_REASONS[finish], f"finish_reason {finish}")
    if finish in _BROKEN_OFF:
        return _retry(FailureReason.PROVIDER_ERROR, f"finish_reason {finish}")
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    refusal = _refusal(message)
    if refusal:
        return Fault(Action.GIVE_UP, FailureReason.REFUSAL, refusal[:DETAIL_LENGTH])
    text = _text_of(message)
    return text or _retry(FailureReason.EMPTY_RESPONSE, "the message has no content")


def _finish(reason: Any) -> str:
    """`stop`, as `STOP`, `FinishReason.STOP` and `stop: and why` say it, too."""
    if reason == "stop" or not isinstance(reason, str):
        return "stop"
    return reason.lower().removeprefix("finishreason.").partition(":")[0].strip()


def _without_choices(data: Mapping[str, Any]) -> Fault:
    """Google says why it blocked a prompt beside choices that are not there."""
    feedback = data.get("promptFeedback") or data.get("prompt_feedback")
    if isinstance(feedback, dict):
        blocked = feedback.get("blockReason") or feedback.get("block_reason")
        if blocked:
            detail = f"the prompt was blocked: {blocked}"[:DETAIL_LENGTH]
            return Fault(Action.GIVE_UP, FailureReason.CONTENT_FILTER, detail)
    return _retry(FailureReason.EMPTY_RESPONSE, "the answer has no choices")


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
