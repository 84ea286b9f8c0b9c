"""The verify DoFn: one bad record, bundles, threads, pickles, setup and teardown in any order."""

import json
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator
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

from schemas.arrow_scored import OutputShape
from schemas.dead_letter import DeadLetter
from schemas.errors import RunStoppedError
from schemas.json_schema import JsonSchema
from schemas.parse_record import parse_record
from schemas.policy import Policy
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.source import Source
from scoring.prompt import data_block
from scoring.routing import RoutingRules
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import (
    MODEL,
    Asked,
    RawServer,
    Says,
    raw_server,
    says_error,
    says_good,
    scripted_server,
    target,
    until,
)
from transforms.composite import VerifyScoreRoute
from transforms.read import ReadRecords
from transforms.score import ScoreRecords
from transforms.verify import Verify, VerifyRecords
from transforms.write import WriteScored
from verifier import backoff
from verifier.engine import close_engine, get_engine
from verifier.faults import FaultKind, Faults
from verifier.record_verifier import Verified
from verifier.request import RequestWriter
from verifier.score import score_verified
from verifier.server import LocalServer
from verifier.settings import VerifierSettings

DANGLING = {"properties": {"a": {"$ref": "#/$defs/Nowhere"}}}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backoff, "BASE_S", 0.01)
    yield
    close_engine()


def settings(server: LocalServer | RawServer, **more: Any) -> VerifierSettings:
    quick = {"attempt_timeout": 2.0, "call_timeout": 4.0, "record_timeout": 8.0, "max_attempts": 3}
    where = server.target if isinstance(server, RawServer) else target(server)
    return VerifierSettings(target=where, **{**quick, **more})


def dofn(server: LocalServer | RawServer, **more: Any) -> Verify:
    return Verify(settings(server, **more), TEMPLATES)


def some(name: str, count: int = 1) -> list[Record]:
    return [record({"a": i, "b": name}, id=f"{name}{i}") for i in range(count)]


def process(verify: Verify, *records: Record) -> list[Verified | DeadLetter]:
    """What comes out while the records go in."""
    out: list[Any] = []
    for one in records:
        out += verify.process(one, WindowedValue(one, 0, [GlobalWindow()]))
    return unpacked(out)


def unpacked(out: list[Any]) -> list[Verified | DeadLetter]:
    values = [o.value if isinstance(o, TaggedOutput) else o for o in out]
    return [v.value for v in values]


def bundle(verify: Verify, records: list[Record]) -> list[Verified | DeadLetter]:
    verify.start_bundle()
    return process(verify, *records) + unpacked(list(verify.finish_bundle()))


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


def test_a_record_that_the_verifier_refuses_is_one_dead_letter() -> None:
    """Bad requests for one record: the others are scored, and each was sent once."""

    def plan(asked: Asked) -> Says | None:
        return says_error(400, "bad request") if '"b":"bad"' in asked.text else None

    with raw_server(plan) as server:
        verify = dofn(server)
        verify.setup()
        results = bundle(verify, [*some("x", 2), *some("bad"), *some("y", 2)])
        assert len(server.asked) == len({a.raw for a in server.asked}) == 25
    rules = RoutingRules(Policy())
    placed = [score_verified(r, rules) for r in results if isinstance(r, Verified)]
    (dead,) = [p for p in placed if isinstance(p, DeadLetter)]
    assert len(placed) == 5
    assert (dead.id, dead.reason, dead.attempts) == ("bad0", FailureReason.BAD_REQUEST, 5)
    assert parse_record(json.loads(dead.payload)) == some("bad")[0]


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


def test_a_request_that_cannot_be_written_is_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It fails on the engine's thread, and is not waited for for ever."""
    original = RequestWriter.data_message

    def broken(writer: RequestWriter, data: Any, fields: tuple[str, ...]) -> Any:
        if "x1" in data.text:
            raise TypeError("no JSON form")
        return original(writer, data, fields)

    monkeypatch.setattr(RequestWriter, "data_message", broken)
    with scripted_server() as (server, _):
        verify = dofn(server)
        verify.setup()
        results = bundle(verify, [record({"a": f"x{i}"}, id=f"x{i}") for i in range(3)])
    (dead,) = [r for r in results if isinstance(r, DeadLetter)]
    assert (dead.id, "internal error" in dead.message) == ("x1", True)
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


