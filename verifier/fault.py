"""Faults of verifier calls: what an HTTP error means and what to do about it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.reasons import FailureReason
from verifier import wordings
from verifier.error_body import ErrorBody
from verifier.retry_after import retry_after

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
    what it refused.

    `unsure` says that `parameter` is a guess, to be given up for this call alone; `overload` that
    the server has more to do than it can. What the model refused, or was cut off in, took tokens.
    """

    action: Action
    reason: FailureReason
    detail: str
    wait: float | None = None
    parameter: str | None = None
    unsure: bool = False
    overload: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


_STOPS = {
    401: FailureReason.AUTH,
    407: FailureReason.AUTH,
    **dict.fromkeys((*range(300, 400), 404, 405, 410), FailureReason.BAD_REQUEST),
}
_PASSING = {408, 409, 421, 424, 425, 460, 498, 499, *range(500, 600)}
_OVERLOAD = {429, 498, 503, 529}


def read_error(status: int, headers: Mapping[str, str], error: ErrorBody, now: datetime) -> Fault:
    """The fault that an HTTP error answer stands for."""
    for read in (_refused_format, _of_the_run, _of_the_moment):
        fault = read(status, headers, error, now)
        if fault is not None:
            return fault
    return _refused_request(status, error)


def _refused_format(
    status: int, _headers: Mapping[str, str], error: ErrorBody, _now: datetime
) -> Fault | None:
    """A refused reply schema. It is looked for first: the message may quote fields of any name."""
    if status not in {400, 422, 500, 501} or wordings.NOT_VALIDATED.search(error.text):
        return None
    named = wordings.parameter_named(error.parameter) == "response_format"
    if named or wordings.FORMAT_SURE.search(error.text):
        return _adapt("response_format", detail_of(status, error))
    return None


def _of_the_run(
    status: int, headers: Mapping[str, str], error: ErrorBody, now: datetime
) -> Fault | None:
    """A fault that every record would meet."""
    detail = detail_of(status, error)
    if _quota_is_spent(status, headers, error, now):
        return Fault(Action.STOP, FailureReason.QUOTA_EXHAUSTED, detail)
    if status in {400, 403}:
        if wordings.BAD_KEY.search(error.text):
            return Fault(Action.STOP, FailureReason.AUTH, detail)
        if wordings.NO_MODEL.search(error.text):
            return Fault(Action.STOP, FailureReason.BAD_REQUEST, detail)
    if status == 403 and not wordings.FILTER.search(error.text):
        return Fault(Action.FORBIDDEN, FailureReason.AUTH, detail)
    reason = _STOPS.get(status)
    return Fault(Action.STOP, reason, detail) if reason else None


def _quota_is_spent(
    status: int, headers: Mapping[str, str], error: ErrorBody, now: datetime
) -> bool:
    """Whether the account is out of credit. Rate limits speak of billing too, as the remedy;
    but they name themselves, or say when to come back."""
    if status == 402 or wordings.QUOTA_SPENT.search(error.text):
        return True
    if status not in {403, 429} or not wordings.QUOTA_HINT.search(error.text):
        return False
    named = wordings.RATE_LIMIT.search(error.text)
    return named is None and retry_after({**headers, **error.headers}, now, error.message) is None


def _of_the_moment(
    status: int, headers: Mapping[str, str], error: ErrorBody, now: datetime
) -> Fault | None:
    """A fault that may pass, with the wait that was asked for."""
    limited = status in {429, 498} or (status == 400 and wordings.RATE_LIMIT.search(error.text))
    overload = status in _OVERLOAD or bool(wordings.OVERLOADED.search(error.text))
    if not limited and not (status == 400 and overload) and status not in _PASSING:
        return None
    if _too_long(status, error):
        return Fault(
            Action.GIVE_UP, FailureReason.CONTEXT_LENGTH_EXCEEDED, detail_of(status, error)
        )
    wait = retry_after(headers, now) or retry_after(error.headers, now, error.message)
    asks = f", asks to wait {wait:.12g} s" if wait else ""
    reason = FailureReason.RATE_LIMITED if limited else FailureReason.PROVIDER_ERROR
    detail = detail_of(status, error, asks)
    return Fault(Action.RETRY, reason, detail, wait, overload=bool(limited) or overload)


def _too_long(status: int, error: ErrorBody) -> bool:
    """Whether the one request is too much, however long it waits."""
    if status == 429:
        return wordings.TOO_LARGE_FOR_RATE.search(error.text) is not None
    return status == 500 and wordings.CONTEXT.search(error.text) is not None


def _refused_request(status: int, error: ErrorBody) -> Fault:
    """A 4xx about this one request: too long, filtered, a parameter refused, or plain wrong."""
    detail, text = detail_of(status, error), error.text
    parameter = wordings.parameter_named(error.parameter) or wordings.parameter_in(text)
    reason = _of_the_record(status, text)
    if parameter and (reason is None or wordings.too_much_room(text)):
        return _adapt(parameter, detail)
    if reason is None and wordings.NO_CAUSE.search(text):
        return _adapt("response_format", detail, unsure=True)
    return Fault(Action.GIVE_UP, reason or FailureReason.BAD_REQUEST, detail)


def _of_the_record(status: int, text: str) -> FailureReason | None:
    """What is wrong with the record itself, or with what the model made of it."""
    if wordings.NOT_VALIDATED.search(text):
        cut = wordings.NO_ROOM.search(text)
        return FailureReason.TRUNCATED if cut else FailureReason.UNPARSEABLE
    if status == 413 or wordings.CONTEXT.search(text):
        return FailureReason.CONTEXT_LENGTH_EXCEEDED
    return FailureReason.CONTENT_FILTER if wordings.FILTER.search(text) else None


def _adapt(parameter: str, detail: str, unsure: bool = False) -> Fault:
    return Fault(
        Action.ADAPT, FailureReason.BAD_REQUEST, detail, parameter=parameter, unsure=unsure
    )


_SECRET = re.compile(r"\b(sk-|gsk_|xai-|hf_|AIza|Bearer )[\w.-]{8,}")


def detail_of(status: int, error: ErrorBody, asks: str = "") -> str:
    """What a fault says of itself, cut, without any API key that the answer quotes."""
    said = _SECRET.sub(r"\1[...]", error.message or error.code)
    return f"HTTP {status}{asks}: {said}"[:DETAIL_LENGTH]
