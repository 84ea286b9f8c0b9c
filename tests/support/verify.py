"""Records on their way through the engine of a test's process."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from schemas.record import Record
from schemas.verdict import Verdict
from scoring.templates import TemplateSet
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import RawServer
from verifier.engine import get_engine
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.settings import VerifierSettings

Outcome = Verified | BaseException
ONE_TEMPLATE = TemplateSet(templates=(TEMPLATES["fields_numeric"],))
QUICK = {"attempt_timeout": 2.0, "call_timeout": 4.0, "record_timeout": 6.0}


def checker(
    server: RawServer, templates: TemplateSet = ONE_TEMPLATE, **more: Any
) -> RecordVerifier:
    """A verifier that asks `server`."""
    settings = VerifierSettings.model_validate({"target": server.target, **QUICK, **more})
    return RecordVerifier(get_engine(), settings, templates)


def one(number: int = 0) -> Record:
    """A record like no other."""
    return record({"a": number}, id=f"r{number}")


def start(verifier: RecordVerifier, *records: Record) -> list[Future[Outcome]]:
    """What will become of each record."""
    futures: list[Future[Outcome]] = []
    for each in records:
        future: Future[Outcome] = Future()
        verifier.post(prepare(each), future.set_result)
        futures.append(future)
    return futures


def outcomes(futures: Sequence[Future[Outcome]]) -> list[Outcome]:
    """What became of each record."""
    return [future.result(20) for future in futures]


def verdicts(verifier: RecordVerifier, *records: Record) -> list[Verdict]:
    """All verdicts on some records."""
    results = outcomes(start(verifier, *records))
    assert all(isinstance(r, Verified) for r in results), results
    return [v for r in results if isinstance(r, Verified) for v in r.verdicts]
