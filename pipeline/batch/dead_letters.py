"""The dead letters of an export, read back."""

import base64
from datetime import datetime
from typing import Any

import orjson

from schemas.dead_letter import DeadLetter, Stage
from schemas.reasons import FailureReason


def read_dead_letter(line: bytes) -> DeadLetter:
    """The dead letter of which `line` is `DeadLetter.to_json`. Raises ValueError, KeyError."""
    row: dict[str, Any] = orjson.loads(line)
    payload: str = row["payload"]
    encoded = row["payload_encoding"] == "base64"
    return DeadLetter(
        id=row["id"],
        stage=Stage(row["stage"]),
        reason=FailureReason(row["reason"]),
        message=row["message"],
        payload=base64.b64decode(payload) if encoded else payload.encode("utf-8"),
        attempts=row["attempts"],
        source=row["source"],
        time=datetime.fromisoformat(row["time"]),
    )
