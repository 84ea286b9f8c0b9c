"""The test server: answers like a provider, and misbehaves as it is told."""

import asyncio
import gc
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from schemas.errors import ConstructBeamError, UsageError
from verifier.faults import FaultKind, Faults
from verifier.server import LocalServer, ServerStats, make_app

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "12345678"}]}
ROOT = Path(__file__).parents[2]


def echo(request: Mapping[str, Any]) -> str:
    return str(request["messages"][0]["content"])


def only(kind: FaultKind, slow_ms: float = 2000) -> Faults:
    return Faults({kind: 1.0}, slow_ms=slow_ms)


async def post(url: str, body: Any = REQUEST, within: float = 5.0) -> tuple[int, Any, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with (
        asyncio.timeout(within),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", data=data) as response,
    ):
        return response.status, response.headers, await response.read()


def ask(server: LocalServer, body: Any = REQUEST, within: float = 5.0) -> tuple[int, Any, bytes]:
    return asyncio.run(post(server.base_url, body, within))


def get(url: str) -> Any:
    async def fetch() -> Any:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await response.json()

    return asyncio.run(fetch())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the server lives on another thread
            await asyncio.sleep(0.005)


def port_of(server: LocalServer) -> int:
    return int(server.base_url.split(":")[2].split("/")[0])


def test_a_good_answer_has_openais_form() -> None:
    """Content, model, finish reason and estimated tokens."""
    before = int(time.time())
    with LocalServer(echo, model="m-1") as server:
        status, headers, body = ask(
            server, {"messages": [{"role": "user", "content": "123456789"}]}
        )
    data = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert data.pop("created") >= before
    assert data == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "123456789"},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 3,
            "total_tokens": 6,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


@pytest.mark.parametrize(
    ("messages", "tokens"),
    [
        ([{"content": "12345678"}, {"content": "1"}], 3),
        ([{"content": [{"type": "text", "text": "12345"}]}], 2),
        ([{"content": [{"type": "image_url", "image_url": {"url": "data:" + "A" * 999}}]}], 0),
        ([{"role": "assistant", "content": None}], 0),
        (None, 0),
        ([7], 0),
    ],
)
def test_prompt_tokens_are_those_of_the_text(messages: Any, tokens: int) -> None:
    """Parts are looked into; images, nulls and strange messages count for nothing."""
    with LocalServer(lambda _request: "", model="m") as server:
        status, _, body = ask(server, {"messages": messages})
    assert (status, json.loads(body)["usage"]["prompt_tokens"]) == (200, tokens)


