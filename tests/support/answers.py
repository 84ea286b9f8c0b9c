"""HTTP answers that are errors, as the verifier reads them."""

import json
from datetime import UTC, datetime
from typing import Any

from verifier.answer import read_answer
from verifier.fault import Fault

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def said(message: str, **more: Any) -> dict[str, Any]:
    """An error's body in OpenAI's form."""
    return {"error": {"message": message, **more}}


def read(status: int, body: Any, **headers: str) -> Fault:
    """The fault that an answer with `body` as its JSON stands for."""
    fault = read_answer(status, headers, json.dumps(body).encode(), NOW)
    assert isinstance(fault, Fault)
    return fault
