"""One line of log for each failed attempt: never content, never a key."""

import json
import logging

from schemas.reasons import FailureReason

_log = logging.getLogger("construct_beam.calls")


def log_failure(
    record_id: str, template: str, reason: FailureReason, attempt: int, *, retried: bool
) -> None:
    """Say as JSON, at level INFO, that request number `attempt` of a call failed."""
    if not _log.isEnabledFor(logging.INFO):
        return
    line = {
        "event": "verifier_call_failed",
        "record_id": record_id,
        "template": template,
        "reason": reason.value,
        "attempt": attempt,
        "retried": retried,
    }
    _log.info("%s", json.dumps(line, ensure_ascii=False))
