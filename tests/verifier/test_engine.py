"""One engine per process: made once, shared, closed without a trace, and its latch."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from schemas.errors import RunStoppedError
from schemas.record import Record
from scoring.templates import TemplateSet
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import RawServer, Says, raw_server
from verifier.answer import Reply
from verifier.endpoint import Endpoint
from verifier.endpoint_state import PROBE_AFTER_S, Counters, EndpointState
from verifier.engine import Engine, close_engine, get_engine
from verifier.key_source import variable
from verifier.places import Places
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.settings import VerifierSettings

ONE_TEMPLATE = TemplateSet(templates=(TEMPLATES["fields_numeric"],))


GOOD = Reply("good", None, 0, 0, 0)


def settings(target: str = "http://h.example#m", **more: object) -> VerifierSettings:
    quick = {"attempt_timeout": 2.0, "call_timeout": 2.0, "record_timeout": 2.0, "max_attempts": 1}
    return VerifierSettings.model_validate({"target": target, **quick, **more})


def start(server: RawServer, one: Record) -> Future[Verified | BaseException]:
    checker = RecordVerifier(get_engine(), settings(server.target), ONE_TEMPLATE)
    done: Future[Verified | BaseException] = Future()
    checker.post(prepare(one), done.set_result)
    return done


def verify(server: RawServer, number: int = 0) -> Verified:
    result = start(server, record({"a": number})).result(10)
    assert isinstance(result, Verified)
    return result


def engine_threads() -> int:
    return [t.name for t in threading.enumerate()].count("construct-beam-engine")


def at_once(count: int, work: Callable[[], object]) -> list[object]:
    """What `work` returns on each of `count` threads that begin together."""
    barrier, results = threading.Barrier(count), list[object]()

    def run() -> None:
        barrier.wait()
        results.append(work())

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return results


def test_all_threads_get_the_same_engine() -> None:
    """Also those that ask for the first one at the same moment."""
    engines = at_once(8, get_engine)
    assert len(engines) == 8
    assert len(set(map(id, engines))) == 1
    assert engine_threads() == 1


def test_a_closed_engine_leaves_no_thread_and_another_takes_its_place() -> None:
    """Closing twice, or without an engine, does nothing."""
    with raw_server() as server:
        verify(server)
        first = get_engine()
        close_engine()
        close_engine()
        assert engine_threads() == 0
        assert not first.alive
        assert first.session.closed
        verify(server)
        assert get_engine() is not first


def test_closing_ends_what_is_under_way() -> None:
    """An answer that never comes: the record ends with RunStoppedError, the thread with it."""
    with raw_server(lambda _asked: Says(ends="hang")) as server:
        done = start(server, record({"a": 1}))
        engine = get_engine()
        close_engine()
        assert isinstance(done.result(5), RunStoppedError)
        assert engine_threads() == 0
        with pytest.raises(RunStoppedError, match="closed"):
            engine.post(lambda: None)


def test_a_stopped_engine_takes_nothing_more() -> None:
    """Every record under way ends at once with the reason; new ones are refused with it."""
    with raw_server(lambda _asked: Says(ends="hang")) as server:
        waiting = [start(server, record({"a": i})) for i in range(5)]
        get_engine().stop("Ctrl-C")
        results = [done.result(5) for done in waiting]
        assert [str(r) for r in results] == ["Ctrl-C"] * 5
        with pytest.raises(RunStoppedError, match="Ctrl-C"):
            start(server, record({"a": 9}))
        assert get_engine().stopped == get_engine().fault() == "Ctrl-C"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_an_engine_of_its_own() -> None:
    """Both work afterwards: the child does not use, or break, what it inherited."""
    with raw_server() as server:
        verify(server)
        engine = get_engine()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            fine = False
            try:
                verify(server, 1)
                fine = get_engine() is not engine and not engine.alive
                close_engine()
            finally:
                os._exit(0 if fine else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert get_engine() is engine
        for number in range(2, 5):
            verify(server, number)
        assert len(server.asked) == 5


CHILD = """
import sys
from scoring.templates import builtin_templates
from verifier.engine import get_engine
from verifier.scorer import Scorer
from verifier.settings import VerifierSettings

