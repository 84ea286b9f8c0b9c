"""What an error answer says, in any of the forms that providers and gateways use. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

RAW_LENGTH = 4000
"""How much of an error that a gateway passes on is read."""

_ERROR_STATUS = re.compile(r"[45][0-9][0-9]")


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What an error answer says: its message, its codes and types, the parameter it names.

    `headers` are those of the provider behind a gateway, and what else the body says of when to
    come back, as headers. `reply` is what the model answered, where the provider refused that.
    """

    message: str
    code: str
    parameter: str
    headers: Mapping[str, str] = field(default_factory=dict)
    reply: str | None = None

    @property
    def text(self) -> str:
        """Message and code in lower case, for matching."""
        return f"{self.message} {self.code}".lower()


def error_of(data: Mapping[str, Any] | None) -> ErrorBody | None:
    """The error object in a body; None where there is none."""
    error = _error_value(data) if data else None
    if data is None or error is None:
        return None
    if not isinstance(error, dict):
        return ErrorBody(str(error), _code(data), "", _waits_in(data))
    within = _passed_on(error) or ErrorBody("", "", "")
    reply = error.get("failed_generation")
    return ErrorBody(
        " ".join(filter(None, (_message(error) + _filtered(error), within.message))),
        " ".join(filter(None, (_code(error), within.code))),
        str(error.get("param") or within.parameter),
        {**within.headers, **_waits_in(error)},
        reply if isinstance(reply, str) else None,
    )


def _error_value(data: Mapping[str, Any]) -> Any:
    """The error itself: an object or a text; the whole body where its keys stand there."""
    if data.get("error"):
        return data["error"]
    if "choices" in data:
        choices = data["choices"]
        first = choices[0] if isinstance(choices, list) and choices else None
        return (first.get("error") or None) if isinstance(first, dict) else None
    listed = data.get("errors")
    if isinstance(listed, list) and listed:
        return listed[0]
    return data if any(data.get(k) for k in _MESSAGES) else data.get("error")


_MESSAGES = ("message", "detail", "msg")


def _code(error: Mapping[str, Any]) -> str:
    """Codes and types, and Google's reasons and quota ids."""
    codes = [error.get(k) for k in ("code", "type", "error_type", "status")]
    for detail in _details(error):
        violations = detail.get("violations")
        listed = violations if isinstance(violations, list) else []
        codes += [detail.get("reason"), *(v.get("quotaId") for v in listed if isinstance(v, dict))]
    return " ".join(str(c) for c in codes if isinstance(c, str | int) and c != "")


def _message(error: Mapping[str, Any]) -> str:
    return str(next((error[k] for k in _MESSAGES if error.get(k)), ""))


def _passed_on(error: Mapping[str, Any]) -> ErrorBody | None:
    """The error of the provider behind a gateway: in `metadata.raw`, or the message is its JSON."""
    metadata, message = error.get("metadata"), error.get("message")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str) and raw:
        return _parsed(raw) or ErrorBody(raw[:RAW_LENGTH], "", "")
    return _parsed(message) if isinstance(message, str) else None


def _parsed(text: str) -> ErrorBody | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    data = data[0] if isinstance(data, list) and data else data
    inner = data.get("error", data) if isinstance(data, dict) else None
    if not isinstance(inner, dict):
        return None
    return ErrorBody(_message(inner), _code(inner), str(inner.get("param") or ""), _waits_in(inner))


def _filtered(error: Mapping[str, Any]) -> str:
    """The categories for which Azure's filter refused a prompt: ` (jailbreak, violence)`."""
    inner = error.get("innererror")
    result = inner.get("content_filter_result") if isinstance(inner, dict) else None
    if not isinstance(result, dict):
        return ""
    names = [name for name, r in result.items() if isinstance(r, dict) and r.get("filtered")]
    return f" ({', '.join(names)})" if names else ""


def _details(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Google's details of an error."""
    details = error.get("details")
    yield from (d for d in details if isinstance(d, dict)) if isinstance(details, list) else ()


_WAITS = ("retry_after", "retryAfter", "retry_after_seconds", "estimated_time")


def _waits_in(error: Mapping[str, Any]) -> dict[str, str]:
    """When to come back, as headers: those of a gateway's provider, its own figure, or Google's
    RetryInfo."""
    metadata = error.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    headers = metadata.get("headers")
    found = {str(k): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}
    waits = [source.get(name) for source in (error, metadata) for name in _WAITS]
    waits += [_seconds(detail.get("retryDelay")) for detail in _details(error)]
    wait = next((w for w in waits if w), None)
    return found if wait is None else found | {"retry-after": str(wait)}


def _seconds(delay: Any) -> Any:
    """Google's duration: `20.5s`, or an object of seconds."""
    return delay.get("seconds") if isinstance(delay, dict) else delay


def status_within(error: ErrorBody) -> int | None:
    """The true status of an error that came with HTTP 200, None where it says none."""
    words = error.code.split()
    return next((int(word) for word in words if _ERROR_STATUS.fullmatch(word)), None)


def plain_text(body: bytes) -> str:
    """The start of an error page, without its markup."""
    text = re.sub(r"<[^>]*>", " ", body[:2000].decode("utf-8", "replace"))
    return " ".join(text.split())
