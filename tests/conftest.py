"""Each test that starts an engine or an embedded verifier ends it, and leaves no thread behind."""

import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong: hangs are the business of pytest-timeout.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

OURS = {
    "construct-beam-cache-read",
    "construct-beam-cache-write",
    "construct-beam-engine",
    "construct-beam-server",
    "raw-server",
}


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    yield
    # Tests that never import the verifier do not wait for it to be imported here.
    engine = sys.modules.get("verifier.engine")
    if engine is not None:
        engine.close_engine()
    embedded = sys.modules.get("verifier.embedded")
    while embedded is not None and embedded._servers:
        embedded._servers.popitem()[1].stop()
    assert not OURS & {t.name for t in threading.enumerate()}
