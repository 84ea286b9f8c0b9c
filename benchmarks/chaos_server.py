"""A chat-completions server that misbehaves as it is told, and keeps a log of what it saw.

Faults and latencies are drawn for each request from its record, its template and how often it came:
the same whatever the order of arrival, and a retry can fare better. Only refusals are the prompt's
own and come again.

  python benchmarks/chaos_server.py '{"delay_s": 0.05, "faults": {"reset": 0.02}}'

prints its port; the argument holds members of `Plan`. GET / answers the `Log`. During an outage
with refused connections the kernel counts them (/proc/net/snmp): that needs Linux, and nothing else
on the machine that runs into closed ports meanwhile.
"""

import asyncio
import json
import random
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

from chaos_replies import Asked, asked_in, completion, content_of, http, http_error, seeded

BURST_FACTOR = 4
"""In a burst faults are this many times as frequent, between bursts there are none."""
BURST_CAP_S = 3.0
"""A burst ends after this time at the latest: who waits it out does not make it last."""
SETTLING_S = 5.0
"""How long after the beginning of an outage many requests may still arrive."""
PORTS = range(20000, 32000)
"""Below the ports that clients are given: one of them might take ours during an outage."""


@dataclass(frozen=True)
class Plan:
    """How the server behaves.

    `delay_s` is the latency of a good answer, its median where `tail` is set: the index of a
    Pareto distribution, cut off at `cap_s`. `factors` multiply it by template. `faults` are shares
    of requests by kind (see `FAULTS`), `refusals` a share of prompts. One quarter of every
    `burst_cycle` requests is a burst; 0 spreads faults evenly. The outage (`unavailable` or
    `refused`) begins with request number `outage_after`.
    """

    delay_s: float = 0.05
    tail: float | None = None
    cap_s: float = 60.0
    factors: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[str, float] = field(default_factory=dict)
    refusals: float = 0.0
    burst_cycle: int = 0
    outage: str | None = None
    outage_after: int = 0
    outage_s: float = 30.0
    seed: int = 1

    def latency(self, asked: Asked, draw: random.Random) -> float:
        """Seconds that a good answer takes."""
        seconds = self.delay_s * self.factors.get(asked.template, 1.0)
        if self.tail is not None:
            seconds *= draw.paretovariate(self.tail) / 2 ** (1 / self.tail)
        return min(seconds, self.cap_s)


@dataclass
class Log:
    """What the server saw; moments are seconds on the monotonic clock.

    `requests` and `answers` (good ones) are moments, `faults` counts by kind, `outage` its
    beginning and end, `knocks` the connections refused in its first `SETTLING_S` and in the rest of
    it, `records` the first and last moment at which a request about each record was open.
    """

    requests: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    outage: list[float] = field(default_factory=list)
    knocks: list[int] = field(default_factory=list)
    records: dict[str, list[float]] = field(default_factory=dict)


class Connection(asyncio.Protocol):
    """One connection, with at most one request under way."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._buffer = bytearray()
        self._transport: asyncio.Transport
        self._record: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be known to the server, which ends all connections in an outage."""
        self._transport = transport  # type: ignore[assignment]
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The client went away, or we did."""
        self._server.connections.discard(self)
        self.settle()

    def data_received(self, data: bytes) -> None:
        """Hand every complete request in the buffer to the server."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[: end + 4]).lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 : head.index(b"\r\n", at)]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            if head.startswith(b"get"):
                self.write(http(json.dumps(vars(self._server.log)).encode()))
            else:
                self._server.take(self, body)

    @property
    def closing(self) -> bool:
        """Whether nobody would get an answer any more."""
        return self._transport.is_closing()

    def write(self, answer: bytes) -> None:
        """Send bytes, if the client is still there."""
        if not self.closing:
            self._transport.write(answer)

    def open(self, record: str) -> None:
        """A request about `record` is under way."""
        self._record = record

    def settle(self) -> None:
        """The request under way has its answer, or will never have one."""
        if self._record is not None:
            self._server.log.records[self._record][1] = time.monotonic()
            self._record = None

    def close(self) -> None:
        """End the connection once what was written is sent."""
        self._transport.close()

    def reset(self) -> None:
        """End the connection with an RST."""
        if not self.closing:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()


def _rate_limit(connection: Connection, _asked: Asked, draw: random.Random) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    forms: tuple[dict[str, str], ...] = (
        {"Retry-After": "1"},
        {"Retry-After": "0.4"},
        {"Retry-After": soon},
        {"retry-after-ms": "300"},
        {},
    )
    connection.write(http_error("429 Too Many Requests", "rate limit reached", draw.choice(forms)))


def _server_error(connection: Connection, _asked: Asked, draw: random.Random) -> None:
    page = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
    forms = (
        http_error("500 Internal Server Error", "the server had an error"),
        http(page, "502 Bad Gateway", kind="text/html"),
        http_error("503 Service Unavailable", "overloaded"),
    )
    connection.write(draw.choice(forms))


def _reset(connection: Connection, _asked: Asked, draw: random.Random) -> None:
    if draw.random() < 0.5:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    connection.reset()


def _hang(connection: Connection, _asked: Asked, draw: random.Random) -> None:
    if draw.random() < 0.5:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")


