"""A local chat-completions server whose answers a test scripts."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from verifier.faults import Faults
from verifier.server import LocalServer

MODEL = "scripted-1"
_FIELDS = re.compile(r"<untrusted_fields>\n(.*?)\n</untrusted_fields>", re.DOTALL)


@dataclass
class Script:
    """Good replies with one confidence for every field; requests are kept for the test."""

    confidence: float = 0.97
    reply: Callable[[str, list[str]], str | None] = lambda _kind, _fields: None
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Mapping[str, Any]) -> str:
        with self.lock:
            self.requests.append(request)
        system, user = (message["content"] for message in request["messages"])
        match = _FIELDS.search(user)
        fields: list[str] = json.loads(match[1]) if match else []
        kind = template_of(system)
        scripted = self.reply(kind, fields)
        return good(kind, fields, self.confidence) if scripted is None else scripted

    def asked(self) -> Counter[str]:
        """How often each template was asked."""
        return Counter(template_of(r["messages"][0]["content"]) for r in self.requests)


def template_of(system: str) -> str:
    """The template whose question a system message asks."""
    marks = {
        "(document_score; score: 0-100)": "document_critique",
        "(field_scores; score: 0-100)": "fields_numeric",
        "(field_scores; confidence: ": "fields_likert",
        "; confidence_score: 0-100)": "accuracy_audit",
        "; rating: 0-10)": "confidence_audit",
    }
    return next(name for mark, name in marks.items() if mark in system)


def good(kind: str, fields: list[str], confidence: float) -> str:
    """A good reply to one of our templates."""
    from tests.support.builders import good_reply

    return good_reply(kind, fields, confidence)


@contextmanager
def scripted_server(
    script: Script | None = None, *, delay_ms: float = 0.0, faults: Faults | None = None
) -> Iterator[tuple[LocalServer, Script]]:
    """The running server and its script."""
    chosen = script or Script()
    with LocalServer(chosen.answer, model=MODEL, delay_ms=delay_ms, faults=faults) as server:
        yield server, chosen


def target(server: LocalServer) -> str:
    """The `--verifier` for a server."""
    return f"{server.base_url}#{MODEL}"
