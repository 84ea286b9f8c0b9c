"""The embedded verifier: answers our prompts from literal evidence alone, with no LLM.

It is a chat-completions server like any other, so that everything between it and the pipeline
is what a real verifier would see. It is blind to swapped fields and wrong spans: their values do
stand in the document.
"""

import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from schemas.arrow_json import dump_json
from schemas.errors import ConstructBeamError, RecordError
from schemas.json_schema import JsonSchema, parse_schema
from schemas.record import parse_json
from scoring.aggregate import harmonic_mean
from scoring.evidence import Document
from scoring.literal import Opinion, assess
from scoring.routing import LITERAL_EVIDENCE
from verifier.endpoint import Endpoint
from verifier.server import LocalServer

DOUBTED_BELOW = 0.5
"""An audit lists the fields with less confidence than this."""

_SECTION = re.compile(r"^<untrusted_(schema|output|fields)>\n(.*?)\n</untrusted_\1>$", re.M | re.S)
_DOCUMENT = re.compile(
    r'^<untrusted_message role="\w+" holds="document">\n(.*?)\n</untrusted_message>$', re.M | re.S
)
_END_OF_DATA = "</untrusted_fields>"
_FORMAT = re.compile(r"^Reply format \((\w+); (\w+): (.+)\):$", re.M)


class NotOurPromptError(ConstructBeamError):
    """The request was not rendered by `scoring.prompt`: there is nothing to assess."""


@dataclass(frozen=True, slots=True)
class _Form:
    kind: str
    score_key: str
    words: tuple[str, ...]
    top: int


def answer(request: Mapping[str, Any]) -> str:
    """The reply to one of our prompts. Raises NotOurPromptError for any other request."""
    system, user = (_text(m.get("content")) for m in _two(request.get("messages")))
    data, marker, behind = user.rpartition(_END_OF_DATA)
    form = _form(f"{system}\n{behind}")
    opinions = _opinions(data + marker)
    return _WRITERS[form.kind](form, opinions)


def embedded_endpoint() -> Endpoint:
    """The endpoint of this process's embedded verifier, started on first use."""
    with _lock:
        server = _servers.get(os.getpid())
        if server is None:
            server = LocalServer(answer, model=LITERAL_EVIDENCE)
            server.start()
            _servers[os.getpid()] = server
    return Endpoint(f"{server.base_url}/chat/completions", LITERAL_EVIDENCE)


_servers: dict[int, LocalServer] = {}
"""By process: a forked child has the parent's object, but not its thread."""
_lock = threading.Lock()


def _two(messages: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if isinstance(messages, list) and len(messages) == 2:
        system, user = messages
        if isinstance(system, Mapping) and isinstance(user, Mapping):
            return system, user
    raise NotOurPromptError("the embedded verifier answers only construct-beam's own prompts")


def _text(content: Any) -> str:
    """The text of a message; attachments cannot be examined literally."""
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    return str(content)


def _form(system: str) -> _Form:
    match = _FORMAT.search(system)
    if match is None or match[1] not in _WRITERS:
        raise NotOurPromptError("the prompt states no reply format")
    kind, score_key, scale = match.groups()
    if scale.startswith("0-"):
        return _Form(kind, score_key, (), int(scale.removeprefix("0-")))
    return _Form(kind, score_key, tuple(scale.split(" / ")), 0)


@lru_cache(maxsize=64)
def _opinions(user: str) -> dict[str, Opinion]:
    """The opinion on each field asked about; the five prompts of a record share it."""
    sections: dict[str, str] = dict(_SECTION.findall(user))
    document = _DOCUMENT.search(user)
    if document is None or not {"output", "fields"} <= set(sections):
        raise NotOurPromptError("the prompt lacks a section")
    try:
        fields, output = json.loads(sections["fields"]), parse_json(sections["output"])
    except ValueError as error:
        raise NotOurPromptError(f"a section is no JSON: {error}") from error
    if not isinstance(fields, list) or not fields:
        raise NotOurPromptError("the prompt asks about no field")
    schema = _schema(sections.get("schema", ""))
    return assess(Document(document[1]), output, schema, fields)


def _schema(text: str) -> JsonSchema | None:
    """The schema in its section; none, or one that a judge cannot apply, is no error here."""
    try:
        return parse_schema(text)
    except RecordError:
        return None


def _weakest(opinions: Mapping[str, Opinion]) -> str:
    field = min(opinions, key=lambda f: opinions[f].confidence)
    return f"The weakest field is {field}: {opinions[field].explanation}"


def _document(form: _Form, opinions: Mapping[str, Opinion]) -> str:
    score = round(form.top * harmonic_mean([o.confidence for o in opinions.values()]))
    return f"<think>\n{_weakest(opinions)}\n</think>\n<score>\n{score}\n</score>"


def _fields(form: _Form, opinions: Mapping[str, Opinion]) -> str:
    entries = {
        field: {"explanation": o.explanation, form.score_key: _graded(form, o.confidence)}
        for field, o in opinions.items()
    }
    return dump_json(entries)


def _graded(form: _Form, confidence: float) -> str | int:
    """On a scale of numbers, or the word nearest to it; words run from the best to the worst."""
    if not form.words:
        return round(form.top * confidence)
    return form.words[round((1 - confidence) * (len(form.words) - 1))]


def _audit(form: _Form, opinions: Mapping[str, Opinion]) -> str:
    doubted = [
        {"field_name": field, "explanation": o.explanation}
        for field, o in opinions.items()
        if o.confidence < DOUBTED_BELOW
    ]
    confidence = 0.1 if doubted else min(o.confidence for o in opinions.values())
    reply = {
        "explanation": _weakest(opinions),
        "incorrect_fields": doubted,
        form.score_key: round(form.top * confidence),
    }
    return dump_json(reply)


_WRITERS = {
    "document_score": _document,
    "field_scores": _fields,
    "incorrect_fields": _audit,
}
