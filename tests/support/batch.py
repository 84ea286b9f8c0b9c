"""A provider's Batch API for tests: request lines in, lines of results out."""

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from tests.support.scripted import Says, says_good

Answer = Callable[[Mapping[str, Any]], Says | None]
"""The answer to a request's body; None is a good reply."""


def request_lines(folder: Path) -> list[dict[str, Any]]:
    """The requests of an export, in order of its files."""
    paths = sorted((folder / "requests").glob("*.jsonl"))
    return [orjson.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def result_line(request: Mapping[str, Any], says: Says) -> bytes:
    """The result of a request that was answered so."""
    body = says.data if not says.data.startswith(b"{") else orjson.Fragment(says.data)
    return orjson.dumps(
        {
            "id": f"batch_req_{request['custom_id']}",
            "custom_id": request["custom_id"],
            "response": {"status_code": says.status, "request_id": "req_1", "body": body},
            "error": None,
        }
    )


def error_line(request: Mapping[str, Any], code: str, message: str = "") -> bytes:
    """The result of a request that was never sent."""
    error = {"code": code, "message": message}
    return json.dumps(
        {"custom_id": request["custom_id"], "response": None, "error": error}
    ).encode()


def answered(folder: Path, answer: Answer = lambda _body: None) -> tuple[list[bytes], list[bytes]]:
    """The lines of the output file, and those of the error file, for all requests of an export."""
    output: list[bytes] = []
    errors: list[bytes] = []
    for request in request_lines(folder):
        says = answer(request["body"]) or says_good(request["body"])
        (output if says.status == 200 else errors).append(result_line(request, says))
    return output, errors


def write_lines(path: Path, lines: Iterable[bytes]) -> Path:
    """A file of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def shuffled_over(folder: Path, lines: list[bytes], files: int, seed: int) -> str:
    """The lines in any order over several files. Returns their glob."""
    mixed = list(lines)
    random.Random(seed).shuffle(mixed)
    for number in range(files):
        write_lines(folder / f"part-{number}.jsonl", mixed[number::files])
    return str(folder / "*.jsonl")
