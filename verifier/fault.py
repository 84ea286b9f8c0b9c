"""Faults of verifier calls: what an HTTP error means and what to do about it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from schemas.reasons import FailureReason

DETAIL_LENGTH = 300


class Action(StrEnum):
    """What a fault calls for."""

    RETRY = "retry"
    ADAPT = "adapt"
    GIVE_UP = "give_up"
    STOP = "stop"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no reply. `wait` is what the server asked for, in seconds; `parameter` is
    what it refused."""

    action: Action
    reason: FailureReason
    detail: str
    wait: float | None = None
    parameter: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What an error answer says: its message, its codes and types, the parameter it names.

    `headers` are those of the provider behind a gateway, which reports them in the body.
    """

    message: str
    code: str
    parameter: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Message and code in lower case, for matching."""
        return f"{self.message} {self.code}".lower()


def error_of(data: Mapping[str, Any] | None) -> ErrorBody | None:
    """The error object in a body, in any of the forms that providers use."""
    if not data or ("choices" in data and not data.get("error")):
        return None
    error = data.get("error")
    if error is None and not any(k in data for k in ("message", "detail")):
        return None
    if isinstance(error, dict):
        codes = (error.get("code"), error.get("type"), error.get("status"))
        code = " ".join(str(c) for c in codes if c not in (None, ""))
        return ErrorBody(
            str(error.get("message") or "") + _filtered(error),
            code,
            str(error.get("param") or ""),
            _headers_within(error),
        )
    text = error or data.get("message") or data.get("detail")
    return ErrorBody(str(text), str(data.get("code") or ""), "")


def _filtered(error: Mapping[str, Any]) -> str:
    """The categories for which Azure's filter refused a prompt: ` (jailbreak, violence)`."""
    inner = error.get("innererror")
    result = inner.get("content_filter_result") if isinstance(inner, dict) else None
    if not isinstance(result, dict):
        return ""
    names = [name for name, r in result.items() if isinstance(r, dict) and r.get("filtered")]
    return f" ({', '.join(names)})" if names else ""


