"""All verifier calls on one record, concurrently, and the verdicts that come of them."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from schemas.errors import RunStoppedError
from schemas.policy import Policy
from schemas.record import Record
from schemas.verdict import Facts, Verdict
from scoring.facts import facts_of
from scoring.prompt import DataBlock, data_block, template_set_version
from scoring.templates import Template, TemplateSet
from verifier.call import Call, MakeBody
from verifier.caller import Caller
from verifier.embedded import embedded_endpoint
from verifier.engine import Engine
from verifier.record_run import RecordRun
from verifier.request import DataMessage, RequestWriter
from verifier.settings import VerifierSettings
from verifier.stragglers import Stragglers
from verifier.verdicts import VerdictMaker, chunks_of


class Prepared(Struct, frozen=True):
    """A record with all that can be done for it before any call."""

    record: Record
    facts: Facts
    data: DataBlock


class Verified(Struct, frozen=True):
    """A record with its verdicts, one for each template and chunk of fields."""

    record: Record
    facts: Facts
    verdicts: tuple[Verdict, ...]


def prepare(record: Record) -> Prepared:
    """Everything about a record that needs no call. Raises RecordError."""
    return Prepared(record, facts_of(record), data_block(record))


Deliver = Callable[[Verified | BaseException], object]
"""Where a verified record goes, or RunStoppedError; called on the engine's loop."""


class RecordVerifier:
    """Asks one endpoint all templates about each record.

    `policy` says which verdicts are enough, so that the rest need not be waited for.
    """

    def __init__(
        self,
        engine: Engine,
        settings: VerifierSettings,
        templates: TemplateSet,
        policy: Policy | None = None,
    ) -> None:
        endpoint = settings.endpoint
        if endpoint.embedded:
            endpoint = embedded_endpoint()
        self._engine = engine
        self._settings = settings
        self._templates = templates.templates
        self.model = endpoint.model
        self._maker = VerdictMaker(
            endpoint.model,
            template_set_version(templates, settings.prompt_layout),
            settings.keep_replies,
        )
        self._caller = Caller(engine, endpoint, settings)
        self._writer = RequestWriter(endpoint.model, self._templates, settings.prompt_layout)
        self._stragglers = Stragglers(self._caller, settings, self._templates, policy or Policy())
        self.places = self._caller.state.places
        self.gate = self._caller.state.gate

    def take_throttled(self) -> int:
        """Whole seconds for which limits held the endpoint's requests, each told once."""
        return self._caller.state.take_throttled()

    def post(self, prepared: Prepared, deliver: Deliver) -> RecordRun:
        """Have the record verified; callable from any thread.

        `deliver` is called once, on the engine's loop. Raises RunStoppedError once the engine was
        stopped.
        """
        run = self._run(prepared, deliver)
        self._engine.post(lambda: self._start(prepared, run))
        return run

    def start(self, prepared: Prepared, deliver: Deliver) -> None:
        """Like `post`, for the engine's loop."""
        self._start(prepared, self._run(prepared, deliver))

    def _run(self, prepared: Prepared, deliver: Deliver) -> RecordRun:
        return RecordRun(
            prepared.record.id,
            self._settings.record_timeout,
            lambda run, error: deliver(self._finish(prepared, run, error)),
            lambda run, now: self._stragglers.see_to(
                run, prepared.record.fields, lambda call: self._verdict(prepared, call), now
            ),
            self._engine.loop,
        )

    def cancel(self, run: RecordRun) -> None:
        """End a record that nobody waits for any more; callable from any thread."""
        if self._engine.alive:
            error = RunStoppedError("the bundle was cancelled")
            self._engine.loop.call_soon_threadsafe(run.fail, error)

    def _start(self, prepared: Prepared, run: RecordRun) -> None:
        """Queue all calls of a record; one whose requests cannot be written ends with the error."""
        if run.delivered:
            return
        if self._engine.stopped is not None:
            run.fail(RunStoppedError(self._engine.stopped))
            return
        self._engine.add(run)
        try:
            calls = list(self._calls(prepared, run))
        except Exception as error:  # noqa: BLE001 - delivered to whoever waits for the record
            run.fail(error)
        else:
            purse = self._caller.purse(len(calls))
            run.start(calls, lead=self._settings.prefix_lead, purse=purse)

    def _calls(self, prepared: Prepared, run: RecordRun) -> Iterator[Call]:
        fields = prepared.record.fields
        whole = self._writer.data_message(prepared.data, fields)
        for template in self._templates:
            for chunk in chunks_of(template, fields, self._settings.max_fields_per_call):
                same = chunk == fields
                data = whole if same else self._writer.data_message(prepared.data, chunk)
                yield Call(
                    self._caller, run, template, chunk, self._body_maker(template, chunk, data)
                )

    def _body_maker(
        self, template: Template, fields: tuple[str, ...], data: DataMessage
    ) -> MakeBody:
        return lambda dialect, room: self._writer.body(template, fields, data, dialect, room)

    def _finish(
        self, prepared: Prepared, run: RecordRun, error: BaseException | None
    ) -> Verified | BaseException:
        """What to deliver of a record; an error of ours is delivered, too, not lost."""
        self._engine.remove(run)
        if error is not None:
            return error
        self._caller.state.counters.records += 1
        try:
            verdicts = tuple(
                [self._verdict(prepared, call) for call in run.calls if call.result is not None]
            )
        except Exception as problem:  # noqa: BLE001 - delivered to whoever waits for the record
            return problem
        return Verified(prepared.record, prepared.facts, verdicts)

    def _verdict(self, prepared: Prepared, call: Call) -> Verdict:
        """The verdict of a call that is done, made once."""
        if call.verdict is None and call.result is not None:
            result = call.result
            call.verdict = self._maker.make(
                prepared.record,
                prepared.facts,
                call.template,
                call.fields,
                outcome=result.outcome,
                usage=result.usage,
                arrived_at=result.arrived_at,
            )
        if call.verdict is None:
            raise ValueError("the call is not done")
        return call.verdict
