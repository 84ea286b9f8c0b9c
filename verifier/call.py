"""One verifier call: attempts, deadlines and retries around a single chat completion.

A call is a small state machine: queued in the endpoint's pool, in flight, waiting to be tried
again, or done. Its time starts when a worker takes it and stands still while it is queued.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from schemas.errors import RunStoppedError
from schemas.reasons import FailureReason
from schemas.verdict import CallUsage, Verdict
from scoring.templates import Template
from verifier.answer import Reply
from verifier.attempt import Attempt
from verifier.cache.entry import Entry
from verifier.call_log import log_failure
from verifier.fault import Action, Fault
from verifier.hedge import Hedge
from verifier.request import Dialect, Structure, unusual
from verifier.shared_replies import Share

if TYPE_CHECKING:
    from verifier.caller import Caller
    from verifier.record_run import RecordRun

MakeBody = Callable[[Dialect, int], bytes]
"""The request in a dialect, with the usual room for the reply times a factor."""

MORE_ROOM = 2
"""How much more room a reply gets that was cut off; it is asked for once more only."""


class CallResult(Struct, frozen=True):
    """A call's reply, or the last fault, and what all of its requests took."""

    outcome: Reply | Fault
    usage: CallUsage
    arrived_at: datetime


class Call:
    """A call on one record; it tells its record when it is done."""

    __slots__ = (
        "_attempt", "_cached_tokens", "_caller", "_completion_tokens", "_cost_usd", "_deadline",
        "_enforced", "_hedge", "_holding", "_make_body", "_prompt_tokens", "_record", "_retry",
        "_room", "_share", "_tries", "attempts", "fields", "result", "seconds", "template",
        "verdict",
    )  # fmt: skip

    def __init__(
        self,
        caller: Caller,
        record: RecordRun,
        template: Template,
        fields: tuple[str, ...],
        make_body: MakeBody,
    ) -> None:
        self._caller = caller
        self._record = record
        self._make_body = make_body
        self._attempt = Attempt(caller)
        self._hedge: Hedge | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._share = (
            None if caller.shared is None else Share(caller.shared, self._take, self.queue)
        )
        self._holding = False
        self._deadline = 0.0
        self._room = 1
        self._enforced = Structure.JSON_SCHEMA
        self._tries = 0
        self._prompt_tokens = self._completion_tokens = self._cached_tokens = 0
        self._cost_usd: float | None = 0.0
        self.template = template
        self.fields = fields
        self.attempts = 0
        self.seconds = 0.0
        self.result: CallResult | None = None
        self.verdict: Verdict | None = None

    def queue(self) -> None:
        """Wait for a worker; the record's clock stands still meanwhile.

        Whoever waits for the end of an outage begins anew after it: what failed before is part of
        it.
        """
        self._retry = None
        if self._caller.state.breaker.is_open:
            self.seconds, self._tries = 0.0, 0
        if self.result is None and not self._record.delivered:
            self._hold()
            self._caller.state.pool.put(self)

    def _hold(self) -> None:
        """We hold the call ourselves: meanwhile the record's clock stands still."""
        if not self._holding:
            self._holding = True
            self._record.hold()

    def _let_go(self) -> None:
        if self._holding:
            self._holding = False
            self._record.release()

    async def run(self) -> None:
        """One attempt, on a worker of the pool; what it raises ends the record."""
        self._let_go()
        if self.result is not None or self._record.delivered:
            return
        try:
            await self._try()
        except Exception as error:  # noqa: BLE001 - delivered to whoever waits for the record
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the record with an error."""
        self._record.fail(error)

    def tick(self, now: float) -> None:
        """End the attempt under way once its deadline has passed."""
        if now >= self._deadline:
            self._attempt.expire("no answer within the deadline")

    @property
    def under_way(self) -> bool:
        """Whether an answer is waited for."""
        return self._attempt.under_way

    def elapsed(self, now: float) -> float:
        """The seconds spent on the call so far."""
        if self._attempt.under_way:
            return self.seconds + now - self._attempt.started
        return self.seconds

    def give_up(self, why: str) -> None:
        """End the call wherever it is: it is no longer waited for."""
        if self.result is None:
            self.seconds = self.elapsed(self._caller.loop.time())
            self._caller.patience.missed(self.template.name, self.seconds)
            self._done(Fault(Action.GIVE_UP, FailureReason.TIMEOUT, why))

    def abandon(self) -> None:
        """Send nothing more: nobody waits for the record."""
        self._let_go()
        if self._retry is not None:
            self._retry.cancel()
        self._attempt.expire("nobody waits for it")
        if self._share is not None:
            self._share.leave()
        if self._hedge is not None:
            self._hedge.abandon()
        # They refer to the call: without cycles, a call that is done leaves memory at once.
        self._share = self._hedge = None

    def hedge(self) -> None:
        """Send a duplicate of the request under way, once; the first answer counts."""
        if self._hedge is None and self._attempt.under_way:
            self._hedge = Hedge(self._caller, self)
            self._caller.state.counters.hedges += 1
            self._caller.state.pool.put(self._hedge, first=True)

    def request(self) -> bytes:
        """The request's body, as the endpoint is known to understand it."""
        return self._make_body(self._caller.dialect.at_most(self._enforced), self._room)

    def goes(self, body: bytes, work: object) -> Fault | None:
        """Count a request that is to go out for `work`; the fault if there is no money for it."""
        purse = self._record.purse
        if purse is not None and not purse.pay(time.time(), self._caller.expected_usd(len(body))):
            return purse.exhausted()
        self.attempts += 1
        self._caller.state.sent(work, len(body), again=self.attempts > 1)
        return None

    def answered_beside(self, attempt: Attempt, body: bytes, outcome: Reply | Fault) -> None:
        """The duplicate was answered: be done if that is a reply, unless it is too late."""
        if self.result is not None or self._record.delivered:
            return
        self._count(attempt, len(body), outcome)
        if isinstance(outcome, Reply):
            self.seconds = self.elapsed(self._caller.loop.time())
            self._keep(attempt, outcome)
            self._answered(attempt, outcome)

    async def _try(self) -> None:
        """Send the request, unless its reply is known or on its way, and settle what comes of it.

        Raises RunStoppedError when latched.
        """
        caller, dialect = self._caller, self._caller.dialect
        body = self.request()
        share = self._share
        if share is not None and not await share.needs_sending(body):
            if share.follows:
                self._hold()
            return
        started = caller.loop.time()
        caller.check(started)
        self._deadline = started + caller.attempt_seconds(self.seconds)
        spent = self.goes(body, self)
        if spent is not None:
            self._done(spent)
            return
        outcome = await self._attempt.send(body)
        if self.result is not None or self._record.delivered:
            return
        self._count(self._attempt, len(body), outcome)
        now = caller.loop.time()
        if not caller.state.failed(self._record.record_id, started, now, outcome):
            caller.state.answered(self._record.record_id, started, len(body), outcome)
        elif caller.state.breaker.is_open:
            self._record.excuse(now - started)
            self._try_after_outage(outcome)
            return
        self.seconds += now - started
        self._tries += 1
        self._keep(self._attempt, outcome)
        self._settle(outcome, dialect)

    def _take(self, entry: Entry) -> None:
        """Be done with what another request was answered; one that was cut off has more room."""
        self._let_go()
        if self.result is not None or self._record.delivered:
            return
        try:
            if not (isinstance(entry.outcome, Fault) and self._needs_more_room(entry.outcome)):
                self._done(entry.outcome, entry.arrived_at)
        except Exception as error:  # noqa: BLE001 - delivered to whoever waits for the record
            self.fail(error)

    def _count(self, attempt: Attempt, size: int, outcome: Reply | Fault) -> None:
        """Add up what an answer to a request of `size` bytes cost.

        A request that got none may be charged, too: what it was expected to cost stays spent.
        """
        if attempt.status == 0:
            return
        self._prompt_tokens += outcome.prompt_tokens
        self._completion_tokens += outcome.completion_tokens
        self._cached_tokens += outcome.cached_tokens
        cost = self._caller.cost_usd(size, outcome)
        if cost is None or self._cost_usd is None:
            self._cost_usd = None
        else:
            self._cost_usd += cost
        if self._record.purse is not None and cost is not None:
            self._record.purse.answered(cost)

    def _keep(self, attempt: Attempt, outcome: Reply | Fault) -> None:
        """Have the outcome kept, and shared with calls that wait for it."""
        if self._share is not None:
            self._share.keep(attempt.status, outcome, attempt.arrived_at)

    def _settle(self, outcome: Reply | Fault, known: Dialect) -> None:
        """Be done, or be queued again now or later, or stop the run.

        `known` is what the endpoint's dialect was when the request was written.
        """
        caller = self._caller
        if isinstance(outcome, Reply):
            self._answered(self._attempt, outcome)
            return
        fatal = caller.fatal(outcome, self._record.record_id)
        if fatal is not None:
            self._record.fail(RunStoppedError(fatal))
            return
        if outcome.action is Action.ADAPT and self._adapt(outcome, known):
            self.queue()
            return
        if self._needs_more_room(outcome):
            return
        wait = caller.wait_before_retry(outcome, self._tries, self.seconds)
        if wait is None:
            self._done(outcome, self._attempt.arrived_at)
            return
        self._log(outcome, retried=True)
        caller.state.counters.retries += 1
        self.seconds += wait
        self._try_again(wait, caller.retry_delay())

    def _try_again(self, wait: float, held: float) -> None:
        """Be queued in `wait` seconds, after `held` for which the retry budget puts it off."""
        loop = self._caller.loop
        if held <= 0:
            self._let_go()
            self._retry = loop.call_later(wait, self.queue)
        else:
            self._hold()
            self._retry = loop.call_later(held, self._try_again, wait, 0.0)

    def _needs_more_room(self, fault: Fault) -> bool:
        """Whether the reply was cut off for the first time: then it is asked for once more."""
        if fault.reason is not FailureReason.TRUNCATED or self._room != 1:
            return False
        self._room = MORE_ROOM
        self.queue()
        return True

    def _try_after_outage(self, outcome: Reply | Fault) -> None:
        """Be queued until the endpoint answers again: such an attempt counts for nothing."""
        if isinstance(outcome, Fault):
            self._log(outcome, retried=True)
        self._caller.state.counters.retries += 1
        self.queue()

    def _adapt(self, fault: Fault, known: Dialect) -> bool:
        """Give up what was refused: for this call if it is to blame, else for the endpoint."""
        sent, parameter = known.at_most(self._enforced), fault.parameter or ""
        if not sent.sends(self.template, parameter):
            return False
        alone = fault.unsure or unusual(self.fields, aliases=True) or sent != known
        if parameter != "response_format" or not alone:
            return self._caller.adapt(fault, known, self.fields)
        self._enforced = Structure(sent.structure - 1)
        return True

    def _answered(self, attempt: Attempt, reply: Reply) -> None:
        self._caller.patience.answered(self.template.name, self.seconds)
        self._done(reply, attempt.arrived_at)

    def _done(self, outcome: Reply | Fault, arrived_at: datetime | None = None) -> None:
        if isinstance(outcome, Fault) and outcome.reason is not FailureReason.BUDGET_EXHAUSTED:
            self._caller.state.counters.failures += 1
            self._log(outcome, retried=False)
        usage = CallUsage(
            self.attempts,
            self._prompt_tokens,
            self._completion_tokens,
            self._cached_tokens,
            self._cost_usd,
            self.seconds * 1000,
        )
        self.result = CallResult(outcome, usage, arrived_at or datetime.now(UTC))
        self.abandon()
        self._record.one_done()

    def _log(self, fault: Fault, *, retried: bool) -> None:
        log_failure(
            self._record.record_id, self.template.name, fault.reason, self.attempts, retried=retried
        )
