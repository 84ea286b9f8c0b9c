"""Each test that starts an engine or a server ends it, and leaves no thread behind."""

import sys
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_engine_left() -> Iterator[None]:
    yield
    engine = sys.modules.get("verifier.engine")
    if engine is not None:
        engine.close_engine()
    names = [t.name for t in threading.enumerate()]
    assert "construct-beam-engine" not in names
