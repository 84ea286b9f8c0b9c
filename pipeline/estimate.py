"""What a run would send and cost, before anything is sent: calls, tokens, dollars, hours.

Calls and prompts are those of the run: the same records, chunks and texts. What nobody can know
beforehand is assumed: docs/prices.md names every figure and where it comes from.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import urlsplit

import orjson

from pipeline.cache import NO_CACHE
from pipeline.inputs import read_source, read_templates
from pipeline.prices import read_prices
from pipeline.sample import sample
from pipeline.settings import EstimateFlags
from schemas.arrow_json import dump_json
from schemas.errors import RecordError
from schemas.record import Record
from schemas.verdict import ReplyKind
from scoring.prompt import DataBlock, PromptLayout, data_content, question, system_text
from scoring.templates import Template, TemplateSet
from transforms.plan import plan_input
from verifier.endpoint import EMBEDDED
from verifier.prices import Found
from verifier.providers import provider_of
from verifier.record_verifier import prepare
from verifier.request import RequestWriter, first_dialect
from verifier.settings import VerifierSettings
from verifier.token_count import about_tokens
from verifier.verdicts import chunks_of

MESSAGE_TOKENS = 8
"""What the two messages of a chat take beside their texts."""

ATTACHMENT_TOKENS = 1000
"""An image or another part that is no text: providers count from some 100 to several 1,000."""

REPLY_TOKENS = {
    ReplyKind.DOCUMENT_SCORE: (320, 0),
    ReplyKind.FIELD_SCORES: (15, 45),
    ReplyKind.INCORRECT_FIELDS: (90, 5),
}
"""Of a reply, and of each field that it is about."""

FIRST_TOKEN_S = 1.0
TOKENS_PER_S = 80.0
"""How long an answer takes: seconds until it begins, then tokens a second."""

COUNTS_SCHEMAS = {"openai", "azure", "gemini", "vertex"}
"""Providers that count a reply schema as part of the prompt; local servers make a grammar of it."""


@dataclass(slots=True)
class Estimate:
    """What a run would send. Of a large input a sample of `read` records was looked at (`exact` is
    false), and the figures are for all. `repeated` calls have the same request as another one and
    are sent once; they are not among `calls`.
    """

    model: str
    found: Found | None
    read: int = 0
    exact: bool = True
    records: float = 0.0
    dead_letters: float = 0.0
    calls: float = 0.0
    repeated: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    attachments: float = 0.0
    cost: float = 0.0

    @property
    def cost_usd(self) -> float | None:
        """What it would cost, None without a known price."""
        return None if self.found is None else self.cost

    @property
    def batch_usd(self) -> float | None:
        """The same in the provider's batch mode, None without a known discount."""
        if self.found is None or self.found.price.batch_discount is None:
            return None
        return self.cost * (1 - float(self.found.price.batch_discount))

    @property
    def seconds_a_call(self) -> float:
        """How long an answer is assumed to take."""
        return FIRST_TOKEN_S + self.completion_tokens / max(1.0, self.calls) / TOKENS_PER_S


@dataclass(frozen=True, slots=True)
class Hours:
    """The least hours that each limit makes a run take; None for a limit that is not set."""

    concurrency: float
    requests: float | None
    tokens: float | None

    @property
    def all(self) -> float:
        """By the strictest of them."""
        return max(self.concurrency, self.requests or 0.0, self.tokens or 0.0)


def hours(estimate: Estimate, settings: VerifierSettings) -> Hours:
    """How long the run would take at the limits in `settings`."""
    a_record = estimate.calls / max(1.0, estimate.records)
    in_flight = min(settings.max_concurrency, settings.max_records_in_flight * max(1.0, a_record))
    busy = estimate.calls * estimate.seconds_a_call
    tokens = estimate.prompt_tokens + estimate.completion_tokens
    return Hours(
        concurrency=busy / (in_flight * settings.verifier_processes) / 3600,
        requests=_hours(estimate.calls, settings.requests_per_minute),
        tokens=_hours(tokens, settings.tokens_per_minute),
    )


def _hours(amount: float, per_minute: float | None) -> float | None:
    return None if per_minute is None else amount / per_minute / 60


