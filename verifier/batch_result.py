"""Results in the form of a provider's batch files: a line to a reply, or to a fault. Pure."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import orjson
from msgspec import Struct

from schemas.reasons import FailureReason
from schemas.record import clean
from verifier.answer import Reply, read_answer
from verifier.fault import Action, Fault

_NEVER_SENT = {
    "batch_expired": FailureReason.TIMEOUT,
    "batch_cancelled": FailureReason.PROVIDER_ERROR,
}
"""Errors of a batch that ended before the request was sent."""

MISSING = Fault(
    Action.RETRY, FailureReason.TIMEOUT, "the batch's results hold none of this request"
)


class BatchResult(Struct, frozen=True):
    """What became of one request. `created` is when the model answered, `room` how many times the
    usual completion limit it was given; `digest` is the same for the same line."""

    outcome: Reply | Fault
    created: datetime | None
    room: int
    sent: bool
    digest: bytes

    @property
    def rank(self) -> tuple[bool, int, float, bytes]:
        """Of several results of one request the highest counts: a reply before a fault, one with
        more room, the newest; the digest makes the choice the same in every order."""
        newest = self.created.timestamp() if self.created else 0.0
        return isinstance(self.outcome, Reply), self.room, newest, self.digest


def read_line(line: bytes) -> Mapping[str, Any] | None:
    """The JSON object in a line of a result file, None for a line that holds none."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            data = clean(json.loads(line, strict=False))
        except (ValueError, RecursionError):
            return None
    return data if isinstance(data, dict) else None


def read_result(data: Mapping[str, Any], line: bytes, room: int = 1) -> BatchResult:
    """The result that a line holds; `data` is its JSON. A result of no known form is a fault."""
    outcome, created = _outcome(data)
    digest = blake2b(line.strip(), digest_size=12).digest()
    sent = not (isinstance(outcome, Fault) and _code(data) in _NEVER_SENT)
    return BatchResult(outcome, created, room, sent, digest)


def _outcome(data: Mapping[str, Any]) -> tuple[Reply | Fault, datetime | None]:
    response, error = data.get("response"), data.get("error")
    if isinstance(response, Mapping) and response.get("body") is not None:
        body, status = response["body"], response.get("status_code")
        raw = body.encode("utf-8") if isinstance(body, str) else _dump(body)
        status = status if isinstance(status, int) else 200
        return read_answer(status, {}, raw), _created(body)
    code = _code(data)
    if code in _NEVER_SENT:
        return Fault(Action.RETRY, _NEVER_SENT[code], f"{code}: {_message(error)}"[:300]), None
    if error:
        return read_answer(200, {}, _dump({"error": error})), None
    detail = "the result holds neither a response nor an error"
    return Fault(Action.RETRY, FailureReason.EMPTY_RESPONSE, detail), None


def _dump(value: Any) -> bytes:
    """JSON for `read_answer`, which takes integers of any length."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _code(data: Mapping[str, Any]) -> str:
    error = data.get("error")
    return str(error.get("code") or "") if isinstance(error, Mapping) else ""


def _message(error: Any) -> str:
    return str(error.get("message") or "") if isinstance(error, Mapping) else str(error)


def _created(body: Any) -> datetime | None:
    """When the model answered: seconds since 1970 in a chat completion."""
    created = body.get("created") if isinstance(body, Mapping) else None
    if not isinstance(created, int | float) or isinstance(created, bool) or created <= 0:
        return None
    try:
        return datetime.fromtimestamp(created, UTC)
    except (ValueError, OverflowError, OSError):
        return None