def test_a_large_request_is_read() -> None:
    """Documents of several megabytes are none too many."""
    content = "x" * 3_000_000
    with LocalServer(lambda r: str(len(echo(r))), model="m") as server:
        status, _, body = ask(server, {"messages": [{"role": "user", "content": content}]})
    assert status == 200
    assert json.loads(body)["choices"][0]["message"]["content"] == "3000000"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "the request is not JSON"),
        (b"", 400, "the request is not JSON"),
        (b"\xff", 400, "the request is not JSON"),
        (b"[]", 400, "the request is no JSON object"),
        (b"null", 400, "the request is no JSON object"),
        (b"{}", 500, "KeyError: 'messages'"),
        (b'{"messages": []}', 500, "IndexError"),
    ],
)
def test_bad_requests_get_an_error_answer(
    body: bytes, status: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No JSON is the client's fault; what `answer` raises is an error that is logged, not a hang."""
    with LocalServer(echo, model="m") as server:
        got, _, text = ask(server, body)
        assert server.stats.statuses == Counter({status: 1})
    error = json.loads(text)["error"]
    kind = "invalid_request_error" if status == 400 else "server_error"
    assert (got, error["code"]) == (status, kind)
    assert message in error["message"]
    assert ("the verifier could not answer" in caplog.messages) == (status == 500)


def test_a_reply_that_is_no_text_is_an_error_too() -> None:
    """A lone surrogate has no UTF-8 form."""
    with LocalServer(lambda _request: "\ud800", model="m") as server:
        status, _, body = ask(server)
    assert (status, json.loads(body)["error"]["code"]) == (500, "server_error")


def test_models_and_health() -> None:
    """The one model; the stats as JSON, which do not count these requests."""
    with LocalServer(echo, model="m-1", faults=only(FaultKind.AUTH)) as server:
        ask(server)
        models = get(f"{server.base_url}/models")
        health = get(server.base_url.removesuffix("/v1") + "/health")
        assert health == server.stats.as_dict()
    assert [m["id"] for m in models["data"]] == ["m-1"]
    assert health == {
        "requests": 1,
        "in_flight": 0,
        "peak_in_flight": 1,
        "statuses": {"401": 1},
        "faults": {"auth": 1},
    }


def test_the_app_runs_in_any_runner() -> None:
    """`make_app` needs no LocalServer; the stats are the caller's."""
    stats = ServerStats()

    async def serve_and_ask() -> int:
        runner = web.AppRunner(make_app(echo, model="m", stats=stats))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            status, _, _ = await post(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
            return status
        finally:
            await runner.cleanup()

    assert (asyncio.run(serve_and_ask()), stats.requests) == (200, 1)


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        (FaultKind.RATE_LIMIT, 429, '"code":"rate_limit_exceeded"'),
        (FaultKind.AUTH, 401, '"code":"invalid_api_key"'),
        (FaultKind.GARBAGE, 200, "<html>"),
        (FaultKind.EMPTY, 200, '"choices":[]'),
        (FaultKind.TRUNCATED, 200, '"content":"1234"},"finish_reason":"length"'),
        (FaultKind.UNPARSEABLE, 200, '"content":"It all looks fine to me."'),
        (FaultKind.REFUSAL, 200, '"content":null,"refusal":"I cannot'),
        (FaultKind.CONTENT_FILTER, 200, '"finish_reason":"content_filter"'),
        (FaultKind.ERROR_IN_200, 200, '{"error":{"message":"Provider returned error","code":502}}'),
    ],
)
def test_faulty_answers(kind: FaultKind, status: int, expected: str) -> None:
    """What a client sees of each kind."""
    with LocalServer(echo, model="m", faults=only(kind)) as server:
        got, headers, body = ask(server)
        assert server.stats.faults == Counter({kind.value: 1})
        assert server.stats.statuses == Counter({status: 1})
    assert got == status
    assert expected in body.decode()
    assert ("html" in headers["Content-Type"]) == (kind is FaultKind.GARBAGE)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (FaultKind.RESET, aiohttp.ServerDisconnectedError),
        (FaultKind.CUT_OFF, aiohttp.ClientPayloadError),
    ],
)
def test_broken_connections(kind: FaultKind, error: type[Exception]) -> None:
    """The connection ends before the answer or in the middle of it: it has no status."""
    with LocalServer(echo, model="m", faults=only(kind)) as server:
        with pytest.raises(error):
            ask(server)
        assert (server.stats.requests, server.stats.statuses) == (1, Counter())


def test_a_hanging_answer_begins_and_ends_when_the_client_leaves() -> None:
    """Head and some of the body arrive, no more; the server then forgets the request."""

    async def run(server: LocalServer) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{server.base_url}/chat/completions", json=REQUEST) as response,
        ):
            assert response.status == 200
            assert await response.content.readany() == b'{"choices": ['
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(response.content.readany(), 0.2)
            assert server.stats.in_flight == 1
            response.close()
        await until(lambda: server.stats.in_flight == 0)

    with LocalServer(echo, model="m", faults=only(FaultKind.HANG)) as server:
        asyncio.run(run(server))
        assert server.stats.statuses == Counter()


def test_a_slow_answer_is_a_good_one_later() -> None:
    """After slow_ms, which a stopping server does not wait for."""
    with LocalServer(echo, model="m", faults=only(FaultKind.SLOW, slow_ms=1)) as server:
        assert (ask(server)[0], server.stats.faults) == (200, Counter({"slow": 1}))
    stop_while_asked(LocalServer(echo, model="m", faults=only(FaultKind.SLOW, slow_ms=3_600_000)))


def stop_while_asked(server: LocalServer, requests: int = 1) -> None:
    """Stop with requests under way; the clients see a broken connection."""

    async def run() -> list[tuple[int, Any, bytes] | BaseException]:
        asked = [asyncio.create_task(post(server.base_url, within=20)) for _ in range(requests)]
        await until(lambda: server.stats.in_flight == requests)
        await asyncio.to_thread(server.stop)
        return await asyncio.gather(*asked, return_exceptions=True)

    server.start()
    assert all(isinstance(outcome, aiohttp.ClientError) for outcome in asyncio.run(run()))
    assert (server.stats.in_flight, server.stats.statuses) == (0, Counter())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "settings",
    [{"faults": only(FaultKind.HANG)}, {"delay_ms": 3_600_000}],
    ids=["hanging", "delayed"],
)
def test_stopping_waits_for_no_request_and_leaves_nothing(settings: dict[str, Any]) -> None:
    """No thread, no socket, no warning; stopping again does nothing."""
    before = set(threading.enumerate())
    server = LocalServer(echo, model="m", **settings)
    stop_while_asked(server, requests=5)
    server.stop()
    gc.collect()
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(server)))


def test_stopping_before_starting_does_nothing() -> None:
    """A server that never started has nothing to stop."""
    LocalServer(echo, model="m").stop()


