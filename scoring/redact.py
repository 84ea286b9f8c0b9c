"""Replies without what they quote from a document: names of fields and scores alone."""

import re
from collections.abc import Container, Sequence
from typing import Any

from schemas.arrow_json import dump_json
from schemas.verdict import ReplyKind
from scoring.json_reply import json_candidates
from scoring.reply import answer_of, split_thinking
from scoring.templates import Template

_SCORE = re.compile(r"<\s*score\s*>\s*([-+]?\d[\d.]*)", re.IGNORECASE)


def redact(template: Template, fields: Sequence[str], reply: str) -> str:
    """The reply with all free text blanked; one of another form than asked is only measured."""
    if template.reply is ReplyKind.DOCUMENT_SCORE:
        scores = _SCORE.findall(split_thinking(reply)[1])
        return f"<score>{scores[-1]}</score>" if scores else _measured(reply)
    found = json_candidates(answer_of(reply).strip())
    if not found:
        return _measured(reply)
    words = template.scale if isinstance(template.scale, dict) else ()
    return dump_json(
        _blank(
            found[0],
            {*fields, *words, "explanation", "incorrect_fields", "field_name", template.score_key},
        )
    )


def _measured(reply: str) -> str:
    return f"[{len(reply)} characters]"


def _blank(value: Any, kept: Container[str]) -> Any:
    if isinstance(value, str):
        return value if value in kept else ""
    if isinstance(value, list):
        return [_blank(item, kept) for item in value]
    if isinstance(value, dict):
        return {k if k in kept else "": _blank(v, kept) for k, v in value.items()}
    return value
