"""What a user can set for a run: one list for flags, --help, and the pipeline.

A field's description is its help text. Nothing here imports Beam.
"""

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from schemas.errors import UsageError
from schemas.record import DocumentFrom
from schemas.source import InputFormat
from scoring.aggregate import ScoreScale
from scoring.prompt import PromptLayout
from verifier.budget import BudgetLimits
from verifier.cache.sizes import parse_age, parse_bytes
from verifier.prices import Prices
from verifier.settings import RECORD_DEADLINE_CAP_S, KeepReplies, OnOff, VerifierSettings

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
PerMinute = Annotated[float, Field(gt=0)]

_VERIFIER = VerifierSettings(target="embedded")


class VerifierFlags(BaseModel):
    """How the verifier is reached and how hard it may be driven."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verifier: Annotated[
        str,
        Field(
            description="the LLM that judges: openai:MODEL, azure:DEPLOYMENT, gemini:MODEL, "
            "vertex:MODEL, ollama:MODEL, vllm:MODEL, a chat-completions base URL with the model "
            "after a # (http://host:8000/v1#model), or embedded (literal evidence, no LLM); see "
            "docs/providers.md"
        ),
    ]
    api_key_env: Annotated[
        str | None,
        Field(
            description="name of the environment variable that holds the API key (unless set: "
            "OPENAI_API_KEY, AZURE_OPENAI_API_KEY, GEMINI_API_KEY; for others none)"
        ),
    ] = None
    api_key_secret: Annotated[
        str | None,
        Field(
            description="resource name of the API key in Secret Manager, like "
            "projects/P/secrets/S/versions/latest; workers read it, and again when it changes"
        ),
    ] = None
    key_in_image: Annotated[
        bool,
        Field(
            description="the image of the workers sets the variable of the API key: needed on "
            "Dataflow without --api_key_secret"
        ),
    ] = False
    templates: Annotated[
        str | None,
        Field(description="folder of *.yaml templates that replace, extend or disable the five"),
    ] = None
    cache: Annotated[
        str | None,
        Field(
            description="where replies are kept, so that none is paid for twice: file:PATH, "
            "redis://HOST[:PORT][/DB], gs://BUCKET/PREFIX or none (unless set: OUTPUT.cache for "
            "local runs with a real verifier)"
        ),
    ] = None
    cache_max_bytes: Annotated[
        str, Field(description="how large a cache file may get; the oldest replies go first")
    ] = "10GB"
    cache_max_age: Annotated[
        str | None, Field(description="replies older than this are asked for again, like 30d")
    ] = None
    cache_password_env: Annotated[
        str | None,
        Field(description="variable that holds the password of Redis (REDIS_PASSWORD unless set)"),
    ] = None
    max_concurrency: Annotated[
        Count, Field(description="requests in flight per process, over all bundles and threads")
    ] = _VERIFIER.max_concurrency
    max_records_in_flight: Annotated[Count, Field(description="records in flight per process")] = (
        _VERIFIER.max_records_in_flight
    )
    max_attempts: Annotated[
        Count, Field(description="requests per verifier call, the first included")
    ] = _VERIFIER.max_attempts
    max_retry_wait: Annotated[
        Seconds, Field(description="longest wait, in seconds, that a server may ask for")
    ] = _VERIFIER.max_retry_wait
    max_outage: Annotated[
        Seconds,
        Field(
            description="seconds without any answer after which the run ends; until then calls "
            "wait, and one probe at a time is sent"
        ),
    ] = _VERIFIER.max_outage
    requests_per_minute: Annotated[
        PerMinute | None, Field(description="most requests a minute, over all processes")
    ] = None
    tokens_per_minute: Annotated[
        PerMinute | None,
        Field(description="most tokens a minute, prompts and replies, over all processes"),
    ] = None
    verifier_processes: Annotated[
        Count | None,
        Field(
            description="processes that share the figures per minute and the budget: most workers "
            "times SDK processes on each (needed with them on runners of other machines, else 1)"
        ),
    ] = None
    adaptive_deadlines: Annotated[
        OnOff,
        Field(
            description="on: once a record's verdicts are enough for the policy, calls that are "
            "much slower than their like are cut off (reason timeout)"
        ),
    ] = _VERIFIER.adaptive_deadlines
    hedge: Annotated[
        bool,
        Field(
            description="send calls that are slower than 97 % of their like a second time, at most "
            "5 % of all; the first answer counts, both are paid"
        ),
    ] = False
    connect_timeout: Annotated[Seconds, Field(description="seconds to connect")] = (
        _VERIFIER.connect_timeout
    )
    attempt_timeout: Annotated[
        Seconds, Field(description="seconds per request, the whole answer included")
    ] = _VERIFIER.attempt_timeout
    call_timeout: Annotated[
        Seconds, Field(description="seconds per verifier call, retries included")
    ] = _VERIFIER.call_timeout
    record_timeout: Annotated[
        float,
        Field(
            gt=0,
            le=RECORD_DEADLINE_CAP_S,
            description="seconds per record; time that our own limits hold a call does not count",
        ),
    ] = _VERIFIER.record_timeout
    prompt_layout: Annotated[
        PromptLayout,
        Field(
            description="standard: the question first; shared_prefix: the document first, the same "
            "in all prompts on a record, for providers that cache prefixes; see docs/cost.md"
        ),
    ] = _VERIFIER.prompt_layout
    prefix_lead: Annotated[
        bool,
        Field(
            description="with shared_prefix: send one call of a record first and the others once "
            "it is answered, for caches that fill only then"
        ),
    ] = False
    max_fields_per_call: Annotated[
        Count, Field(description="fields that one field-level prompt asks about")
    ] = _VERIFIER.max_fields_per_call
    keep_replies: Annotated[
        KeepReplies,
        Field(
            description="raw replies in the verdict log: none, redacted (scores and structure, "
            "free text blanked), full"
        ),
    ] = _VERIFIER.keep_replies
    prices: Annotated[
        str | None,
        Field(
            description="YAML file with prices of models, USD per million tokens, before the "
            "built-in ones; see docs/prices.md"
        ),
    ] = None

    max_calls: Annotated[
        Count | None,
        Field(
            description="most requests to send, over all processes, retries and duplicates "
            "included; further records go to human review (reason budget_exhausted)"
        ),
    ] = None
    max_cost_usd: Annotated[
        float | None, Field(gt=0, description="most US dollars to spend, like max_calls")
    ] = None
    budget_period: Annotated[
        str | None,
        Field(
            description="period after which the budget begins anew, like 1h or 1d (from midnight "
            "UTC); unless set it is that of the run"
        ),
    ] = None

    def verifier_settings(self, prices: Prices | None = None) -> VerifierSettings:
        """The part that travels to the engine. Raises UsageError.

        Each call makes a budget of its own.
        """
        apart = {"target", "budget", "prices"}
        shared = {n: getattr(self, n) for n in VerifierSettings.model_fields if n not in apart}
        shared["verifier_processes"] = processes = self.verifier_processes or 1
        shared["prices"] = prices
        budget = self._budget()
        shared["budget"] = None if budget is None else budget.share(processes)
        age = self.cache_max_age
        shared["cache_max_bytes"] = parse_bytes(self.cache_max_bytes, "--cache_max_bytes")
        shared["cache_max_age"] = None if age is None else parse_age(age, "--cache_max_age")
        return VerifierSettings(target=self.verifier, **shared)

    def _budget(self) -> BudgetLimits | None:
        period = self.budget_period
        if self.max_calls is None and self.max_cost_usd is None:
            if period is not None:
                raise UsageError("--budget_period needs --max_calls or --max_cost_usd")
            return None
        length = None if period is None else parse_age(period, "--budget_period")
        if length is not None and length < timedelta(seconds=1):
            raise UsageError(f"--budget_period {period!r} is too short; use one like 1h or 1d")
        return BudgetLimits(self.max_calls, self.max_cost_usd, length)


class RoutingFlags(BaseModel):
    """How scores are made of verdicts and records are routed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Annotated[
        str | None, Field(description="YAML file with the routing rules; see README, Policy")
    ] = None
    score_scale: Annotated[
        ScoreScale,
        Field(
            description="rescaled: field scores use the whole of [0.001, 0.999]; "
            "raw: the plain mean of their signals"
        ),
    ] = ScoreScale.RESCALED
    shadow: Annotated[
        bool, Field(description="record the route, but accept nothing (reason shadow)")
    ] = False
    accept_literal_evidence: Annotated[
        bool,
        Field(description="let records be accepted on literal evidence alone, without an LLM"),
    ] = False


