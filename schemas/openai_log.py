"""Logged OpenAI chat requests and responses as record values.

A line holds a request and its response, under `request` and `response`; or, in the forms of the
provider's batch files, only one of the two under a `custom_id`, to be joined.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.errors import RecordError
from schemas.reasons import FailureReason
from schemas.record import invalid


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response; one of them may still be missing."""

    key: str | None
    request: Mapping[str, Any] | None
    response: Mapping[str, Any] | None
    extra: Mapping[str, Any]

    @property
    def complete(self) -> bool:
        """Whether nothing has to be joined."""
        return self.request is not None and self.response is not None


def read_exchange(line: Mapping[str, Any]) -> Exchange:
    """The exchange in a logged line. Raises RecordError for a line of no known form."""
    request = _object(line, "request") or _object(line, "body")
    response = _object(line, "response")
    error = line.get("error")
    if response is not None and "body" in response:
        _check_status(response, error)
        response = _object(response, "body")
    elif response is None and error:
        raise RecordError(FailureReason.PROVIDER_ERROR, f"the request failed: {error}"[:300])
    if request is None and response is None:
        raise invalid("the line has no request and no response")
    key = line.get("custom_id")
    known = {"request", "body", "response", "error", "custom_id", "id", "method", "url"}
    extra = {k: v for k, v in line.items() if k not in known}
    return Exchange(_key(line, key), request, response, extra)


def _key(line: Mapping[str, Any], custom_id: Any) -> str | None:
    key = custom_id if custom_id is not None else line.get("id")
    return None if key is None else str(key)


def _object(values: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = values.get(name)
    return value if isinstance(value, Mapping) else None


def _check_status(response: Mapping[str, Any], error: Any) -> None:
    status = response.get("status_code", 200)
    if status != 200 or error:
        text = f"the request failed with status {status}: {error or response.get('body')}"
        raise RecordError(FailureReason.PROVIDER_ERROR, text[:300])


def join(one: Exchange, other: Exchange) -> Exchange:
    """Two halves of one exchange."""
    return Exchange(
        one.key,
        one.request or other.request,
        one.response or other.response,
        {**one.extra, **other.extra},
    )


def exchange_values(exchange: Exchange) -> dict[str, Any]:
    """The record values of a complete exchange. Raises RecordError when it answers nothing."""
    if exchange.request is None or exchange.response is None:
        missing = "request" if exchange.request is None else "response"
        raise invalid(f"there is no {missing} for {exchange.key!r}")
    response = exchange.response
    choice = _choice(response)
    values = {
        "id": exchange.key or response.get("id"),
        "messages": exchange.request.get("messages"),
        "json_schema": _schema(exchange.request),
        "output": completion_output(response),
        "logprobs": _logprobs(choice),
        "generator": response.get("model") or exchange.request.get("model"),
        **exchange.extra,
    }
    return {key: value for key, value in values.items() if value is not None}


def completion_output(response: Mapping[str, Any]) -> str:
    """The structured output of a chat completion. Raises RecordError when it holds none."""
    choice = _choice(response)
    message = _object(choice, "message") or {}
    if message.get("refusal"):
        raise RecordError(
            FailureReason.REFUSAL, f"the generator refused: {message['refusal']}"[:300]
        )
    text = _content(message)
    if not text:
        reason = choice.get("finish_reason")
        raise RecordError(FailureReason.EMPTY_OUTPUT, f"the response has no content ({reason})")
    if choice.get("finish_reason") == "length":
        raise RecordError(FailureReason.TRUNCATED, "the generator's output was cut off")
    return text


def _choice(response: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise invalid("the response has no choices")
    return choices[0]


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = (p.get("text") for p in content if isinstance(p, Mapping))
        content = "".join(t for t in parts if isinstance(t, str))
    if not content and isinstance(message.get("tool_calls"), list):
        for call in message["tool_calls"][:1]:
            content = (_object(call, "function") or {}).get("arguments")
    return content if isinstance(content, str) else ""


def _schema(request: Mapping[str, Any]) -> Any:
    """The schema of the response format; plain JSON mode has none."""
    wanted = _object(request, "response_format") or {}
    return wanted if wanted.get("type") == "json_schema" else None


def _logprobs(choice: Mapping[str, Any]) -> list[float] | None:
    content = (_object(choice, "logprobs") or {}).get("content")
    if not isinstance(content, list):
        return None
    return [t["logprob"] for t in content if isinstance(t, Mapping) and "logprob" in t]
