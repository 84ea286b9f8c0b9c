"""What a user can set for an export of batch requests and for an import of their results."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pipeline.settings import Count, InputFlags, OutputFlags, RoutingFlags
from scoring.prompt import PromptLayout
from verifier.batch_request import LimitParameter, ReplyFormat
from verifier.settings import KeepReplies, OnOff, VerifierSettings

MAX_REQUESTS = 50_000
MAX_MEGABYTES = 200.0
"""What OpenAI takes in one file; a megabyte is 10^6 bytes."""

REQUEST_URL = "/v1/chat/completions"
_VERIFIER = VerifierSettings(target="embedded")


class ExportBatchFlags(InputFlags):
    """Records in, request files out."""

    verifier: Annotated[
        str,
        Field(
            description="the LLM that will judge: openai:MODEL, or a base URL with the model "
            "after a #; nothing is sent, only the model's name goes into the requests"
        ),
    ]
    output: Annotated[
        str,
        Field(
            description="folder for requests/ (to upload), records/ and batch.json (for "
            "import-batch) and dead_letter/"
        ),
    ]
    templates: Annotated[
        str | None,
        Field(description="folder of *.yaml templates that replace, extend or disable the five"),
    ] = None
    prompt_layout: Annotated[
        PromptLayout,
        Field(description="standard: the question first; shared_prefix: the document first"),
    ] = _VERIFIER.prompt_layout
    max_fields_per_call: Annotated[
        Count, Field(description="fields that one field-level prompt asks about")
    ] = _VERIFIER.max_fields_per_call
    max_requests_per_file: Annotated[
        Count, Field(description="most requests in one file; the provider's limit")
    ] = MAX_REQUESTS
    max_megabytes_per_file: Annotated[
        float, Field(gt=0, description="most megabytes in one file; the provider's limit")
    ] = MAX_MEGABYTES
    response_format: Annotated[
        ReplyFormat | None,
        Field(
            description="how much structure of the replies the provider is asked to enforce; "
            "unless set as score begins: json_schema (json_object with shared_prefix, where a "
            "provider puts the schema before the prompt)"
        ),
    ] = None
    field_aliases: Annotated[
        OnOff,
        Field(
            description="on: fields whose names not every provider takes as keys of a schema get "
            "plain ones there; import-batch reads both"
        ),
    ] = OnOff.OFF
    limit_parameter: Annotated[
        LimitParameter,
        Field(
            description="what limits a reply's tokens; newer OpenAI models want "
            "max_completion_tokens"
        ),
    ] = LimitParameter.MAX_TOKENS
    temperature: Annotated[
        OnOff, Field(description="on: ask for temperature 0; off: for models that refuse that")
    ] = OnOff.ON
    request_url: Annotated[
        str, Field(description="the `url` of each request line (Azure: /chat/completions)")
    ] = REQUEST_URL
    overwrite: Annotated[
        bool, Field(description="replace an earlier export in the output folder")
    ] = False


class BatchResultsFlags(BaseModel):
    """What is imported."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: Annotated[str, Field(description="the folder that export-batch wrote")]
    results: Annotated[
        str,
        Field(
            description="the provider's output files and error files (JSONL): a file, folder or "
            "glob, several with commas between; any order, repeated or partial ones, too"
        ),
    ]


class ImportBatchFlags(RoutingFlags, OutputFlags, BatchResultsFlags):
    """Results of a batch in, scored and routed records out."""

    keep_replies: Annotated[
        KeepReplies,
        Field(
            description="raw replies in the verdict log: none, redacted (scores and structure, "
            "free text blanked), full"
        ),
    ] = KeepReplies.NONE
    prices: Annotated[
        str | None,
        Field(
            description="YAML file with prices of models, USD per million tokens, before the "
            "built-in ones; a model's batch_discount is taken off"
        ),
    ] = None
    rest: Annotated[
        str | None,
        Field(
            description="folder: while requests lack an answer that can still come (none yet, "
            "expired, a passing error, a cut-off reply), place nothing, write those there for "
            "another upload, and end with status 1"
        ),
    ] = None