def test_a_stopped_server_starts_again_where_it_was() -> None:
    """Same port, and its stats go on: a provider that comes back after an outage."""
    server = LocalServer(echo, model="m")
    with server:
        url = server.base_url
        ask(server)
    with server:
        assert (server.base_url, ask(server)[0]) == (url, 200)
    assert server.stats.requests == 2


def test_a_running_server_is_not_started_again() -> None:
    """It would leave the first thread behind; the running one goes on."""
    with LocalServer(echo, model="m") as server:
        with pytest.raises(ConstructBeamError, match="runs already"):
            server.start()
        assert ask(server)[0] == 200


def test_a_port_in_use_is_named() -> None:
    """The error says which port, and that 0 finds a free one; a later try can succeed."""
    with LocalServer(echo, model="m") as server:
        port = port_of(server)
        late = LocalServer(echo, model="m", port=port)
        with pytest.raises(UsageError, match=f"port {port} cannot be used.*choose another, or 0"):
            late.start()
    with late:
        assert (port_of(late), ask(late)[0]) == (port, 200)


@pytest.mark.parametrize("port", [-1, 70000])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    """At once, by the number."""
    with pytest.raises(UsageError, match=f"port {port} cannot be used"):
        LocalServer(echo, model="m", port=port).start()


def test_server_errors_take_turns() -> None:
    """500, 502 and 503, whatever good answers come between."""
    faults = Faults({FaultKind.SERVER_ERROR: 0.5}, seed=1)
    with LocalServer(echo, model="m", faults=faults) as server:
        statuses = [ask(server)[0] for _ in range(20)]
    failed = [s for s in statuses if s != 200]
    assert 3 < len(failed) < 20
    assert failed == [(500, 502, 503)[i % 3] for i in range(len(failed))]


def test_rate_limits_take_all_forms_of_retry_after() -> None:
    """Seconds, a date, milliseconds, and none, in turn."""
    with LocalServer(echo, model="m", faults=only(FaultKind.RATE_LIMIT)) as server:
        answers = [ask(server) for _ in range(5)]
    assert {status for status, _, _ in answers} == {429}
    seconds, date, milliseconds, none, again = (headers for _, headers, _ in answers)
    assert seconds["Retry-After"] == again["Retry-After"] == "1"
    assert parsedate_to_datetime(date["Retry-After"]).tzinfo is not None
    assert milliseconds["retry-after-ms"] == "500"
    assert not {"Retry-After", "retry-after-ms"} & set(none)


def test_stats_count_requests_and_their_peak() -> None:
    """Five at once are five in flight; those that follow one by one do not raise the peak."""

    async def run(server: LocalServer) -> None:
        asked = [asyncio.create_task(post(server.base_url)) for _ in range(5)]
        await until(lambda: server.stats.in_flight == 5)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await until(lambda: server.stats.in_flight == 0)

    with LocalServer(echo, model="m", faults=only(FaultKind.HANG)) as server:
        asyncio.run(run(server))
        with pytest.raises(TimeoutError):
            ask(server, within=0.1)
        stats = server.stats.as_dict()
    assert (stats["requests"], stats["peak_in_flight"]) == (6, 5)
    assert stats["faults"] == {"hang": 6}


def test_requests_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A load test would drown in them."""
    caplog.set_level("DEBUG")
    with LocalServer(echo, model="m") as server:
        ask(server)
    assert [r.name for r in caplog.records if r.name.split(".")[0] != "asyncio"] == []


def test_a_client_that_leaves_while_it_sends_is_forgotten() -> None:
    """Half a body, then nothing: the request ends, and the next one is answered."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
    with LocalServer(echo, model="m") as server:
        with socket.create_connection(("127.0.0.1", port_of(server))) as client:
            client.sendall(head)
            asyncio.run(until(lambda: server.stats.in_flight == 1))
        asyncio.run(until(lambda: server.stats.in_flight == 0))
        assert ask(server)[0] == 200
        assert server.stats.statuses == Counter({200: 1})


SERVE = """
import signal
from verifier.faults import FaultKind, Faults
from verifier.server import serve_forever
signal.signal(signal.SIGINT, signal.default_int_handler)
serve_forever(
    lambda request: "hi", model="m", port=0, delay_ms=0, faults=Faults({FaultKind.HANG: 1.0}),
    announce=lambda url: print(url, flush=True),
)
print("stopped")
"""


def test_ctrl_c_ends_serving_cleanly() -> None:
    """With a request hanging: it returns, and nothing but the announcement was printed."""
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", SERVE],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with pytest.raises(TimeoutError):
            asyncio.run(post(url, within=0.3))
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "stopped\n", "")
