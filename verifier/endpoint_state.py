"""What all stages of a process share of one endpoint: its limits, its health, its dialects."""

import random
import threading
from dataclasses import dataclass

from schemas.errors import RunStoppedError
from schemas.reasons import FailureReason
from verifier.answer import Reply
from verifier.breaker import Breaker
from verifier.concurrency import Concurrency
from verifier.credential import Credential
from verifier.fault import Action, Fault
from verifier.key_source import KeySource
from verifier.patience import MOST_HEDGES, Patience
from verifier.places import Gate, Places
from verifier.pool import Pool
from verifier.rates import Flow, RetryBudget, TokenEstimate
from verifier.request import Dialect
from verifier.settings import VerifierSettings

PROBE_AFTER_S = 300.0
"""A latched endpoint is asked again this often."""

_OF_ENDPOINT = {FailureReason.TIMEOUT, FailureReason.PROVIDER_ERROR, FailureReason.RATE_LIMITED}


@dataclass(slots=True)
class Counters:
    """What an endpoint's calls came to so far, for progress and summaries of this process."""

    requests: int = 0
    retries: int = 0
    hedges: int = 0
    failures: int = 0
    records: int = 0
    throttled_s: float = 0.0


class EndpointState:
    """Limits, breaker, latch, learned latencies and dialects. For the engine's loop, but for
    `places`, `tighten` and `take_throttled`.

    `places` bound the records of bundles, which wait on threads; `gate` those of scorers, which
    wait on the loop.
    """

    def __init__(self, url: str, settings: VerifierSettings, key: KeySource | None = None) -> None:
        self._url = url
        self.credential = Credential(key)
        self.concurrency = Concurrency(settings.max_concurrency)
        self.breaker = Breaker(random.Random())  # noqa: S311 - jitter
        self.pool = Pool(settings.max_concurrency, self)
        self.places = Places(settings.max_records_in_flight)
        self.gate = Gate(settings.max_records_in_flight)
        self.retry_budget = RetryBudget()
        self.counters = Counters()
        self.patience: dict[str, Patience] = {}
        self.dialects: dict[str, Dialect] = {}
        self.forbidden: set[str] = set()
        self.latched: str | None = None
        self.latched_at = 0.0
        self._reporting = threading.Lock()
        self._reported_s = 0
        self._max_outage = settings.max_outage
        self._requests: Flow | None = None
        self._tokens: Flow | None = None
        self._estimate = TokenEstimate()
        self._usual = 0.0
        self._ahead: dict[object, float] = {}
        self.tighten(settings)

    def tighten(self, settings: VerifierSettings) -> None:
        """The smallest figure wins where several stages share the endpoint."""
        self.pool.limit = min(self.pool.limit, settings.max_concurrency)
        self.concurrency.limit = self.pool.limit
        self._max_outage = min(self._max_outage, settings.max_outage)
        for records in (self.places, self.gate):
            records.limit = min(records.limit, settings.max_records_in_flight)
        self._requests = _tighter(self._requests, settings.share_of(settings.requests_per_minute))
        self._tokens = _tighter(self._tokens, settings.share_of(settings.tokens_per_minute))

    @property
    def allowed(self) -> int:
        """How many requests may be in flight now."""
        return self.concurrency.allowed

    def wait(self, now: float) -> float:
        """Seconds until a request may be sent, by rates and breaker; infinite: until woken.

        A latched endpoint holds nobody: who comes is told so.
        """
        if self.latched is not None:
            return 0.0
        if self._requests is None and self._tokens is None:
            return self.breaker.wait(now)
        flows = [flow.wait(now) for flow in (self._requests, self._tokens) if flow is not None]
        return max(self.breaker.wait(now), *flows, 0.0)

    def goes(self, work: object) -> None:
        """A worker takes `work`: it counts as a request, of usual size, until it turns out."""
        self.breaker.goes(work)
        if self._requests is not None or self._tokens is not None:
            self._ahead[work] = self._usual
            self._take(1, self._usual)

    def ended(self, work: object) -> None:
        """A worker is done with `work`; what was not sent after all is given back."""
        self.breaker.ended(work)
        usual = self._ahead.pop(work, None)
        if usual is not None:
            self._take(-1, -usual)

    def _take(self, requests: float, tokens: float) -> None:
        if self._requests is not None:
            self._requests.take(requests)
        if self._tokens is not None:
            self._tokens.take(tokens)

    def waited(self, seconds: float) -> None:
        """Requests were held for so long by rates or breaker."""
        self.counters.throttled_s += seconds

    def take_throttled(self) -> int:
        """Whole seconds for which requests were held and that nobody has reported yet."""
        with self._reporting:
            seconds = int(self.counters.throttled_s) - self._reported_s
            self._reported_s += seconds
        return seconds

    def sent(self, work: object, size: int, *, again: bool) -> None:
        """A request with a body of `size` bytes goes out for `work`."""
        self.counters.requests += 1
        if not again:
            self.retry_budget.called()
        if self._requests is not None or self._tokens is not None:
            usual = self._ahead.pop(work, None)
            self._usual = self._estimate.tokens(size)
            self._take(1 if usual is None else 0, self._usual - (usual or 0.0))

    def answered(self, record_id: str, started: float, size: int, outcome: Reply | Fault) -> None:
        """An answer came to a call sent at `started`, be it a refusal: the endpoint is well.

        One that was under way before a latch says nothing of what is sent after it.
        """
        if self.breaker.answered(record_id, started):
            self.concurrency.restart()
        self.concurrency.succeeded()
        if not isinstance(outcome, Reply):
            return
        if self.latched is None or started >= self.latched_at:
            self.latched = None
            self.forbidden.clear()
        if self._tokens is not None:
            actual = outcome.prompt_tokens + outcome.completion_tokens
            self._tokens.take(self._estimate.learn(size, actual))

    def failed(self, record_id: str, started: float, now: float, fault: Reply | Fault) -> bool:
        """Whether a call failed for a reason of the endpoint's that may pass."""
        if (
            not isinstance(fault, Fault)
            or fault.action is not Action.RETRY
            or fault.reason not in _OF_ENDPOINT
        ):
            return False
        if fault.overload:
            self.concurrency.overloaded(started, now)
        self.breaker.failed(record_id, now, fault.wait, started)
        return True

    def may_hedge(self) -> bool:
        """Whether one more duplicate is within its share of all calls."""
        return (
            self.latched is None
            and not self.breaker.is_open
            and self.counters.hedges < MOST_HEDGES * self.counters.requests
        )

    def latch(self, message: str, now: float) -> None:
        """From now on nothing is sent: the fault is the run's, not a record's."""
        self.latched, self.latched_at = message, now
        self.pool.wake()

    def check(self, now: float) -> bool:
        """Raise RunStoppedError if latched; True for the one call every PROBE_AFTER_S that passes
        as a probe."""
        if self.latched is None:
            return False
        if now - self.latched_at < PROBE_AFTER_S:
            raise RunStoppedError(self.latched)
        self.latched_at = now
        return True

    def tick(self, now: float) -> None:
        """See to the deadlines of requests, to what latencies say, and to an outage."""
        for work in list(self.pool.active):
            work.tick(now)
        for patience in list(self.patience.values()):
            patience.refresh()
        outage = self.breaker.outage(now)
        if outage >= self._max_outage and self.latched is None:
            message = f"{self._url} has answered no request for {outage:.0f} s (--max_outage)"
            self.latch(f"{message}; run again once it is back", now)


def _tighter(flow: Flow | None, per_minute: float | None) -> Flow | None:
    if per_minute is None or (flow is not None and flow.per_minute <= per_minute):
        return flow
    return Flow(per_minute)