LOST, KEPT = some("lost", 2), some("x", 2)


@pytest.mark.parametrize(
    "steps",
    [
        "start process",
        "start process start process teardown setup",
        "start finish teardown teardown setup",
        "start process finish start process finish start process",
        "start process teardown setup",
        "start process setup",
        "start process close",
        "close start finish",
        "start process close teardown setup",
        "start finish finish",
        "finish",
        "teardown teardown setup",
    ],
)
def test_after_any_order_of_calls_the_next_bundle_is_whole(steps: str) -> None:
    """Runners skip calls after failures; whatever went before, a bundle has its own records."""
    with scripted_server(delay_ms=20) as (server, _):
        verify = dofn(server)
        verify.setup()
        calls: dict[str, Callable[[], Any]] = {
            "setup": verify.setup,
            "start": verify.start_bundle,
            "process": lambda: process(verify, *LOST),
            "finish": lambda: list(verify.finish_bundle()),
            "teardown": verify.teardown,
            "close": close_engine,
        }
        for step in steps.split():
            calls[step]()
        assert ids(bundle(verify, KEPT)) == Counter(["x0", "x1"])
        assert verify._verifier.places.taken == 0


@pytest.mark.parametrize("end", [close_engine, lambda: get_engine().stop("enough")])
def test_an_engine_that_ends_under_a_bundle_fails_it(end: Callable[[], None]) -> None:
    """It raises, waiting for a place or for results; it never waits for ever."""
    with raw_server(lambda _asked: Says(ends="hang")) as server:
        errors: list[BaseException] = []
        started = threading.Barrier(3)

        def work(name: str) -> None:
            verify = dofn(server, max_records_in_flight=2)
            verify.setup()
            started.wait(10)
            try:
                bundle(verify, some(name, 3 if name == "many" else 1))
            except RunStoppedError as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in ("many", "one")]
        for thread in threads:
            thread.start()
        started.wait(10)
        until(lambda: len(server.asked) >= 10)
        end()
        for thread in threads:
            thread.join(10)
    assert len(errors) == 2


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


def in_threads(work: Callable[[str], None], names: str) -> None:
    """Each name on a thread of its own."""
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_limits_hold_over_bundles_and_threads() -> None:
    """Four instances on four threads: the server and the engine never see more than allowed."""
    limits = {"max_concurrency": 7, "max_records_in_flight": 3}
    results: list[Verified | DeadLetter] = []
    taken: list[int] = []
    with raw_server() as server:
        first = dofn(server, **limits)
        first.setup()
        places = first._verifier.places

        def plan(_asked: Asked) -> Says | None:
            taken.append(places.taken)
            return None

        server.plan = plan

        def work(name: str) -> None:
            verify = dofn(server, **limits)
            verify.setup()
            for number in range(3):
                results.extend(bundle(verify, some(f"{name}{number}-", 6)))

        in_threads(work, "abcd")
        assert 1 < server.peak <= 7
        assert 1 < max(taken) <= 3
        assert places.taken == 0
    assert len(ids(results)) == len(results) == 72


def test_a_wide_bundle_opens_no_more_than_its_share() -> None:
    """Hundreds of records at once in one bundle: no more requests or records than allowed."""
    with scripted_server() as (server, script):
        verify = dofn(server, max_concurrency=8, max_records_in_flight=20)
        verify.setup()
        results = bundle(verify, some("x", 300))
        assert server.stats.peak_in_flight <= 8
        assert verify._verifier.places.taken == 0
    assert len(ids(results)) == len(results) == 300
    assert set(script.asked().values()) == {300}


