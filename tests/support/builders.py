"""Small builders that tests share."""

import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from schemas.errors import RecordError
from schemas.parse_record import parse_record
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.verdict import Facts, Reading, Verdict, VerdictStatus
from scoring.reply import read_reply
from scoring.templates import builtin_templates

TEMPLATES = builtin_templates()
TEMPLATE_NAMES = TEMPLATES.names

T = TypeVar("T")


def record(output: Any, **values: Any) -> Record:
    """A record with `output`, on a short document unless another is given."""
    return parse_record({"document": "Total 40.00", **values, "output": output})


def good_reply(template: str, fields: Sequence[str], confidence: float = 1.0) -> str:
    """A reply that gives every field, and the document, about `confidence`."""
    explanation = f"{template} explains"
    whole = round(100 * confidence)
    words = ["Likely Incorrect", "Uncertain", "Somewhat Certain", "Mostly Certain", "Certain"]
    audit: dict[str, Any] = {
        "explanation": explanation,
        "incorrect_fields": []
        if confidence >= 0.5
        else [{"field_name": f, "explanation": f"{f} is wrong"} for f in fields],
    }
    replies: dict[str, Any] = {
        "fields_numeric": {f: {"explanation": explanation, "score": whole} for f in fields},
        "fields_likert": {
            f: {"explanation": explanation, "confidence": words[round(4 * confidence)]}
            for f in fields
        },
        "accuracy_audit": audit | {"confidence_score": whole},
        "confidence_audit": audit | {"rating": round(10 * confidence)},
    }
    if template == "document_critique":
        return f"<think>\n{explanation}\n</think>\n<score>\n{whole}\n</score>"
    return json.dumps(replies[template])


def verdict(template: str, fields: Sequence[str], reply: str | None, **facts: Any) -> Verdict:
    """The verdict that `reply` gives; None is a call without any reply."""
    chosen = TEMPLATES[template]
    reading, reason = Reading(), FailureReason.PROVIDER_ERROR if reply is None else None
    if reply is not None:
        try:
            reading = read_reply(chosen, tuple(fields), reply)
        except RecordError as error:
            reason = error.reason
    return Verdict(
        record_id="r",
        template=template,
        kind=chosen.reply,
        asked_fields=tuple(fields),
        status=VerdictStatus.OK if reason is None else VerdictStatus.FAILED,
        facts=Facts(**{"fields": tuple(fields), **facts}),
        reading=reading,
        reason=reason,
    )


def verdicts(fields: Sequence[str], replies: Mapping[str, str | None]) -> list[Verdict]:
    """A verdict of each template: what `replies` says, else a good reply."""
    return [
        verdict(name, fields, replies.get(name, good_reply(name, fields)))
        for name in TEMPLATE_NAMES
    ]


def verdicts_from_replies(
    fields: Sequence[str], replies: Mapping[str, str | None], **facts: Any
) -> list[Verdict]:
    """A verdict of each template in `replies` and of no other."""
    return [verdict(name, fields, reply, **facts) for name, reply in replies.items()]


def pickled(value: T) -> T:
    """`value` as another process gets it."""
    copy: T = pickle.loads(pickle.dumps(value))  # noqa: S301 - these are our own bytes
    return copy
