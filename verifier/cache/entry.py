"""What the cache keeps of a request: its outcome and when that arrived.

As bytes: a version, the arrival (microseconds since 1970 UTC, 8 bytes, so that a store can tell
the age of what it holds), and a zstd frame with checksum around a JSON array.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import Any

import orjson
import zstandard

from schemas.reasons import FailureReason
from verifier.answer import Reply
from verifier.fault import Action, Fault

VERSION = b"\x01"
HEAD_BYTES = 9
MAX_BYTES = 64 * 1024 * 1024
"""No reply is longer; a frame that says so is damaged."""

PAID_FAULTS = frozenset(
    {FailureReason.TRUNCATED, FailureReason.REFUSAL, FailureReason.CONTENT_FILTER}
)
_FAULT_FIELDS = tuple(signature(Fault).parameters)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """The outcome of a request, and when it arrived (UTC)."""

    outcome: Reply | Fault
    arrived_at: datetime


class UnreadableEntryError(ValueError):
    """The bytes are of another version, or damaged."""


def worth_keeping(status: int, outcome: Reply | Fault) -> bool:
    """Whether the outcome of a request is kept and shared with those that ask the same.

    Replies are, and of the faults those that the model itself answered with HTTP 200 or its like:
    refused, filtered or cut off. They were paid for, and at temperature 0 come again: sending the
    request once more buys nothing. All other faults may pass.
    """
    if isinstance(outcome, Reply):
        return True
    return 200 <= status < 300 and outcome.reason in PAID_FAULTS


def microseconds(moment: datetime) -> int:
    """A moment (with a time zone) as microseconds since 1970 UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """Microseconds since 1970 as a moment in UTC."""
    return _EPOCH + microseconds * _MICROSECOND


def arrival(head: bytes) -> int:
    """The arrival in the first `HEAD_BYTES` of an entry, in microseconds since 1970.

    Raises UnreadableEntryError.
    """
    if len(head) < HEAD_BYTES or head[:1] != VERSION:
        raise UnreadableEntryError("of another version, or damaged")
    return int.from_bytes(head[1:HEAD_BYTES], "big", signed=True)


class EntryCodec:
    """Writes entries as bytes and reads them again, without loss. Not to be shared by threads."""

    def __init__(self) -> None:
        self._compress = zstandard.ZstdCompressor(level=1, write_checksum=True).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def encode(self, entry: Entry) -> bytes:
        """The entry as bytes. Raises TypeError for integers beyond 64 bits."""
        arrived = microseconds(entry.arrived_at).to_bytes(8, "big", signed=True)
        return VERSION + arrived + self._compress(orjson.dumps(_plain(entry.outcome)))

    def decode(self, data: bytes) -> Entry:
        """The entry in `data`. Raises UnreadableEntryError."""
        try:
            arrived_at = moment(arrival(data))
            frame = data[HEAD_BYTES:]
            if not 0 <= zstandard.frame_content_size(frame) <= MAX_BYTES:
                raise UnreadableEntryError("damaged")
            return Entry(_outcome(*orjson.loads(self._decompress(frame))), arrived_at)
        except (zstandard.ZstdError, ValueError, TypeError, KeyError, OverflowError) as error:
            raise UnreadableEntryError(f"a kept reply cannot be read: {error}") from error


def _plain(outcome: Reply | Fault) -> list[Any]:
    o = outcome
    if isinstance(o, Reply):
        return ["reply", o.text, o.model, o.prompt_tokens, o.completion_tokens, o.cached_tokens]
    return ["fault", {name: getattr(o, name) for name in _FAULT_FIELDS}]


def _outcome(kind: str, *values: Any) -> Reply | Fault:
    if kind == "reply":
        return Reply(*values)
    [fields] = values
    reason, action = FailureReason(fields.pop("reason")), Action(fields.pop("action"))
    return Fault(reason=reason, action=action, **fields)
