"""Answers that go wrong, for the test server: one function for each kind of fault."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import orjson
from aiohttp import web

from verifier.faults import FaultKind


def json_answer(status: int, data: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer with `data` as its JSON body."""
    return web.Response(
        status=status,
        body=orjson.dumps(data),
        content_type="application/json",
        headers=headers,
    )


def error_answer(
    status: int, message: str, code: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An error in OpenAI's form."""
    return json_answer(status, {"error": {"message": message, "type": code, "code": code}}, headers)


def _rate_limit(number: int) -> web.Response:
    """429 with Retry-After in each of its forms in turn, all about a second."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True)
    forms: tuple[dict[str, str], ...] = (
        {"Retry-After": "1"},
        {"Retry-After": date},
        {"retry-after-ms": "500"},
        {},
    )
    return error_answer(
        429, "rate limit reached", "rate_limit_exceeded", forms[number % len(forms)]
    )


def _server_error(number: int) -> web.Response:
    return error_answer((500, 502, 503)[number % 3], "the server had an error", "server_error")


def _garbage(_number: int) -> web.Response:
    return web.Response(text="<html><body>Bad gateway</body></html>", content_type="text/html")


def _empty(_number: int) -> web.Response:
    return json_answer(200, {"object": "chat.completion", "choices": []})


def _auth(_number: int) -> web.Response:
    return error_answer(401, "Incorrect API key provided", "invalid_api_key")


def _error_in_200(_number: int) -> web.Response:
    return json_answer(200, {"error": {"message": "Provider returned error", "code": 502}})


INSTEAD: dict[FaultKind, Callable[[int], web.Response]] = {
    FaultKind.RATE_LIMIT: _rate_limit,
    FaultKind.SERVER_ERROR: _server_error,
    FaultKind.GARBAGE: _garbage,
    FaultKind.EMPTY: _empty,
    FaultKind.AUTH: _auth,
    FaultKind.ERROR_IN_200: _error_in_200,
}


async def _begin(request: web.Request, length: int) -> web.StreamResponse:
    """The head of an answer of `length` bytes, and its first few."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = length
    await response.prepare(request)
    await response.write(b'{"choices": [')
    return response


async def _hang(request: web.Request) -> web.StreamResponse:
    response = await _begin(request, 1000)
    while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110 - aiohttp tells a handler of a lost client in no other way
        await asyncio.sleep(0.1)
    return response


async def _cut_off(request: web.Request) -> web.StreamResponse:
    response = await _begin(request, 1000)
    _close(request)
    return response


async def _reset(request: web.Request) -> web.StreamResponse:
    _close(request)
    return web.Response()


def _close(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


TRANSPORT = {FaultKind.HANG: _hang, FaultKind.CUT_OFF: _cut_off, FaultKind.RESET: _reset}


def _truncated(choice: dict[str, Any]) -> None:
    content = choice["message"]["content"]
    choice["message"]["content"] = content[: len(content) // 2]
    choice["finish_reason"] = "length"


def _unparseable(choice: dict[str, Any]) -> None:
    choice["message"]["content"] = "It all looks fine to me."


def _refusal(choice: dict[str, Any]) -> None:
    choice["message"] |= {"content": None, "refusal": "I cannot help with that."}


def _content_filter(choice: dict[str, Any]) -> None:
    choice["finish_reason"] = "content_filter"


SPOILERS: dict[FaultKind, Callable[[dict[str, Any]], None]] = {
    FaultKind.TRUNCATED: _truncated,
    FaultKind.UNPARSEABLE: _unparseable,
    FaultKind.REFUSAL: _refusal,
    FaultKind.CONTENT_FILTER: _content_filter,
}