def test_a_slow_record_idles_no_other() -> None:
    """Its calls hang in five of six slots until all others have been through the sixth."""
    with raw_server() as server:

        def plan(asked: Asked) -> Says | None:
            if '"b":"slow"' not in asked.text:
                return None
            all_asked = 5 + 5 * 20
            return replace(says_good(asked.body), when=lambda: len(server.asked) == all_asked)

        server.plan = plan
        verify = dofn(server, max_concurrency=6, attempt_timeout=4.0, max_attempts=1)
        verify.setup()
        results = bundle(verify, [*some("slow"), *some("x", 20)])
    verdicts = [v for r in results if isinstance(r, Verified) for v in r.verdicts]
    assert ids(results) == Counter(["slow0", *(f"x{i}" for i in range(20))])
    assert {v.reason for v in verdicts} == {None}


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
        shape = OutputShape(pa.schema([]), TEMPLATES.names)
        transforms = [
            VerifyRecords(chosen, TEMPLATES),
            ScoreRecords(RoutingRules(Policy())),
            ReadRecords(Source(pa.schema([]))),
            WriteScored("out", shape),
            VerifyScoreRoute(chosen, TEMPLATES, RoutingRules(Policy())),
            verify,
        ]
        for transform in transforms:
            data = pickler.dumps(transform)
            assert b"sk-marker-456" not in data
            assert type(pickler.loads(data)) is type(transform)


def test_a_transform_travels_after_a_run() -> None:
    """What a pipeline used once, it can submit again."""
    with scripted_server() as (server, _):
        transform = VerifyRecords(settings(server), TEMPLATES)
        for used in (transform, cloudpickle.loads(cloudpickle.dumps(transform))):
            with beam.Pipeline(runner="FnApiRunner") as pipeline:
                out = pipeline | beam.Create(some("x", 3)) | used
                assert_that(
                    out["verified"] | beam.Map(lambda v: v.record.id), equal_to(["x0", "x1", "x2"])
                )
            assert cloudpickle.dumps(used)


@pytest.mark.parametrize("pickler", [cloudpickle, dill])
def test_a_used_dofn_is_copied_without_its_engine(pickler: Any) -> None:
    """Threads, locks and sessions stay where they are; the copy sets up its own."""
    with scripted_server() as (server, _):
        verify = dofn(server)
        verify.setup()
        assert len(bundle(verify, some("x", 2))) == 2
        copy = pickler.loads(pickler.dumps(verify))
        copy.setup()
        assert ids(bundle(copy, some("y", 2))) == Counter(["y0", "y1"])


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


def test_a_fault_of_the_run_comes_out_of_the_pipeline(caplog: pytest.LogCaptureFixture) -> None:
    """One clear error that names the URL; no record is scored or lost on the way."""
    caplog.set_level("CRITICAL")
    with raw_server(lambda _asked: says_error(401, "Incorrect API key provided")) as server:
        pipeline = beam.Pipeline(runner="FnApiRunner")
        _ = pipeline | beam.Create(some("x", 5)) | VerifyRecords(settings(server), TEMPLATES)
        with pytest.raises(RunStoppedError, match=rf"{server.url}.*Incorrect API key"):
            pipeline.run()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_server_does_every_record_comes_out_once(seed: int) -> None:
    """All kinds of faults but a bad key: each record is verified or a dead letter, once."""
    kinds = [k for k in FaultKind if k is not FaultKind.AUTH]
    faults = Faults(dict.fromkeys(kinds, 0.06), seed, slow_ms=50)
    with scripted_server(faults=faults) as (server, _):
        limits = {"attempt_timeout": 0.3, "call_timeout": 1.0, "record_timeout": 2.0}
        verify = dofn(server, max_retry_wait=0.1, **limits)
        verify.setup()
        results = bundle(verify, some("x", 30))
    assert ids(results) == Counter(f"x{i}" for i in range(30))
    verdicts = [v for r in results if isinstance(r, Verified) for v in r.verdicts]
    assert len(verdicts) == 150
    assert all((v.reason is None) == v.reading.has_signal for v in verdicts)
