"""What a shard's results say of each of its records."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from pipeline.batch.info import BatchInfo
from pipeline.batch.results import FOREIGN, Call, read_results
from schemas.dead_letter import DeadLetter
from schemas.record import Record
from schemas.verdict import CallUsage, Verdict
from scoring.facts import facts_of
from scoring.prompt import data_block
from scoring.templates import Template
from transforms.read_lines import ByteRange
from transforms.read_parquet import read_rows, row_ranges
from verifier.answer import Reply
from verifier.batch_request import BatchRequests
from verifier.batch_result import MISSING, BatchResult
from verifier.fault import Action, Fault
from verifier.prices import CallCosts, Prices
from verifier.prompt_cut import cut_prompt
from verifier.providers import provider_of
from verifier.record_verifier import Verified
from verifier.settings import KeepReplies
from verifier.verdicts import VerdictMaker

RESULTS, REPEATED, NO_RESULT = "results", "repeated_results", "without_result"
REFUSED = "refused:"
"""Before the name of a parameter, in counts: the results that refuse it."""


class CallResults(NamedTuple):
    """A call on a record and its results, the one that counts first."""

    call: Call
    template: Template
    fields: tuple[str, ...]
    results: Sequence[BatchResult]

    @property
    def outcome(self) -> Reply | Fault:
        """The reply, or why there is none."""
        return self.results[0].outcome if self.results else MISSING


class ShardReplies:
    """Reads shards of one export, with their results; `stats` counts what they were."""

    def __init__(self, folder: str, info: BatchInfo) -> None:
        self.stats: Counter[str] = Counter()
        self._folder = folder
        self._form = info.form
        self._source = info.source
        self._shards = {shard.token: shard for shard in info.shards}

    def read(
        self, token: str, spans: Sequence[ByteRange]
    ) -> Iterator[tuple[Record, list[CallResults]] | DeadLetter]:
        """The shard's records, in order, each with its calls. Raises OSError, ArrowException."""
        results = read_results(token, spans)
        path = f"{self._folder}/{self._shards[token].records_name}"
        rows = (row for span in row_ranges(path) for row in read_rows(span, self._source))
        for number, record in enumerate(rows):
            if isinstance(record, DeadLetter):
                yield record
                continue
            calls = [
                CallResults(key, template, fields, results.pop(key, ()))
                for part, chunk, template, fields in self._form.calls(record)
                for key in [(number, part, chunk)]
            ]
            for call in calls:
                self._count(call)
            yield record, calls
        self.stats[FOREIGN] += sum(map(len, results.values()))

    def _count(self, call: CallResults) -> None:
        self.stats[RESULTS] += len(call.results)
        self.stats[REPEATED] += max(0, len(call.results) - 1)
        self.stats[NO_RESULT] += not call.results
        outcome = call.outcome
        if isinstance(outcome, Fault) and outcome.action is Action.ADAPT:
            self.stats[f"{REFUSED}{outcome.parameter}"] += 1


class BatchVerdicts:
    """Makes verified records of records and their results. Results without a date of their own
    arrived at `now`."""

    def __init__(
        self, info: BatchInfo, prices: Prices, keep_replies: KeepReplies, now: datetime
    ) -> None:
        self._requests = BatchRequests(info.form)
        provider = provider_of(str(info.settings["verifier"]))
        self._costs = CallCosts(prices, provider, info.form.model)
        self._maker = VerdictMaker(info.form.model, info.template_set, keep_replies)
        self._now = now

    def verified(self, record: Record, calls: Sequence[CallResults]) -> Verified:
        """The record with a verdict for each call."""
        facts = facts_of(record)
        bodies = self._bodies(record, calls)
        verdicts: list[Verdict] = []
        for call in calls:
            outcome = call.outcome
            if isinstance(outcome, Reply) and bodies:
                outcome = cut_prompt(bodies[call.call[1:]], outcome) or outcome
            created = call.results[0].created if call.results else None
            verdict = self._maker.make(
                record,
                facts,
                call.template,
                call.fields,
                outcome=outcome,
                usage=self._usage(call.results, outcome),
                arrived_at=created or self._now,
            )
            verdicts.append(verdict)
        return Verified(record, facts, tuple(verdicts))

    def _bodies(self, record: Record, calls: Sequence[CallResults]) -> dict[tuple[int, int], bytes]:
        """The requests, where there are replies that may be about a part of them."""
        if not any(isinstance(call.outcome, Reply) for call in calls):
            return {}
        bodies = self._requests.bodies(record, data_block(record))
        return {(body.template, body.chunk): body.text for body in bodies}

    def _usage(self, results: Sequence[BatchResult], outcome: Reply | Fault) -> CallUsage:
        """What the call cost: requests that were sent, tokens of the answer that counts."""
        return CallUsage(
            attempts=sum(result.sent for result in results),
            prompt_tokens=outcome.prompt_tokens,
            completion_tokens=outcome.completion_tokens,
            cached_tokens=outcome.cached_tokens,
            cost_usd=self._cost_usd(outcome),
        )

    def _cost_usd(self, outcome: Reply | Fault) -> float | None:
        """The online price less the provider's discount."""
        online = self._costs.of_answer(outcome)
        price = self._costs.price(outcome.model if isinstance(outcome, Reply) else None)
        if online is None or price is None:
            return online
        return online * float(1 - (price.batch_discount or 0))


def add_up(parts: Iterable[Counter[str]]) -> Counter[str]:
    """The counts of all parts together."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total