def _headers_within(error: Mapping[str, Any]) -> dict[str, str]:
    """A gateway's report of its provider's headers; Google's RetryInfo as one of them."""
    metadata, details = error.get("metadata"), error.get("details")
    headers = metadata.get("headers") if isinstance(metadata, dict) else None
    found = {str(k): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and "retryDelay" in detail:
            found["ratelimit-reset"] = str(detail["retryDelay"])
    return found


def status_within(error: ErrorBody | None) -> int:
    """The true status of an error that came with HTTP 200."""
    words = (error.code if error else "").split()
    return next((int(word) for word in words if _ERROR_STATUS.fullmatch(word)), 500)


def plain_text(body: bytes) -> str:
    """The start of an error page, without its markup."""
    text = re.sub(r"<[^>]*>", " ", body[:2000].decode("utf-8", "replace"))
    return " ".join(text.split())


_CONTEXT = re.compile(
    r"context.{0,12}(?:length|window|size)|maximum.{0,20}tokens|too many (?:input )?tokens|"
    r"(?:prompt|input|request).{0,20}too (?:long|large)|exceeds?.{0,30}(?:token|context)",
    re.DOTALL,
)
_ERROR_STATUS = re.compile(r"[45][0-9][0-9]")
_QUOTA = re.compile(r"exceeded your current quota|billing|credit|payment")
_RATE_LIMIT = re.compile(r"rate_limit_exceeded|rate limit reached")
_FILTER = re.compile(r"content_filter|content management policy|responsibleaipolicy|was filtered")
_PARAMETERS = (
    ("response_format", re.compile(r"response_format|json_schema|json_object|guided|grammar")),
    ("max_completion_tokens", re.compile(r"'max_completion_tokens' is not|max_completion_tokens:")),
    ("max_tokens", re.compile(r"max_tokens")),
    ("temperature", re.compile(r"temperature")),
    ("response_format", re.compile(r"schema|invalid_argument|invalid argument")),
)


_BY_STATUS: tuple[tuple[frozenset[int], Action, FailureReason], ...] = (
    (frozenset({429}), Action.RETRY, FailureReason.RATE_LIMITED),
    (frozenset({408, 409, 425, *range(500, 600)}), Action.RETRY, FailureReason.PROVIDER_ERROR),
    (frozenset({401}), Action.STOP, FailureReason.AUTH),
    (frozenset({403}), Action.FORBIDDEN, FailureReason.AUTH),
    (frozenset({404, 405, *range(300, 400)}), Action.STOP, FailureReason.BAD_REQUEST),
)


def read_error(status: int, headers: Mapping[str, str], error: ErrorBody, now: datetime) -> Fault:
    """The fault that an HTTP error answer stands for."""
    detail = f"HTTP {status}: {error.message or error.code}"[:DETAIL_LENGTH]
    if _quota_is_spent(status, error, now):
        return Fault(Action.STOP, FailureReason.QUOTA_EXHAUSTED, detail)
    for statuses, action, reason in _BY_STATUS:
        if status in statuses and action is Action.RETRY:
            return _passing(status, headers, error, reason, now)
        if status in statuses:
            return Fault(action, reason, detail)
    return _refused_request(status, error, detail)


def _quota_is_spent(status: int, error: ErrorBody, now: datetime) -> bool:
    """Whether the account is out of credit. Rate limits speak of billing too, as the remedy;
    but they name themselves, or say when to come back."""
    if status == 402 or (status in {403, 429} and "insufficient_quota" in error.text):
        return True
    if status not in {403, 429} or not _QUOTA.search(error.text):
        return False
    return not _RATE_LIMIT.search(error.text) and retry_after(error.headers, now) is None


def _passing(
    status: int, headers: Mapping[str, str], error: ErrorBody, reason: FailureReason, now: datetime
) -> Fault:
    """A fault that may pass, with the wait that was asked for."""
    wait = retry_after(headers, now) or retry_after(error.headers, now)
    asks = f", asks to wait {wait:.12g} s" if wait else ""
    detail = f"HTTP {status}{asks}: {error.message or error.code}"[:DETAIL_LENGTH]
    return Fault(Action.RETRY, reason, detail, wait)


def _refused_request(status: int, error: ErrorBody, detail: str) -> Fault:
    """A 4xx about this one request: too long, filtered, a parameter refused, or plain wrong."""
    if status == 413 or _CONTEXT.search(error.text):
        return Fault(Action.GIVE_UP, FailureReason.CONTEXT_LENGTH_EXCEEDED, detail)
    if _FILTER.search(error.text):
        return Fault(Action.GIVE_UP, FailureReason.CONTENT_FILTER, detail)
    text = f"{error.parameter.lower()} {error.text}"
    parameter = next((name for name, pattern in _PARAMETERS if pattern.search(text)), None)
    action = Action.ADAPT if parameter else Action.GIVE_UP
    return Fault(action, FailureReason.BAD_REQUEST, detail, parameter=parameter)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The wait that an answer's headers ask for, in seconds, None if none.

    From `retry-after-ms`, else `Retry-After` (seconds or a date), else the longest of the
    rate-limit resets that are exhausted.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    milliseconds = _number(lowered.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = lowered.get("retry-after")
    seconds = _number(text)
    if seconds is None:
        seconds = _seconds_until(text, now)
    return seconds if seconds is not None else _reset(lowered, now)


_RESET = re.compile(r"(?:x-)?ratelimit-reset(-requests|-tokens)?")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_EPOCH_S, _EPOCH_MS = 1e9, 1e12


def _reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """The longest wait for a limit of which nothing remains."""
    waits = []
    for name, value in headers.items():
        match = _RESET.fullmatch(name)
        if match and headers.get(name.replace("reset", "remaining"), "0").strip() == "0":
            waits.append(_reset_seconds(value.strip(), now))
    return max((wait for wait in waits if wait is not None and wait > 0), default=None)


def _reset_seconds(text: str, now: datetime) -> float | None:
    """`12`, `1m30s`, `20ms`, or a moment since 1970 in seconds or milliseconds."""
    number = _number(text)
    if number is None:
        match = _DURATION.fullmatch(text)
        hours, minutes, seconds, ms = (float(g or 0) for g in match.groups()) if match else [0] * 4
        return hours * 3600 + minutes * 60 + seconds + ms / 1000 or None
    if number >= _EPOCH_MS:
        return number / 1000 - now.timestamp()
    return number - now.timestamp() if number >= _EPOCH_S else number


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < float("inf") else None


def _seconds_until(text: str | None, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text) if text else None
    except (ValueError, TypeError, OverflowError):
        return None
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    wait = (moment - now).total_seconds()
    return wait if wait > 0 else None
