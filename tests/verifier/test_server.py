"""The test server: answers like a provider, and misbehaves as it is told."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from schemas.errors import UsageError
from verifier.faults import FaultKind, Faults, parse_faults
from verifier.server import LocalServer

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "12345678"}]}


def echo(request: Mapping[str, Any]) -> str:
    return str(request["messages"][0]["content"])


def only(kind: FaultKind) -> Faults:
    return Faults({kind: 1.0})


async def post(url: str, body: Any = REQUEST, within: float = 5.0) -> tuple[int, Any, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with (
        asyncio.timeout(within),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", data=data) as response,
    ):
        return response.status, response.headers, await response.read()


def ask(server: LocalServer, body: Any = REQUEST, within: float = 5.0) -> tuple[int, Any, Any]:
    return asyncio.run(post(server.base_url, body, within))


def test_a_good_answer_has_openais_form() -> None:
    """Content, model, finish reason and estimated tokens."""
    with LocalServer(echo, model="m-1") as server:
        status, _, body = ask(server)
    data = json.loads(body)
    assert (status, data["model"], data["object"]) == (200, "m-1", "chat.completion")
    assert data["choices"][0]["message"] == {"role": "assistant", "content": "12345678"}
    assert data["usage"]["prompt_tokens"] == 2
    assert data["usage"]["total_tokens"] == 4


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (b"{}", 500), (b'{"messages": []}', 500)]
)
def test_bad_requests_get_an_error_answer(body: bytes, status: int) -> None:
    """No JSON is the client's fault; a request that cannot be answered is an error, not a hang."""
    with LocalServer(echo, model="m") as server:
        got, _, text = ask(server, body)
    assert got == status
    assert json.loads(text)["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        (FaultKind.RATE_LIMIT, 429, "rate_limit_exceeded"),
        (FaultKind.AUTH, 401, "invalid_api_key"),
        (FaultKind.GARBAGE, 200, "<html>"),
        (FaultKind.EMPTY, 200, '"choices":[]'),
        (FaultKind.TRUNCATED, 200, '"finish_reason":"length"'),
        (FaultKind.UNPARSEABLE, 200, "looks fine to me"),
        (FaultKind.REFUSAL, 200, '"refusal":"I cannot'),
        (FaultKind.CONTENT_FILTER, 200, '"finish_reason":"content_filter"'),
        (FaultKind.ERROR_IN_200, 200, '"code":502'),
    ],
)
def test_faulty_answers(kind: FaultKind, status: int, expected: str) -> None:
    """What a client sees of each kind."""
    with LocalServer(echo, model="m", faults=only(kind)) as server:
        got, _, body = ask(server)
        assert server.stats.faults == Counter({kind.value: 1})
    assert got == status
    assert expected in body.decode()


@pytest.mark.parametrize("kind", [FaultKind.RESET, FaultKind.CUT_OFF])
def test_broken_connections(kind: FaultKind) -> None:
    """The connection ends before the answer or in the middle of it."""
    with (
        LocalServer(echo, model="m", faults=only(kind)) as server,
        pytest.raises(aiohttp.ClientError),
    ):
        ask(server)


def test_a_hanging_answer_ends_with_the_server() -> None:
    """The body never comes; stopping the server does not wait for it."""
    before = set(threading.enumerate())
    server = LocalServer(echo, model="m", faults=only(FaultKind.HANG)).start()
    with pytest.raises(TimeoutError):
        ask(server, within=0.3)
    server.stop()
    server.stop()
    assert set(threading.enumerate()) <= before


def test_server_errors_take_turns() -> None:
    """500, 502 and 503."""
    with LocalServer(echo, model="m", faults=only(FaultKind.SERVER_ERROR)) as server:
        assert {ask(server)[0] for _ in range(3)} == {500, 502, 503}


def test_rate_limits_take_all_forms_of_retry_after() -> None:
    """Seconds, a date, milliseconds, and none."""
    with LocalServer(echo, model="m", faults=only(FaultKind.RATE_LIMIT)) as server:
        headers = [ask(server)[1] for _ in range(4)]
    assert [("Retry-After" in h, "retry-after-ms" in h) for h in headers].count((True, False)) == 2
    assert sum("retry-after-ms" in h for h in headers) == 1


def test_stats_count_requests_and_their_peak() -> None:
    """Five slow requests at once are five in flight."""

    async def five(url: str) -> None:
        await asyncio.gather(*(post(url) for _ in range(5)))

    with LocalServer(echo, model="m", delay_ms=200) as server:
        asyncio.run(five(server.base_url))
        stats = server.stats.as_dict()
    assert (stats["requests"], stats["peak_in_flight"], stats["in_flight"]) == (5, 5, 0)
    assert stats["statuses"] == {"200": 5}


def test_a_port_in_use_is_named() -> None:
    """The error says which port, and that 0 finds a free one."""
    with LocalServer(echo, model="m") as server:
        port = int(server.base_url.split(":")[2].split("/")[0])
        with pytest.raises(UsageError, match=f"port {port} cannot be used"):
            LocalServer(echo, model="m", port=port).start()


def test_faults_hit_their_share_whatever_the_order() -> None:
    """The draw depends on the body and how often it was seen, not on what else was asked."""
    rates = {FaultKind.HANG: 0.1, FaultKind.AUTH: 0.2}
    bodies = [b"%d" % i for i in range(2000)]
    one, other = Faults(rates, seed=1), Faults(rates, seed=1)
    drawn = {b: one.draw(b) for b in bodies}
    assert drawn == {b: other.draw(b) for b in reversed(bodies)}
    counts = Counter(drawn.values())
    assert 150 < counts[FaultKind.HANG] < 250
    assert 320 < counts[FaultKind.AUTH] < 480
    again = [one.draw(b) for b in bodies if drawn[b] is FaultKind.AUTH]
    assert again.count(None) > len(again) / 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hnag:0.1", "did you mean hang"),
        ("zzz:0.1", "one of rate_limit"),
        ("hang", "write kind:rate"),
        ("hang:lots", "write kind:rate"),
        ("hang:1.5", "it goes from 0 to 1"),
        ("hang:-1", "it goes from 0 to 1"),
        ("hang:0.6,", "write kind:rate"),
    ],
)
def test_fault_specs_are_checked(spec: str, message: str) -> None:
    """A wrong --fault names the nearest kind or the form."""
    with pytest.raises(UsageError, match=message):
        parse_faults([spec])
