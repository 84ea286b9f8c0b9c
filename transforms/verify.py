"""Verifying records: concurrent calls on the process's engine, one bundle's share at a time."""

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import count
from queue import SimpleQueue
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import WindowedValue

from schemas.dead_letter import DeadLetter, broken_record, lost_record
from schemas.errors import RecordError, RunStoppedError
from schemas.policy import Policy
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.verdict import VerdictStatus
from scoring.prompt import template_set_version
from scoring.templates import TemplateSet
from transforms.read import DEAD_LETTERS
from verifier.engine import get_engine
from verifier.record_run import RecordRun
from verifier.record_verifier import Prepared, RecordVerifier, Verified, prepare
from verifier.settings import VerifierSettings

NAMESPACE = "construct_beam"
WAIT_S = 0.05
_OF_SETUP = {"_engine", "_verifier", "_numbers", "_metrics", "_warned", "_pending", "_done"}
_log = logging.getLogger(__name__)


class _Finished(NamedTuple):
    """A record that the engine is done with."""

    number: int
    result: Verified | BaseException
    record: Record
    window: WindowedValue


class VerifyRecords(beam.PTransform):
    """Records to records with verdicts.

    Input: PCollection of Record. Output: `verified` (Verified) and `dead_letters` (DeadLetter)
    for records that no verifier can be asked about. Windows and timestamps are kept.
    """

    def __init__(
        self,
        settings: VerifierSettings,
        templates: TemplateSet,
        policy: Policy | None = None,
        label: str | None = None,
    ) -> None:
        super().__init__(label)
        self._settings = settings
        self._templates = templates
        self._policy = policy or Policy()

    def display_data(self) -> dict[str, Any]:
        """The verifier, its limits and the template set."""
        apart = {"budget", "prices"}
        shown = self._settings.model_dump(mode="json", exclude_none=True, exclude=apart)
        return {
            **shown,
            "template_set": template_set_version(self._templates, self._settings.prompt_layout),
        }

    def expand(self, pcoll: beam.PCollection[Record]) -> Any:
        """Wire the DoFn."""
        verify = beam.ParDo(
            Verify(self._settings, self._templates, self._policy)
        ).with_output_types(Verified)
        outputs = pcoll | "Verify" >> verify.with_outputs(DEAD_LETTERS, main="verified")
        return {"verified": outputs["verified"], DEAD_LETTERS: outputs[DEAD_LETTERS]}


class Verify(beam.DoFn):
    """Hands records to the engine as they come, and emits each when its verdicts are in.

    A record waits for one of the process's places; a slow record holds up no other. A fault of
    the run raises RunStoppedError in the bundle.
    """

    def __init__(
        self, settings: VerifierSettings, templates: TemplateSet, policy: Policy | None = None
    ) -> None:
        self._settings = settings
        self._templates = templates
        self._policy = policy or Policy()

    def __getstate__(self) -> dict[str, Any]:
        """What travels; a used instance leaves behind what `setup` made."""
        return {k: v for k, v in self.__dict__.items() if k not in _OF_SETUP}

    def setup(self) -> None:
        """Get the engine of this process; the API key is read here."""
        self._engine = get_engine()
        self._verifier = RecordVerifier(self._engine, self._settings, self._templates, self._policy)
        self._numbers = count()
        self._metrics = _Metrics()
        self._warned = False
        self._reset()

    def start_bundle(self) -> None:
        """Drop what a failed bundle left behind, and a dead engine."""
        self._cancel()
        if not self._engine.alive:
            self.setup()

    def process(self, record: Record, window: Any = beam.DoFn.WindowedValueParam) -> Iterator[Any]:
        """Start the record's calls; emit what is done meanwhile."""
        prepared = self._prepare(record)
        if isinstance(prepared, DeadLetter):
            yield _emit(prepared, window)
            return
        while not self._verifier.places.acquire(WAIT_S):
            yield from self._finished()
        self._start(prepared, window)
        yield from self._finished()

    def finish_bundle(self) -> Iterator[Any]:
        """Wait for the rest of the bundle's records."""
        while self._pending:
            yield self._take(self._done.get())

    def teardown(self) -> None:
        """Cancel leftovers; the engine stays, for other stages and for later bundles."""
        if hasattr(self, "_pending"):
            self._cancel()

    def _prepare(self, record: Record) -> Prepared | DeadLetter:
        try:
            return prepare(record)
        except RecordError as error:
            return lost_record(record, error.reason, error.message)
        except Exception as error:  # noqa: BLE001 - one record must not fail its neighbours
            return broken_record(record, error)

    def _warn_of_self_judgement(self, record: Record) -> None:
        if not self._warned and record.generator == self._verifier.model:
            self._warned = True
            _log.warning("%s judges its own outputs: name another verifier", record.generator)

    def _start(self, prepared: Prepared, window: WindowedValue) -> None:
        self._warn_of_self_judgement(prepared.record)
        places, done = self._verifier.places, self._done
        number = next(self._numbers)

        def deliver(result: Verified | BaseException) -> None:
            places.release()
            done.put(_Finished(number, result, prepared.record, window))

        try:
            self._pending[number] = self._verifier.post(prepared, deliver)
        except RunStoppedError:
            places.release()
            raise

    def _finished(self) -> Iterator[WindowedValue | TaggedOutput]:
        while not self._done.empty():
            yield self._take(self._done.get())

    def _take(self, finished: _Finished) -> WindowedValue | TaggedOutput:
        self._pending.pop(finished.number, None)
        result = finished.result
        if isinstance(result, RunStoppedError):
            raise result
        if isinstance(result, BaseException):
            return _emit(broken_record(finished.record, result), finished.window)
        self._metrics.count(result)
        self._metrics.throttled(self._verifier.take_throttled())
        return _emit(result, finished.window)

    def _reset(self) -> None:
        self._pending: dict[int, RecordRun] = {}
        self._done: SimpleQueue[_Finished] = SimpleQueue()

    def _cancel(self) -> None:
        for run in self._pending.values():
            self._verifier.cancel(run)
        self._reset()


def _emit(result: Verified | DeadLetter, window: WindowedValue) -> WindowedValue | TaggedOutput:
    value = window.with_value(result)
    return TaggedOutput(DEAD_LETTERS, value) if isinstance(result, DeadLetter) else value


class _Metrics:
    """Metrics of physical calls, kept by the bundle's own thread; a retried bundle counts again."""

    def __init__(self) -> None:
        self._calls = Metrics.counter(NAMESPACE, "calls")
        self._throttled = Metrics.counter(NAMESPACE, "cumulativeThrottlingSeconds")
        self._latency = Metrics.distribution(NAMESPACE, "call_latency_ms")
        self._verdicts = {
            outcome: Metrics.counter(NAMESPACE, f"verdicts_{outcome}")
            for outcome in (VerdictStatus.OK.value, *(r.value for r in FailureReason))
        }

    def throttled(self, seconds: int) -> None:
        """Report seconds for which limits held requests; runners scale by it."""
        if seconds:
            self._throttled.inc(seconds)

    def count(self, verified: Verified) -> None:
        """Count one record's calls."""
        outcomes = Counter([v.reason.value if v.reason else "ok" for v in verified.verdicts])
        for outcome, number in outcomes.items():
            self._verdicts[outcome].inc(number)
        self._calls.inc(sum([v.usage.attempts for v in verified.verdicts]))
        for verdict in verified.verdicts:
            if verdict.usage.latency_ms is not None:
                self._latency.update(int(verdict.usage.latency_ms))
