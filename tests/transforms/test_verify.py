"""The verify DoFn: one bad record, bundles, threads, pickles, setup and teardown in any order."""

import json
import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import apache_beam as beam
import cloudpickle
import dill
import pyarrow as pa
import pytest
from apache_beam.pvalue import TaggedOutput
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, GlobalWindow, TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from schemas.dead_letter import DeadLetter
from schemas.errors import RunStoppedError
from schemas.json_schema import JsonSchema
from schemas.parse_record import parse_record
from schemas.policy import Policy
from schemas.record import Record
from schemas.source import Source
from scoring.prompt import data_block
from scoring.routing import RoutingRules
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import MODEL, Script, scripted_server, target
from transforms.composite import VerifyScoreRoute
from transforms.read import ReadRecords
from transforms.score import ScoreRecords
from transforms.verify import Verify, VerifyRecords
from verifier import backoff
from verifier.engine import close_engine, get_engine
from verifier.faults import FaultKind, Faults
from verifier.record_verifier import Verified
from verifier.server import LocalServer
from verifier.settings import VerifierSettings

DANGLING = {"properties": {"a": {"$ref": "#/$defs/Nowhere"}}}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backoff, "BASE_S", 0.01)
    yield
    close_engine()


def settings(server: LocalServer, **more: Any) -> VerifierSettings:
    quick = {"attempt_timeout": 2.0, "call_timeout": 4.0, "record_timeout": 8.0, "max_attempts": 3}
    return VerifierSettings(target=target(server), **{**quick, **more})


def dofn(server: LocalServer, **more: Any) -> Verify:
    return Verify(settings(server, **more), TEMPLATES)


def some(name: str, count: int = 1) -> list[Record]:
    return [record({"a": 1, "b": name}, id=f"{name}{i}") for i in range(count)]


def bundle(verify: Verify, records: list[Record]) -> list[Verified | DeadLetter]:
    verify.start_bundle()
    out: list[Any] = []
    for one in records:
        out += verify.process(one, WindowedValue(one, 0, [GlobalWindow()]))
    out += verify.finish_bundle()
    values = [o.value if isinstance(o, TaggedOutput) else o for o in out]
    return [v.value for v in values]


def ids(results: list[Verified | DeadLetter]) -> Counter[str | None]:
    return Counter(r.id if isinstance(r, DeadLetter) else r.record.id for r in results)


def test_one_bad_record_costs_its_neighbours_nothing() -> None:
    """It is a dead letter; the others are verified, each with one set of calls."""
    unchecked = JsonSchema(json.dumps(DANGLING), DANGLING)
    bad = replace(record({"a": 1}, id="bad"), json_schema=unchecked)
    with scripted_server() as (server, script):
        verify = dofn(server)
        verify.setup()
        results = bundle(verify, [*some("x", 2), bad, *some("y", 2)])
    dead = [r for r in results if isinstance(r, DeadLetter)]
    assert [(d.id, d.reason.value) for d in dead] == [("bad", "invalid_schema")]
    again = parse_record(json.loads(dead[0].payload) | {"json_schema": None})
    assert replace(again, json_schema=unchecked) == bad
    assert ids(results) == Counter(["x0", "x1", "bad", "y0", "y1"])
    assert set(script.asked().values()) == {4}


