"""A chat-completions server that is much faster than any client of it here.

It speaks just enough HTTP/1.1 (keep-alive, Content-Length) to answer construct-beam's prompts and
those of the reference implementation with canned good replies after a fixed delay. It parses no
JSON: a reply is chosen by a few bytes of the request.

  python benchmarks/canned_server.py PORT DELAY_MS FIELD [FIELD ...]

GET / answers the number of requests, the peak in flight and the server's CPU seconds so far.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Sequence
from typing import ClassVar

import uvloop


def completion(content: str) -> bytes:
    """A whole HTTP answer with `content` as the model's message."""
    body = json.dumps(
        {
            "id": "canned",
            "object": "chat.completion",
            "created": 0,
            "model": "canned-1",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 700, "completion_tokens": 90, "total_tokens": 790},
        }
    ).encode()
    return http(body)


def http(body: bytes) -> bytes:
    """An HTTP answer with a JSON body."""
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def canned_replies(fields: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """(what a request contains, its answer), the first match counts."""
    explanation = "The value stands in the second line of the document, word for word."
    numeric = {f: {"explanation": explanation, "score": 95} for f in fields}
    likert = {f: {"explanation": explanation, "confidence": "Certain"} for f in fields}
    audit = {"explanation": explanation, "incorrect_fields": []}
    by_score = completion(json.dumps(numeric))
    by_word = completion(json.dumps(likert))
    scored = completion(json.dumps(audit | {"confidence_score": 95}))
    rated = completion(json.dumps(audit | {"rating": 9}))
    return [
        (b"(field_scores; score: 0-100)", by_score),
        (b"; confidence: ", by_word),
        (b"; confidence_score: 0-100)", scored),
        (b"; rating: 0-10)", rated),
        # The names of the reference implementation's reply schemas.
        (b"PerFieldCertaintyEvaluation", by_score),
        (b"PerFieldCorrectnessEvaluation", by_word),
        (b"ConfidenceModel", scored),
        (b"RatingModel", rated),
        (b"", completion(f"<think>\n{explanation}\n</think>\n<score>\n95\n</score>")),
    ]


class Canned(asyncio.Protocol):
    """One connection."""

    replies: ClassVar[list[tuple[bytes, bytes]]] = []
    delay = 0.0
    requests = in_flight = peak = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport
        self._buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        """Answer every complete request in the buffer."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[: end + 4]).lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 : head.index(b"\r\n", at)]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"get"):
            stats = [Canned.requests, Canned.peak, time.process_time()]
            self._write(http(json.dumps(stats).encode()))
            return
        Canned.requests += 1
        Canned.in_flight += 1
        Canned.peak = max(Canned.peak, Canned.in_flight)
        answer = next(reply for marker, reply in self.replies if marker in body)
        asyncio.get_running_loop().call_later(self.delay, self._finish, answer)

    def _finish(self, answer: bytes) -> None:
        Canned.in_flight -= 1
        self._write(answer)

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)  # type: ignore[attr-defined]


async def serve(port: int) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = await loop.create_server(Canned, sock=listener, backlog=4096)
    print(listener.getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    Canned.delay = float(sys.argv[2]) / 1000
    Canned.replies = canned_replies(sys.argv[3:])
    uvloop.run(serve(int(sys.argv[1])))
