"""A real Redis server for tests."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class RedisServer:
    """A server on a port of its own, which can be ended and begun again."""

    binary: str
    folder: Path
    port: int
    options: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The `--cache` for this server."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Begin, and wait until it listens."""
        self.process = subprocess.Popen(
            [self.binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--dir", str(self.folder), *self.options],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        for _ in range(500):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise AssertionError("redis-server does not listen")

    def stop(self) -> None:
        """End it, with all that it holds."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[RedisServer]:
    """The running server; the test is skipped where redis-server is not installed."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = RedisServer(binary, folder, port, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
