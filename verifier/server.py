"""A small chat-completions server: the embedded verifier's, and one to test against.

It can delay its answers and spoil a share of them (`verifier.faults`).
"""

import asyncio
import functools
import itertools
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from schemas.errors import ConstructBeamError, UsageError
from verifier.bad_answers import INSTEAD, SPOILERS, TRANSPORT, error_answer, json_answer
from verifier.faults import FaultKind, Faults

HOST = "127.0.0.1"
MAX_BODY = 256 * 1024 * 1024
GRACE_S = 0.1
"""How long a stopping server lets requests finish before it cancels them."""

Answer = Callable[[Mapping[str, Any]], str]
"""The reply to a parsed chat-completions request."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ServerStats:
    """What the server has seen so far; `statuses` counts the answers that went out whole."""

    requests: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values; any thread may ask."""
        return {
            "requests": self.requests,
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "statuses": {str(status): n for status, n in dict(self.statuses).items()},
            "faults": dict(self.faults),
        }


class ChatServer:
    """Answers chat completions with `answer`, which is called on the server's thread."""

    def __init__(
        self, answer: Answer, *, model: str, delay_ms: float, faults: Faults, stats: ServerStats
    ) -> None:
        self._answer = answer
        self._model = model
        self._delay_s = delay_ms / 1000
        self._faults = faults
        self._stats = stats
        self._ids = itertools.count(1)

    async def models(self, _request: web.Request) -> web.Response:
        """The one model."""
        return json_answer(
            200, {"object": "list", "data": [{"id": self._model, "object": "model"}]}
        )

    async def health(self, _request: web.Request) -> web.Response:
        """The stats so far."""
        return json_answer(200, self._stats.as_dict())

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """The completion, or what the drawn fault makes of it."""
        stats = self._stats
        stats.requests += 1
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        try:
            response = await self._respond(request, await request.read())
            if request.transport is not None and not request.transport.is_closing():
                stats.statuses[response.status] += 1
            return response
        finally:
            stats.in_flight -= 1

    async def _respond(self, request: web.Request, body: bytes) -> web.StreamResponse:
        fault, turn = self._draw(body)
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if fault in TRANSPORT:
            return await TRANSPORT[fault](request)
        if fault in INSTEAD:
            return INSTEAD[fault](turn)
        if fault is FaultKind.SLOW:
            await asyncio.sleep(self._faults.slow_ms / 1000)
        return self._reply(body, fault)

    def _draw(self, body: bytes) -> tuple[FaultKind | None, int]:
        """The fault, and how many of its kind came before: its forms take turns."""
        fault = self._faults.draw(body)
        if fault is None:
            return None, 0
        turn = self._stats.faults[fault.value]
        self._stats.faults[fault.value] += 1
        return fault, turn

    def _reply(self, body: bytes, fault: FaultKind | None) -> web.Response:
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            return error_answer(400, f"the request is not JSON: {error}", "invalid_request_error")
        if not isinstance(request, dict):
            return error_answer(400, "the request is no JSON object", "invalid_request_error")
        try:
            completion = self._completion(request)
            if fault in SPOILERS:
                SPOILERS[fault](completion["choices"][0])
            return json_answer(200, completion)
        except Exception as error:  # noqa: BLE001 - a server answers, whatever happens
            _log.exception("the verifier could not answer")
            return error_answer(500, f"{type(error).__name__}: {error}", "server_error")

    def _completion(self, request: Mapping[str, Any]) -> dict[str, Any]:
        content = self._answer(request)
        prompt = _characters(request.get("messages"))
        tokens = {"prompt_tokens": _tokens(prompt), "completion_tokens": _tokens(len(content))}
        return {
            "id": f"chatcmpl-{next(self._ids)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content},
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                **tokens,
                "total_tokens": sum(tokens.values()),
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        }


def _characters(part: Any) -> int:
    """Of the text in messages, one message, or its content; attachments count for nothing."""
    if isinstance(part, str):
        return len(part)
    if isinstance(part, list):
        return sum(map(_characters, part))
    if isinstance(part, dict):
        return _characters(part.get("content", part.get("text")))
    return 0


def _tokens(characters: int) -> int:
    return math.ceil(characters / 4)


def make_app(
    answer: Answer,
    *,
    model: str,
    stats: ServerStats,
    delay_ms: float = 0.0,
    faults: Faults | None = None,
) -> web.Application:
    """An application that answers as `model`: POST /v1/chat/completions, GET /v1/models, /health.

    `answer` runs on the event loop. What it raises becomes a 500 in OpenAI's form, and is logged.
    """
    server = ChatServer(
        answer, model=model, delay_ms=delay_ms, faults=faults or Faults({}), stats=stats
    )
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/health", server.health)
    return app


@dataclass(frozen=True, slots=True)
class _Running:
    port: int
    loop: asyncio.AbstractEventLoop
    stopping: asyncio.Event


class LocalServer:
    """The application on loopback, in a daemon thread with an event loop of its own.

    A stopped server can start again: it takes the port it had, and its stats go on.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        model: str,
        port: int = 0,
        delay_ms: float = 0.0,
        faults: Faults | None = None,
    ) -> None:
        self.stats = ServerStats()
        self._make_app = functools.partial(
            make_app, answer, model=model, stats=self.stats, delay_ms=delay_ms, faults=faults
        )
        self._port = port
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: _Running | None = None

    @property
    def base_url(self) -> str:
        """The base URL for clients; known once the server has started."""
        return f"http://{HOST}:{self._port}/v1"

    def start(self) -> "LocalServer":
        """Start, and return when requests are taken.

        Raises UsageError for a port that cannot be had, ConstructBeamError when it runs already.
        """
        with self._lock:
            if self._running is not None:
                raise ConstructBeamError(f"the server at {self.base_url} runs already")
            started: Future[_Running] = Future()
            self._thread = threading.Thread(
                target=self._run, args=(started,), name="construct-beam-server", daemon=True
            )
            self._thread.start()
            try:
                self._running = started.result()
            except (OSError, OverflowError) as error:
                self._thread.join()
                raise UsageError(
                    f"port {self._port} cannot be used: {error}; choose another, or 0 for any free"
                ) from error
            self._port = self._running.port
        return self

    def stop(self) -> None:
        """Stop, whatever is under way; once stopped, this does nothing."""
        with self._lock:
            if self._thread is None or self._running is None:
                return
            if self._thread.is_alive():
                self._running.loop.call_soon_threadsafe(self._running.stopping.set)
                self._thread.join()
            self._running = None

    def __enter__(self) -> "LocalServer":
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _run(self, started: Future[_Running]) -> None:
        """The thread: what goes wrong before requests are taken is raised by `start`."""
        try:
            asyncio.run(self._serve(started))
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[_Running]) -> None:
        stopping = asyncio.Event()
        runner = web.AppRunner(self._make_app(), access_log=None, shutdown_timeout=GRACE_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self._port, backlog=1024).start()
            port = runner.addresses[0][1]
            started.set_result(_Running(port, asyncio.get_running_loop(), stopping))
            await stopping.wait()
        finally:
            await runner.cleanup()


def serve_forever(
    answer: Answer,
    *,
    model: str,
    port: int,
    delay_ms: float,
    faults: Faults,
    announce: Callable[[str], None],
) -> None:
    """Serve until Ctrl-C; `announce` gets the base URL once requests are taken."""
    server = LocalServer(answer, model=model, port=port, delay_ms=delay_ms, faults=faults)
    try:
        with server:
            announce(server.base_url)
            threading.Event().wait()
    except KeyboardInterrupt:
        return
