"""What `chaos_server.py` answers: replies that depend on nothing but the prompt, and HTTP."""

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

FIELDS = ("vendor", "total", "date", "currency")
MODEL = "chaos-1"
WRONG_SHARE = 0.125
"""The share of fields that the replies find wrong."""

_TEMPLATES = {
    b"(document_score; score: 0-100)": "document_critique",
    b"(field_scores; score: 0-100)": "fields_numeric",
    b"(field_scores; confidence: ": "fields_likert",
    b"(incorrect_fields; confidence_score: 0-100)": "accuracy_audit",
    b"(incorrect_fields; rating: 0-10)": "confidence_audit",
}
_LIKERT = ("Likely Incorrect", "Uncertain", "Somewhat Certain", "Mostly Certain", "Certain")
_MARK = re.compile(rb"document number (r[0-9]+)\.")


class Asked(NamedTuple):
    """A prompt: whose record it is about, and the template."""

    record: str
    template: str


def mark(record_id: str) -> str:
    """What a record's document must say for the server to know it; ids are r0, r1, …"""
    return f"document number {record_id}."


def asked_in(body: bytes) -> Asked:
    """The prompt in a request. Raises ValueError for one that is none of ours."""
    found = _MARK.search(body)
    template = next((name for text, name in _TEMPLATES.items() if text in body), None)
    if found is None or template is None:
        raise ValueError(f"no prompt about a marked document: {body[:200]!r}")
    return Asked(found[1].decode(), template)


def seeded(*parts: object) -> random.Random:
    """A generator of its own for these parts."""
    return random.Random("/".join(map(str, parts)))  # noqa: S311 - repeatable is the point


def content_of(asked: Asked) -> str:
    """The reply: always the same for one prompt, and different between records."""
    truth = seeded(asked.record)
    wrong = [f for f in FIELDS if truth.random() < WRONG_SHARE]
    return _CONTENTS[asked.template](wrong, seeded(*asked))


def _document(wrong: Sequence[str], draw: random.Random) -> str:
    score = draw.randint(0, 60) if wrong else draw.randint(80, 100)
    doubts = " ".join(wrong) or "nothing"
    return f"<think>\n{_words(draw)}; doubtful: {doubts}\n</think>\n<score>\n{score}\n</score>"


def _numeric(wrong: Sequence[str], draw: random.Random) -> str:
    def entry(field: str) -> dict[str, Any]:
        score = draw.randint(0, 50) if field in wrong else draw.randint(80, 100)
        return {"explanation": _words(draw), "score": score}

    return json.dumps({field: entry(field) for field in FIELDS})


def _likert(wrong: Sequence[str], draw: random.Random) -> str:
    def entry(field: str) -> dict[str, Any]:
        words = _LIKERT[:3] if field in wrong else _LIKERT[3:]
        return {"explanation": _words(draw), "confidence": draw.choice(words)}

    return json.dumps({field: entry(field) for field in FIELDS})


def _audit(key: str, top: int) -> Callable[[Sequence[str], random.Random], str]:
    def content(wrong: Sequence[str], draw: random.Random) -> str:
        flagged = [f for f in wrong if draw.random() < 0.9]
        share = draw.uniform(0, 0.5) if flagged else draw.uniform(0.8, 1)
        listed = [{"field_name": f, "explanation": _words(draw)} for f in flagged]
        answer = {"explanation": _words(draw), "incorrect_fields": listed, key: round(top * share)}
        return json.dumps(answer)

    return content


def _words(draw: random.Random) -> str:
    words = ("value", "stands", "in", "line", "of", "the", "document", "word", "for", "and")
    return " ".join(draw.choices(words, k=12))


_CONTENTS: dict[str, Callable[[Sequence[str], random.Random], str]] = {
    "document_critique": _document,
    "fields_numeric": _numeric,
    "fields_likert": _likert,
    "accuracy_audit": _audit("confidence_score", 100),
    "confidence_audit": _audit("rating", 10),
}


def completion(content: str | None, finish: str = "stop", refusal: str | None = None) -> bytes:
    """The body of a chat completion."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 700, "completion_tokens": 90, "total_tokens": 790}
    return json.dumps(
        {
            "id": "chaos",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
            "usage": usage,
        }
    ).encode()


def http(
    body: bytes,
    status: str = "200 OK",
    headers: Mapping[str, str] | None = None,
    kind: str = "application/json",
) -> bytes:
    """A whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def http_error(status: str, message: str, headers: Mapping[str, str] | None = None) -> bytes:
    """An HTTP error in OpenAI's form."""
    body = {"error": {"message": message, "type": "error", "code": None}}
    return http(json.dumps(body).encode(), status, headers)
