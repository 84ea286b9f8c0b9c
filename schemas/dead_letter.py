"""The dead letter: a record that could not be scored, with all that is needed to try again."""

import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson

from schemas.arrow_json import dump_json, row_values
from schemas.errors import RecordError
from schemas.reasons import FailureReason
from schemas.record import Record, clean, invalid, record_values
from schemas.row import Row

_log = logging.getLogger(__name__)


class Stage(StrEnum):
    """Where a record was lost."""

    READ = "read"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record, or a whole unreadable file, that reached no route; `payload` is what came in."""

    id: str | None
    stage: Stage
    reason: FailureReason
    message: str
    payload: bytes
    attempts: int = 0
    source: str | None = None
    time: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_json(self) -> bytes:
        """One line of JSON; a payload that is no UTF-8 text is in base64."""
        row: dict[str, Any] = {
            "id": self.id,
            "stage": self.stage.value,
            "reason": self.reason.value,
            "message": self.message,
            "attempts": self.attempts,
            "source": self.source,
            "time": self.time.isoformat(),
        }
        try:
            row["payload"] = self.payload.decode("utf-8")
            row["payload_encoding"] = "utf-8"
        except UnicodeDecodeError:
            row["payload"] = base64.b64encode(self.payload).decode("ascii")
            row["payload_encoding"] = "base64"
        return orjson.dumps(clean(row))


def lost_record(
    record: Record, reason: FailureReason, message: str, attempts: int = 0
) -> DeadLetter:
    """The dead letter of a record that could not be verified or scored."""
    values = row_values(record.row.slice()) if record.row else record_values(record)
    return DeadLetter(
        id=record.id,
        stage=Stage.VERIFY,
        reason=reason,
        message=message,
        payload=dump_json(values).encode("utf-8", "surrogatepass"),
        attempts=attempts,
    )


def broken_record(record: Record, error: BaseException) -> DeadLetter:
    """The dead letter of a record that met a fault of ours, which is logged with its traceback."""
    _log.error("record %s failed unexpectedly", record.id, exc_info=error)
    message = f"internal error, please report it: {type(error).__name__}: {error}"
    return lost_record(record, FailureReason.INVALID_RECORD, message)


def lost_row(row: Row, error: RecordError, source: str | None = None) -> DeadLetter:
    """The dead letter of an input row that is no record."""
    values = row_values(row.slice())
    return DeadLetter(
        id=None if values.get("id") is None else str(values["id"]),
        stage=Stage.READ,
        reason=error.reason,
        message=error.message,
        payload=dump_json(values).encode("utf-8", "surrogatepass"),
        source=source,
    )


def original_payload(line: Mapping[str, Any]) -> bytes:
    """What a dead letter's line keeps of the original. Raises RecordError when it has none."""
    payload, encoding = line.get("payload"), line.get("payload_encoding")
    if not isinstance(payload, str) or encoding not in {"utf-8", "base64"}:
        raise invalid("the line is no dead letter: payload or payload_encoding is missing")
    if line.get("reason") == FailureReason.UNREADABLE_FILE:
        raise RecordError(
            FailureReason.UNREADABLE_FILE,
            f"this dead letter is a whole file: mend it and name it with --input: {payload}",
        )
    try:
        return base64.b64decode(payload) if encoding == "base64" else payload.encode("utf-8")
    except ValueError as error:
        raise invalid(f"the dead letter's payload is not {encoding}: {error}") from error