def test_an_unexpected_error_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours costs one record, and says that it is one."""
    original = data_block

    def broken(one: Record) -> Any:
        if one.id == "x1":
            raise ZeroDivisionError("oops")
        return original(one)

    monkeypatch.setattr("verifier.record_verifier.data_block", broken)
    with scripted_server() as (server, _):
        verify = dofn(server)
        verify.setup()
        results = bundle(verify, some("x", 3))
    (dead,) = [r for r in results if isinstance(r, DeadLetter)]
    assert "internal error" in dead.message
    assert ids(results) == Counter(["x0", "x1", "x2"])


def test_bundle_after_bundle_on_one_instance() -> None:
    """Also after teardown, twice, and after the engine was closed in between."""
    with scripted_server() as (server, _):
        verify = dofn(server)
        verify.setup()
        assert len(bundle(verify, some("x", 2))) == 2
        assert len(bundle(verify, some("y", 1))) == 1
        verify.teardown()
        verify.teardown()
        verify.setup()
        assert len(bundle(verify, some("z", 1))) == 1
        close_engine()
        assert len(bundle(verify, some("w", 1))) == 1
        assert len(bundle(verify, [])) == 0
    names = [t.name for t in threading.enumerate()]
    assert names.count("construct-beam-engine") == 1


def test_setup_and_teardown_without_elements() -> None:
    """A worker that never gets a record, and one that is never set up."""
    with scripted_server() as (server, script):
        verify = dofn(server)
        verify.teardown()
        verify.setup()
        verify.teardown()
    assert script.requests == []


def test_a_failed_bundles_leftovers_are_dropped() -> None:
    """What a failed bundle left under way does not come out in the next one."""
    with scripted_server(delay_ms=100) as (server, _):
        verify = dofn(server)
        verify.setup()
        verify.start_bundle()
        for one in some("lost", 3):
            assert list(verify.process(one, WindowedValue(one, 0, [GlobalWindow()]))) == []
        assert ids(bundle(verify, some("x", 2))) == Counter(["x0", "x1"])
        places = verify._verifier.places
        assert places.taken == 0


def test_limits_hold_over_bundles_and_threads() -> None:
    """Four instances on four threads: the server and the engine never see more than allowed."""
    with scripted_server(delay_ms=5) as (server, _):
        limits = {"max_concurrency": 7, "max_records_in_flight": 3}
        results: list[Verified | DeadLetter] = []
        most = 0

        def work(name: str) -> None:
            nonlocal most
            verify = dofn(server, **limits)
            verify.setup()
            for number in range(3):
                results.extend(bundle(verify, some(f"{name}{number}-", 6)))
                most = max(most, verify._verifier.places.taken)

        threads = [threading.Thread(target=work, args=(n,)) for n in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert 1 < server.stats.peak_in_flight <= 7
        assert most <= 3
    assert len(ids(results)) == len(results) == 72


def test_records_come_out_as_they_finish() -> None:
    """A slow record does not hold up those after it."""
    slow = threading.Event()

    def reply(_kind: str, fields: list[str]) -> None:
        if "slow" in fields:
            slow.wait(0.05)

    with scripted_server(Script(reply=reply)) as (server, _):
        verify = dofn(server)
        verify.setup()
        results = bundle(verify, [record({"slow": 1}, id="slow"), *some("x", 3)])
    assert len(results) == 4


@pytest.mark.parametrize("pickler", [pickle, cloudpickle, dill])
def test_transforms_travel_without_secrets(pickler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickled before and after use; the copy works; the key is not in the bytes."""
    monkeypatch.setenv("MARKER_KEY", "sk-marker-456")
    with scripted_server() as (server, _):
        chosen = settings(server, api_key_env="MARKER_KEY")
        verify = Verify(chosen, TEMPLATES)
        copy = pickler.loads(pickler.dumps(verify))
        copy.setup()
        assert len(bundle(copy, some("x", 2))) == 2
        transforms = [
            VerifyRecords(chosen, TEMPLATES),
            ScoreRecords(RoutingRules(Policy())),
            ReadRecords(Source(pa.schema([]))),
            VerifyScoreRoute(chosen, TEMPLATES, RoutingRules(Policy())),
            verify,
        ]
        for transform in transforms:
            data = pickler.dumps(transform)
            assert b"sk-marker-456" not in data
            assert type(pickler.loads(data)) is type(transform)


def test_windows_and_timestamps_are_kept() -> None:
    """A record comes out in the window it came in, with its timestamp."""
    with scripted_server() as (server, _):
        records = some("x", 3)

        def stamp(
            verified: Verified,
            time: Any = beam.DoFn.TimestampParam,
            window: Any = beam.DoFn.WindowParam,
        ) -> tuple[str, int, int]:
            return verified.record.id, int(time), int(window.start)

        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            out = (
                pipeline
                | beam.Create(records)
                | beam.Map(lambda r: TimestampedValue(r, 7 + 10 * int(r.id[1:]))).with_output_types(
                    Record
                )
                | beam.WindowInto(FixedWindows(10))
                | VerifyRecords(settings(server), TEMPLATES)
            )
            seen = out["verified"] | beam.Map(stamp)
            assert_that(seen, equal_to([("x0", 7, 0), ("x1", 17, 10), ("x2", 27, 20)]))


def test_a_model_that_judges_itself_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The generator's name is the verifier's."""
    own = [record({"a": i}, id=f"x{i}", generator=MODEL) for i in range(3)]
    with scripted_server() as (server, _):
        verify = dofn(server)
        verify.setup()
        bundle(verify, [*some("y"), *own])
    assert caplog.text.count("judges its own outputs") == 1


def test_a_fault_of_the_run_fails_the_bundle() -> None:
    """A bad key raises RunStoppedError out of the DoFn: nothing is scored or dead-lettered."""
    with scripted_server(faults=Faults({FaultKind.AUTH: 1.0})) as (server, _):
        verify = dofn(server)
        verify.setup()
        with pytest.raises(RunStoppedError, match="auth"):
            bundle(verify, some("x", 3))
        assert get_engine().fault()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_server_does_every_record_comes_out_once(seed: int) -> None:
    """All kinds of faults but a bad key: each record is verified or a dead letter, once."""
    kinds = [
        k for k in FaultKind if k not in {FaultKind.AUTH, FaultKind.SLOW, FaultKind.RATE_LIMIT}
    ]
    faults = Faults(dict.fromkeys(kinds, 0.06), seed)
    with scripted_server(faults=faults) as (server, _):
        limits = {"attempt_timeout": 0.3, "call_timeout": 1.0, "record_timeout": 2.0}
        verify = dofn(server, **limits)
        verify.setup()
        results = bundle(verify, some("x", 30))
    assert ids(results) == Counter(f"x{i}" for i in range(30))
    verdicts = [v for r in results if isinstance(r, Verified) for v in r.verdicts]
    assert len(verdicts) == 150
    assert all((v.reason is None) == v.reading.has_signal for v in verdicts)
