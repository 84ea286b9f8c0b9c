"""Google's token endpoint and Secret Manager on loopback, with an account that they know."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.credentials import AnonymousCredentials
from google.cloud import secretmanager

from verifier import google_keys


class FakeGoogle:
    """Gives out `token-1`, `token-2`, … for `token_seconds` each, and the secrets in `secrets`.

    Requests are first answered with the statuses that `failing` gives.
    """

    def __init__(self) -> None:
        self.url = ""
        self.failing: Iterator[int] = iter(())
        self.token_seconds = 3600
        self.tokens = 0
        self.secrets: dict[str, bytes] = {}
        self.asked: list[str] = []

    def answer(self, path: str) -> tuple[int, Any]:
        self.asked.append(path)
        status = next(self.failing, 200)
        if status != 200:
            return status, {"error": {"code": status, "message": "no"}}
        if path == "/token":
            self.tokens += 1
            token = f"token-{self.tokens}"
            return 200, {"access_token": token, "expires_in": self.token_seconds}
        name = path.removeprefix("/v1/").partition(":access")[0]
        if name not in self.secrets:
            return 404, {"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}}
        data = base64.b64encode(self.secrets[name]).decode()
        return 200, {"name": name, "payload": {"data": data}}

    def account(self, path: Path) -> Path:
        """A key file for a service account whose tokens come from here."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        info = {
            "type": "service_account",
            "project_id": "p",
            "private_key_id": "1",
            "private_key": pem.decode(),
            "client_email": "judge@p.iam.gserviceaccount.com",
            "token_uri": f"{self.url}/token",
        }
        path.write_text(json.dumps(info))
        return path


@contextmanager
def fake_google() -> Iterator[FakeGoogle]:
    """The running server."""
    google = FakeGoogle()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = google.answer(self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    google.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield google
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def use(google: FakeGoogle, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have this process's account and secrets come from `google`."""
    account = google.account(folder / "account.json")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    client = secretmanager.SecretManagerServiceClient(
        credentials=AnonymousCredentials(),
        transport="rest",
        client_options={"api_endpoint": google.url},
    )
    monkeypatch.setattr(google_keys, "_secrets", lambda _location: client)
    google_keys._credentials.cache_clear()
    pauses = SimpleNamespace(sleep=lambda _seconds: None)
    monkeypatch.setattr("google.auth._exponential_backoff.time", pauses)