settings = VerifierSettings(
    target=sys.argv[1], attempt_timeout=5, call_timeout=5, record_timeout=5
)
print(Scorer(settings).score_sync(document="Total 40", output={"total": 40}).route)
"""


def test_a_fresh_process_ends_by_itself() -> None:
    """At exit the engine is closed: no hanging thread, no warning of what was left open."""
    with raw_server() as server:
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", CHILD, server.target],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "auto_accept\n")
    assert "Unclosed" not in done.stderr
    assert "was destroyed" not in done.stderr
    assert len(server.asked) == 5


def limits(state: EndpointState) -> tuple[int, int, int]:
    return state.pool.limit, state.places.limit, state.gate.limit


def test_the_smallest_limits_of_an_endpoint_win() -> None:
    """Whoever comes first or last; another URL or key is another endpoint."""
    engine = Engine()
    try:
        endpoint = Endpoint("http://h.example", "m", None)
        state = engine.state(endpoint, settings(max_concurrency=8, max_records_in_flight=30))
        assert limits(state) == (8, 30, 30)
        for concurrency, records, expected in ((3, 40, (3, 30, 30)), (9, 20, (3, 20, 20))):
            more = settings(max_concurrency=concurrency, max_records_in_flight=records)
            other_model = Endpoint("http://h.example", "other", None)
            assert engine.state(other_model, more) is state
            assert limits(state) == expected
        for other in (
            Endpoint("http://other.example", "m", None),
            Endpoint("http://h.example", "m", variable("KEY")),
        ):
            assert engine.state(other, settings(max_concurrency=8)) is not state
    finally:
        engine.close()


def test_threads_that_meet_a_new_endpoint_share_its_state() -> None:
    """They come at the same moment, and none makes a state of its own."""
    engine = get_engine()
    endpoint = Endpoint("http://h.example", "m", None)
    states = at_once(8, lambda: engine.state(endpoint, settings()))
    assert len(set(map(id, states))) == 1


def test_places_are_never_more_than_their_limit() -> None:
    """Threads that come, wait, give up and go: nobody is counted twice or left behind."""
    places, most = Places(3), list[int]()

    def work() -> None:
        for turn in range(200):
            if places.acquire(0.001 if turn % 3 else 0):
                most.append(places.taken)
                places.release()

    at_once(8, work)
    assert max(most) <= 3
    assert places.taken == 0
    assert [places.acquire(0) for _ in range(5)] == [True, True, True, False, False]


def test_counters_add_up_over_endpoints() -> None:
    """Requests, retries, failures and records of the whole process."""
    engine = get_engine()
    for host in ("a", "b"):
        state = engine.state(Endpoint(f"http://{host}.example", "m", None), settings())
        state.counters = Counters(requests=3, retries=2, failures=1, records=1)
    assert engine.counters() == Counters(requests=6, retries=4, failures=2, records=2)


def test_what_was_sent_is_counted() -> None:
    """A record with its requests, and a failure."""
    with raw_server(lambda asked: Says(500) if asked.number == 2 else None) as server:
        verify(server)
        verify(server)
    assert get_engine().counters() == Counters(requests=2, failures=1, records=2)


@pytest.fixture
def state() -> EndpointState:
    return EndpointState("http://a.example/v1", settings())


def passes(state: EndpointState, now: float) -> bool:
    try:
        state.check(now)
    except RunStoppedError as error:
        assert str(error) == state.latched  # noqa: PT017 - it is raised or it is not
        return False
    return True


def test_a_latched_endpoint_lets_one_probe_through(state: EndpointState) -> None:
    """At once nothing; after a while one call; its success opens the endpoint again."""
    assert passes(state, 0)
    state.latch("bad key", 100)
    late = 100 + PROBE_AFTER_S
    assert [passes(state, t) for t in (100, late - 1, late, late + 1)] == [
        False,
        False,
        True,
        False,
    ]
    state.answered("r", late, 1, GOOD)
    assert passes(state, late + 2)


def test_a_call_from_before_the_fault_does_not_undo_the_latch(state: EndpointState) -> None:
    """It was under way already, and says nothing of what is sent from now on."""
    state.latch("out of credit", 100)
    state.answered("r", 99, 1, GOOD)
    assert not passes(state, 101)


def test_a_success_clears_the_count_of_forbidden_records(state: EndpointState) -> None:
    """403s count only without a success between them."""
    state.forbidden |= {"r1", "r2"}
    state.answered("r", 5, 1, GOOD)
    assert not state.forbidden


def test_a_record_posted_as_the_engine_closes_is_told_so() -> None:
    """It is handed over between the end of all records and the end of the loop."""
    engine = get_engine()
    with raw_server(lambda _: None) as server:
        verifier = RecordVerifier(engine, settings(server.target), TEMPLATES)
        future: Future[Any] = Future()

        def late() -> None:
            verifier.start(prepare(record({"a": 1})), future.set_result)

        engine.stop("enough")
        engine.loop.call_soon_threadsafe(late)
        close_engine()
    assert isinstance(future.result(5), RunStoppedError)


def test_what_raises_on_the_loop_delays_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; those behind it are called."""
    engine, called = get_engine(), threading.Event()

    def broken() -> None:
        raise ValueError("broken")

    engine.post(broken)
    engine.post(called.set)
    assert called.wait(5)
    assert "handed to the event loop failed" in caplog.text