class InputFlags(BaseModel):
    """What the input is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Annotated[
        str,
        Field(description="Parquet or JSONL files of extracted records: a file, folder or glob"),
    ]
    input_format: Annotated[
        InputFormat | None,
        Field(
            description="parquet or jsonl (by the files' names unless set), openai (JSONL of "
            "logged chat requests and responses, or batch files), dead_letter (our own again)"
        ),
    ] = None
    columns: Annotated[
        str | None,
        Field(description="your column names under ours: id=invoice_no,document=ocr_text,…"),
    ] = None
    carry: Annotated[
        str | None,
        Field(
            description="typed columns for other keys of JSON input, name:type,… "
            "(string, int64, float64, bool, date, timestamp, json); otherwise one column extra"
        ),
    ] = None
    document_from: Annotated[
        DocumentFrom, Field(description="the message that holds the document, for evidence")
    ] = DocumentFrom.LAST_USER
    schema_: Annotated[
        str | None,
        Field(
            alias="schema",
            description="JSON schema of records that bring none: a file, or module:PydanticModel",
        ),
    ] = None


class OutputFlags(BaseModel):
    """Where a run writes, and in what form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    output: Annotated[
        str,
        Field(description="folder for auto_accept/, human_review/, dead_letter/ and run.json"),
    ]
    output_prefix: Annotated[
        str, Field(description="put before the names of the columns that scoring adds")
    ] = ""
    flat_columns: Annotated[
        bool,
        Field(description="add score__FIELD and explanation__FIELD for each field of --schema"),
    ] = False
    verdicts: Annotated[
        str | None, Field(description="folder for the verdict log (Parquet), for rescore")
    ] = None
    overwrite: Annotated[
        bool, Field(description="replace the results of an earlier run in the output folder")
    ] = False


class ScoreFlags(OutputFlags, InputFlags, VerifierFlags, RoutingFlags):
    """A batch run: records in, scored and routed records out."""

    estimate: Annotated[
        bool,
        Field(
            description="print calls, tokens, dollars and hours that the run would take, and end; "
            "nothing is sent or written"
        ),
    ] = False


class EstimateFlags(InputFlags, VerifierFlags):
    """What an estimate looks at of a batch run's flags."""

    output: str | None = None
