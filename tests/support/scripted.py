"""Local chat-completions servers whose answers a test scripts: replies, or whole HTTP answers."""

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

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
        kind, fields = question_of(request)
        scripted = self.reply(kind, fields)
        return good(kind, fields, self.confidence) if scripted is None else scripted

    def asked(self) -> Counter[str]:
        """How often each template was asked."""
        return Counter(template_of(r["messages"][0]["content"]) for r in self.requests)


def user_text(request: Mapping[str, Any]) -> str:
    """The text of the data message."""
    content = request["messages"][1]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


def question_of(request: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The template that a request asks, and the fields that it asks about."""
    match = _FIELDS.search(user_text(request))
    fields: list[str] = json.loads(match[1]) if match else []
    return template_of(request["messages"][0]["content"]), fields


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


@dataclass(frozen=True, slots=True)
class Says:
    """One HTTP answer: `body` is bytes as they are, or what becomes JSON.

    `ends` is how: whole, `cut` off before its end, or never: silent (`hang`), or with a blank line
    every now and then (`trickle`). It comes after `delay_s`, and once `when` is true.
    """

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    ends: str = "whole"
    when: Callable[[], bool] = lambda: True

    @property
    def data(self) -> bytes:
        """The body's bytes."""
        return self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came; `number` counts from 1, `path` has the query with it."""

    number: int
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Mapping[str, Any]

    @property
    def template(self) -> str:
        """The template that is asked."""
        return question_of(self.body)[0]

    @property
    def text(self) -> str:
        """The data that is asked about: the record's request, schema and output."""
        return user_text(self.body)


Plan = Callable[[Asked], Says | None]
"""The answer to a request; None is a good reply."""


class RawServer:
    """Answers as its plan says, and keeps what was asked."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.asked: list[Asked] = []
        self.in_flight = 0
        self.peak = 0
        self.url = ""

    @property
    def root(self) -> str:
        """The server's URL without a path."""
        return self.url.removesuffix("/v1")

    @property
    def target(self) -> str:
        """The `--verifier` for this server."""
        return f"{self.url}#{MODEL}"

    async def serve(self) -> web.AppRunner:
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/{base:.*}chat/completions", self._chat)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return await self._answer(request, await request.read())
        finally:
            self.in_flight -= 1

    async def _answer(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        number, path = len(self.asked) + 1, request.path_qs
        asked = Asked(number, path, dict(request.headers), raw, orjson.loads(raw))
        self.asked.append(asked)
        says = self.plan(asked) or says_good(asked.body)
        await asyncio.sleep(says.delay_s)
        while not says.when():  # noqa: ASYNC110 - other requests bring it about
            await asyncio.sleep(0.01)
        if says.ends == "whole":
            return web.Response(status=says.status, body=says.data, headers=says.headers)
        response = web.StreamResponse(status=says.status, headers=says.headers)
        response.content_length = len(says.data) + 10_000
        await response.prepare(request)
        await response.write(says.data)
        if says.ends == "hang":
            await asyncio.Event().wait()
        while says.ends == "trickle":
            await response.write(b"\n")
            await asyncio.sleep(0.02)
        if request.transport is not None:
            request.transport.close()
        return response


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread is about to bring about."""
    pause = threading.Event()
    for _ in range(1000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen")


def says_good(request: Mapping[str, Any], confidence: float = 0.97) -> Says:
    """A good answer to a request of ours."""
    return says_text(good(*question_of(request), confidence))


def says_text(text: str) -> Says:
    """An answer whose reply is `text`."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": text}}
    return Says(body={"model": MODEL, "choices": [choice]})


def says_error(status: int, message: str, **more: Any) -> Says:
    """An error in OpenAI's form."""
    return Says(status, {"error": {"message": message, **more}})


@contextmanager
def raw_server(plan: Plan = lambda _asked: None) -> Iterator[RawServer]:
    """The running server, on a thread of its own."""
    server, loop = RawServer(plan), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="raw-server", daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(server.serve(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
