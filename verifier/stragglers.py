"""Calls that take much longer than their like: cut off once they are not needed, or sent twice."""

from collections.abc import Callable, Sequence

from schemas.policy import Policy
from schemas.verdict import Verdict
from scoring.needs import needs_are_met
from scoring.templates import Template
from verifier.call import Call
from verifier.caller import Caller
from verifier.record_run import RecordRun
from verifier.settings import OnOff, VerifierSettings

VerdictOf = Callable[[Call], Verdict]


class Stragglers:
    """The straggler rule of one stage. For the engine's loop only."""

    def __init__(
        self,
        caller: Caller,
        settings: VerifierSettings,
        templates: Sequence[Template],
        policy: Policy,
    ) -> None:
        self._caller = caller
        self._cuts = settings.adaptive_deadlines is OnOff.ON
        self._hedges = settings.hedge
        self._templates = templates
        self._policy = policy

    def see_to(
        self, run: RecordRun, fields: tuple[str, ...], verdict_of: VerdictOf, now: float
    ) -> None:
        """Send late calls of a record twice, or cut them off if `policy` needs them no more."""
        if now - run.started < self._caller.patience.soonest:
            return
        late = [call for call in run.calls if self._is_past(call, now, self._hedge_after(call))]
        for call in late if self._hedges else ():
            if self._caller.state.may_hedge():
                call.hedge()
        stragglers = [c for c in late if self._is_past(c, now, self._cut_after(c))]
        if self._cuts and stragglers and self._is_enough(run, fields, verdict_of):
            for call in stragglers:
                call.give_up("much slower than its like, and the others are enough")

    def _hedge_after(self, call: Call) -> float | None:
        return self._caller.patience.hedge_after(call.template.name)

    def _cut_after(self, call: Call) -> float | None:
        return self._caller.patience.cut_after(call.template.name)

    @staticmethod
    def _is_past(call: Call, now: float, seconds: float | None) -> bool:
        return call.result is None and seconds is not None and call.elapsed(now) > seconds

    def _is_enough(self, run: RecordRun, fields: tuple[str, ...], verdict_of: VerdictOf) -> bool:
        done = [verdict_of(call) for call in run.calls if call.result is not None]
        return needs_are_met(self._policy, self._templates, fields, done)