def estimate_run(flags: EstimateFlags) -> Estimate:
    """Read the input, or a sample of it, and add up its calls; sends and writes nothing.

    Raises UsageError for what a run would refuse of the input, the templates and the prices.
    """
    settings = flags.verifier_settings()
    model = settings.endpoint.model
    provider = provider_of(settings.target)
    templates, prices = read_templates(flags.templates), read_prices(flags.prices)
    plan = plan_input(flags.input, read_source(flags), flags.input_format)
    estimate = Estimate(model, prices.find(provider, model))
    calls = Calls(model, templates, settings)
    known: set[bytes] = set()
    merges = _has_cache(flags)
    for record, weight in sample(plan):
        estimate.read += 1
        estimate.exact &= weight == 1
        asked = None if record is None else calls.of(record)
        if asked is None:
            estimate.dead_letters += weight
            continue
        estimate.records += weight
        if merges and estimate.exact and asked.digest in known:
            estimate.repeated += len(asked.tokens)
            continue
        known.add(asked.digest)
        _add(estimate, asked, weight)
    return estimate


def _has_cache(flags: EstimateFlags) -> bool:
    """Whether the run would keep replies, and so send equal requests once."""
    if flags.verifier == EMBEDDED:
        return False
    return flags.cache != NO_CACHE if flags.cache else "://" not in (flags.output or "")


@dataclass(frozen=True, slots=True)
class Asked:
    """The calls on one record: prompt and completion tokens of each, and how many attachments all
    of them hold. Records with equal digests have equal requests.
    """

    digest: bytes
    tokens: list[tuple[int, int]]
    attachments: int


def _add(estimate: Estimate, asked: Asked, weight: float) -> None:
    estimate.calls += weight * len(asked.tokens)
    estimate.attachments += weight * asked.attachments
    for prompt, completion in asked.tokens:
        estimate.prompt_tokens += weight * prompt
        estimate.completion_tokens += weight * completion
        if estimate.found is not None:
            estimate.cost += weight * estimate.found.price.usd(prompt, 0, completion)


class Calls:
    """The calls that a record makes with one model, set of templates and settings."""

    def __init__(self, model: str, templates: TemplateSet, settings: VerifierSettings) -> None:
        self._templates = templates.templates
        self._layout = settings.prompt_layout
        self._chunk = settings.max_fields_per_call
        self._writer = RequestWriter(model, self._templates, self._layout)
        self._dialect = first_dialect(urlsplit(settings.endpoint.url).hostname, self._layout)
        self._schemas = provider_of(settings.target) in COUNTS_SCHEMAS
        self._questions = {t.name: self._question_tokens(t) for t in self._templates}
        self._formats: dict[tuple[str, tuple[str, ...]], float] = {}

    def of(self, record: Record) -> Asked | None:
        """The record's calls; None for one that cannot be asked about."""
        try:
            data = prepare(record).data
        except RecordError:
            return None
        tokens = list(self._tokens(record, data))
        return Asked(_digest(data), tokens, len(data.attachments) * len(tokens))

    def _tokens(self, record: Record, data: DataBlock) -> Iterator[tuple[int, int]]:
        of_chunk: dict[tuple[str, ...], float] = {}
        for template in self._templates:
            for fields in chunks_of(template, record.fields, self._chunk):
                if fields not in of_chunk:
                    of_chunk[fields] = self._data_tokens(data, fields)
                prompt = self._questions[template.name] + of_chunk[fields]
                prompt += self._format_tokens(template, fields)
                yield round(prompt), reply_tokens(template, len(fields))

    def _question_tokens(self, template: Template) -> float:
        last = self._layout is PromptLayout.SHARED_PREFIX
        tokens = about_tokens(system_text(template, self._layout))
        return MESSAGE_TOKENS + tokens + (about_tokens(question(template)) if last else 0.0)

    def _data_tokens(self, data: DataBlock, fields: tuple[str, ...]) -> float:
        text = data_content(DataBlock(data.text, ()), fields, self._layout)
        return about_tokens(str(text)) + ATTACHMENT_TOKENS * len(data.attachments)

    def _format_tokens(self, template: Template, fields: tuple[str, ...]) -> float:
        """The reply schema's tokens, of the real request, where the provider counts them."""
        key = (template.name, fields)
        if not self._schemas:
            return 0.0
        if key not in self._formats:
            message = self._writer.data_message(DataBlock("", ()), fields)
            body = orjson.loads(self._writer.body(template, fields, message, self._dialect))
            wanted = body.get("response_format")
            self._formats[key] = about_tokens(dump_json(wanted)) if wanted else 0.0
        return self._formats[key]


def reply_tokens(template: Template, fields: int) -> int:
    """The completion tokens that are assumed of a reply about so many fields."""
    whole, each = REPLY_TOKENS[template.reply]
    return whole + each * fields


def _digest(data: DataBlock) -> bytes:
    attachments = dump_json(list(data.attachments)) if data.attachments else ""
    text = data.text + attachments
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
