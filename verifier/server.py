"""A small chat-completions server: the embedded verifier's, and one to test against.

It can delay its answers and spoil a share of them (`verifier.faults`).
"""

import asyncio
import itertools
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from schemas.errors import UsageError
from verifier.bad_answers import INSTEAD, SPOILERS, TRANSPORT, error_answer, json_answer
from verifier.faults import FaultKind, Faults

HOST = "127.0.0.1"
MAX_BODY = 256 * 1024 * 1024
SLOW_S = 2.0
START_WITHIN_S = 10.0

Answer = Callable[[Mapping[str, Any]], str]
"""The reply to a parsed chat-completions request."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ServerStats:
    """What the server has seen so far."""

    requests: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return {
            "requests": self.requests,
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "statuses": {str(status): n for status, n in self.statuses.items()},
            "faults": dict(self.faults),
        }


class ChatServer:
    """Answers chat completions with `answer`, which is called on the server's thread."""

    def __init__(
        self,
        answer: Answer,
        *,
        model: str,
        delay_ms: float = 0.0,
        faults: Faults | None = None,
        stats: ServerStats | None = None,
    ) -> None:
        self.stats = stats if stats is not None else ServerStats()
        self._answer = answer
        self._model = model
        self._delay_s = delay_ms / 1000
        self._faults = faults or Faults({})
        self._ids = itertools.count(1)

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        return app

    async def _models(self, _request: web.Request) -> web.Response:
        return json_answer(
            200, {"object": "list", "data": [{"id": self._model, "object": "model"}]}
        )

    async def _health(self, _request: web.Request) -> web.Response:
        return json_answer(200, self.stats.as_dict())

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        stats = self.stats
        stats.requests += 1
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        try:
            response = await self._respond(request, await request.read())
            stats.statuses[response.status] += 1
            return response
        finally:
            stats.in_flight -= 1

    async def _respond(self, request: web.Request, body: bytes) -> web.StreamResponse:
        fault = self._faults.draw(body)
        if fault is not None:
            self.stats.faults[fault.value] += 1
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if fault in TRANSPORT:
            return await TRANSPORT[fault](request)
        if fault in INSTEAD:
            return INSTEAD[fault](next(self._ids))
        try:
            completion = self._completion(orjson.loads(body))
        except orjson.JSONDecodeError as error:
            return error_answer(400, f"the request is not JSON: {error}", "invalid_request_error")
        except Exception as error:  # noqa: BLE001 - a server answers, whatever happens
            _log.exception("the verifier could not answer")
            return error_answer(500, f"{type(error).__name__}: {error}", "server_error")
        if fault is FaultKind.SLOW:
            await asyncio.sleep(SLOW_S)
        elif fault is not None:
            SPOILERS[fault](completion["choices"][0])
        return json_answer(200, completion)

    def _completion(self, request: Mapping[str, Any]) -> dict[str, Any]:
        content = self._answer(request)
        prompt = sum(len(str(m.get("content"))) for m in request.get("messages", ()))
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


def _tokens(characters: int) -> int:
    return math.ceil(characters / 4)


class LocalServer:
    """A ChatServer on loopback, in a daemon thread with an event loop of its own."""

    def __init__(
        self,
        answer: Answer,
        *,
        model: str,
        port: int = 0,
        delay_ms: float = 0.0,
        faults: Faults | None = None,
    ) -> None:
        self._server = ChatServer(answer, model=model, delay_ms=delay_ms, faults=faults)
        self._port = port
        self._ready = threading.Event()
        self._error: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def stats(self) -> ServerStats:
        """What the server has seen so far."""
        return self._server.stats

    @property
    def base_url(self) -> str:
        """The base URL for clients; known once the server has started."""
        return f"http://{HOST}:{self._port}/v1"

    def start(self) -> "LocalServer":
        """Start, and return when requests are taken. Raises UsageError for a port in use."""
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="construct-beam-server", daemon=True
        )
        self._thread.start()
        self._ready.wait(START_WITHIN_S)
        if self._error is not None:
            self._thread.join()
            raise UsageError(
                f"port {self._port} cannot be used: {self._error}; choose another, or 0"
            ) from self._error
        return self

    def stop(self) -> None:
        """Stop, whatever is under way; once stopped, this does nothing."""
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> "LocalServer":
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(self._server.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, HOST, self._port, backlog=1024)
            await site.start()
            self._port = runner.addresses[0][1]
            self._ready.set()
            await self._stopping.wait()
        except OSError as error:
            self._error = error
            self._ready.set()
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
    with server:
        announce(server.base_url)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return
