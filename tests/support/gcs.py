"""An emulated Google Cloud Storage for tests."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from gcp_storage_emulator.server import create_server

from storage import gcs


@contextmanager
def emulated_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """`gs://bucket` on an emulator in this process, named by STORAGE_EMULATOR_HOST."""
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
    server.start()
    logging.getLogger("gcp_storage_emulator").setLevel(logging.ERROR)
    port = server._api._httpd.server_address[1]
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    gcs._client.cache_clear()
    try:
        yield "gs://bucket"
    finally:
        gcs._client.cache_clear()
        server.stop()
