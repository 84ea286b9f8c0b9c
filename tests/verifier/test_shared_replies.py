"""Replies are paid for once: kept in a cache, and shared by calls that ask the same."""

import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from schemas.reasons import FailureReason
from schemas.verdict import VerdictStatus
from scoring.templates import TemplateSet
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import Says, raw_server, scripted_server, target
from verifier import backoff
from verifier.engine import close_engine, get_engine
from verifier.faults import FaultKind, Faults
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.settings import VerifierSettings


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backoff, "BASE_S", 0.01)
    yield
    close_engine()


def checker(
    url: str, cache: Path, templates: TemplateSet = TEMPLATES, **settings: Any
) -> RecordVerifier:
    chosen = VerifierSettings(target=url, cache=f"file:{cache}", **settings)
    return RecordVerifier(get_engine(), chosen, templates)


def start(verifier: RecordVerifier, number: int = 0, name: str = "r") -> Future[Verified]:
    future: Future[Verified] = Future()

    def deliver(result: Verified | BaseException) -> None:
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    verifier.post(prepare(record({"a": number, "b": "x"}, id=name)), deliver)
    return future


def readings(verified: Verified) -> list[Any]:
    return [(v.template, v.reading, v.reason, v.model_answered) for v in verified.verdicts]


def test_a_second_run_pays_for_nothing_and_says_when_the_replies_came(tmp_path: Path) -> None:
    """The engine is new, the replies are those of before: also their time of arrival."""
    with scripted_server() as (server, _):
        first = start(checker(target(server), tmp_path / "c"), name="one").result(20)
        close_engine()
        again = start(checker(target(server), tmp_path / "c"), name="two").result(20)
        sent = server.stats.requests
    assert sent == 5
    assert readings(again) == readings(first)
    assert [v.arrived_at for v in again.verdicts] == [v.arrived_at for v in first.verdicts]
    assert [v.usage.attempts for v in again.verdicts] == [0] * 5
    assert sum(v.usage.prompt_tokens for v in first.verdicts) > 0
    assert sum(v.usage.prompt_tokens for v in again.verdicts) == 0


def test_another_record_is_asked_about(tmp_path: Path) -> None:
    """What differs in what is sent is another request."""
    with scripted_server() as (server, _):
        verifier = checker(target(server), tmp_path / "c")
        for number in range(3):
            start(verifier, number).result(20)
        sent = server.stats.requests
    assert sent == 15


def test_identical_requests_in_flight_are_sent_once(tmp_path: Path) -> None:
    """Twenty equal records at once, more than there are workers: five requests."""
    with scripted_server(delay_ms=50) as (server, _):
        verifier = checker(target(server), tmp_path / "c", max_concurrency=2)
        results = [f.result(20) for f in [start(verifier, name=f"r{i}") for i in range(20)]]
        sent = server.stats.requests
    assert sent == 5
    assert all(readings(r) == readings(results[0]) for r in results)
    assert sum(v.usage.attempts for r in results for v in r.verdicts) == 5


def test_followers_go_on_when_their_leader_fails(tmp_path: Path) -> None:
    """Faults that may pass are not shared: each record still gets its five verdicts."""
    faults = Faults({FaultKind.SERVER_ERROR: 0.3}, seed=2)
    with scripted_server(faults=faults, delay_ms=10) as (server, _):
        verifier = checker(target(server), tmp_path / "c", max_attempts=20)
        results = [f.result(30) for f in [start(verifier, name=f"r{i}") for i in range(10)]]
    assert all(v.status is VerdictStatus.OK for r in results for v in r.verdicts)


ONE = TemplateSet(templates=(TEMPLATES["document_critique"],))


def test_a_leader_that_gives_up_hands_over(tmp_path: Path) -> None:
    """The leader's record ends by its deadline; who follows sends the request itself."""

    def hang_first(asked: Any) -> Says | None:
        return Says(ends="hang") if asked.number == 1 else None

    with raw_server(hang_first) as server:
        impatient = checker(
            server.target, tmp_path / "c", ONE,
            attempt_timeout=0.3, call_timeout=0.3, record_timeout=0.3,
        )  # fmt: skip
        patient = checker(server.target, tmp_path / "c", ONE)
        first = start(impatient, name="first")
        time.sleep(0.1)
        second = start(patient, name="second")
        (gave_up,), (good,) = first.result(20).verdicts, second.result(20).verdicts
    assert gave_up.reason is FailureReason.TIMEOUT
    assert good.status is VerdictStatus.OK


def test_a_refusal_is_paid_for_once(tmp_path: Path) -> None:
    """It comes again at temperature 0; a second run does not ask again."""
    with scripted_server(faults=Faults({FaultKind.REFUSAL: 1.0})) as (server, _):
        first = start(checker(target(server), tmp_path / "c")).result(20)
        close_engine()
        again = start(checker(target(server), tmp_path / "c")).result(20)
        sent = server.stats.requests
    assert sent == 5
    assert {v.reason for v in (*first.verdicts, *again.verdicts)} == {FailureReason.REFUSAL}


def test_without_a_cache_nothing_is_shared() -> None:
    """Each record asks for itself."""
    with scripted_server() as (server, _):
        verifier = RecordVerifier(get_engine(), VerifierSettings(target=target(server)), TEMPLATES)
        for _ in range(2):
            start(verifier).result(20)
        sent = server.stats.requests
    assert sent == 10