def _malformed(connection: Connection, asked: Asked, draw: random.Random) -> None:
    content = content_of(asked)
    cut = content[: draw.randrange(1, len(content))]
    whole = http(completion(content))
    form = draw.choice(("body cut", "length", "content cut", "comma lost", "no JSON"))
    answers = {
        "body cut": whole[: draw.randrange(whole.index(b"{"), len(whole))],
        "length": http(completion(cut, "length")),
        "content cut": http(completion(cut)),
        "comma lost": http(completion(content.replace(",", "", 1))),
        "no JSON": http(b"{'choices': [oops"),
    }
    connection.write(answers[form])
    if form == "body cut":
        connection.close()


FAULTS: dict[str, Callable[[Connection, Asked, random.Random], None]] = {
    "rate_limit": _rate_limit,
    "server_error": _server_error,
    "reset": _reset,
    "hang": _hang,
    "malformed": _malformed,
}


class Bursts:
    """How many times as frequent faults are at the moment."""

    def __init__(self, cycle: int) -> None:
        self._cycle = cycle
        self._calm = cycle - cycle // BURST_FACTOR
        self._seen = 0
        self._began = 0.0

    def factor(self, now: float) -> int:
        """For one more request, that came `now`."""
        if not self._cycle:
            return 1
        self._seen += 1
        if self._seen <= self._calm:
            self._began = now
            return 0
        if self._seen >= self._cycle or now - self._began >= BURST_CAP_S:
            self._seen = 0
        return BURST_FACTOR


class Server:
    """Answers as planned."""

    def __init__(self, plan: Plan) -> None:
        self.log = Log()
        self.connections: set[Connection] = set()
        self._plan = plan
        self._times: Counter[Asked] = Counter()
        self._bursts = Bursts(plan.burst_cycle)
        self._down = False
        self._outage: asyncio.Task[None] | None = None
        self._port: int | None = None
        self._listener: asyncio.Server | None = None

    async def listen(self) -> int:
        """Accept connections, at the same port as before if there was one. Returns the port."""
        sock = _bind(PORTS if self._port is None else (self._port,))
        self._port = sock.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: Connection(self), sock=sock, backlog=4096)
        return self._port

    def take(self, connection: Connection, body: bytes) -> None:
        """Answer a request, now, later or never."""
        now, asked = time.monotonic(), asked_in(body)
        connection.open(asked.record)
        self.log.requests.append(now)
        self.log.records.setdefault(asked.record, [now, now])
        self._times[asked] += 1
        if len(self.log.requests) == self._plan.outage_after:
            self._down = True
            self._outage = asyncio.get_running_loop().create_task(self._fall())
        if self._down:
            self._fail(connection)
            return
        draw = seeded(self._plan.seed, *asked, self._times[asked])
        kind = self._fault(draw, now)
        if kind is None:
            loop, wait = asyncio.get_running_loop(), self._plan.latency(asked, draw)
            loop.call_later(wait, self._answer, connection, asked)
            return
        self.log.faults[kind] += 1
        FAULTS[kind](connection, asked, draw)
        if kind != "hang":
            connection.settle()

    def _fault(self, draw: random.Random, now: float) -> str | None:
        factor, point = self._bursts.factor(now), draw.random()
        for kind, share in self._plan.faults.items():
            if point < factor * share:
                return kind
            point -= factor * share
        return None

    def _answer(self, connection: Connection, asked: Asked) -> None:
        if connection.closing:
            return
        if self._down:
            self._fail(connection)
            return
        if seeded(self._plan.seed, "refusal", *asked).random() < self._plan.refusals:
            self.log.faults["refusal"] += 1
            connection.write(http(completion(None, refusal="I cannot help with that.")))
        else:
            self.log.answers.append(time.monotonic())
            connection.write(http(completion(content_of(asked))))
        connection.settle()

    def _fail(self, connection: Connection) -> None:
        """What befalls a request during the outage."""
        if self._plan.outage == "refused":
            connection.reset()
        else:
            connection.write(http_error("503 Service Unavailable", "down"))
        connection.settle()

    async def _fall(self) -> None:
        """The outage, from its beginning to its end."""
        self.log.outage.append(time.monotonic())
        refused = self._plan.outage == "refused"
        if refused and self._listener is not None:
            self._listener.close()
            for connection in list(self.connections):
                connection.reset()
        for seconds in (SETTLING_S, self._plan.outage_s - SETTLING_S):
            before = _refused_connections() if refused else 0
            await asyncio.sleep(seconds)
            self.log.knocks.append(_refused_connections() - before if refused else 0)
        if refused:
            await self.listen()
        self._down = False
        self.log.outage.append(time.monotonic())


def _bind(ports: range | tuple[int, ...]) -> socket.socket:
    """A socket bound to one of `ports`, any that is free. Raises OSError."""
    for port in random.sample(ports, len(ports)):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            sock.close()
        else:
            return sock
    raise OSError(f"no free port among {ports}")


def _refused_connections() -> int:
    """How many connections failed on this machine so far, as the kernel counts them."""
    lines = [s.split() for s in Path("/proc/net/snmp").read_text().splitlines() if "Tcp:" in s]
    return int(dict(zip(*lines, strict=True))["AttemptFails"])


async def serve(plan: Plan) -> None:
    """Serve until the process is ended."""
    print(await Server(plan).listen(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Plan(**json.loads(sys.argv[1]))))
