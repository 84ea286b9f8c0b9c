"""Requests in the form of a provider's batch files: one JSON line for each verifier call. Pure."""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict

from schemas.record import Record
from scoring.prompt import DataBlock, PromptLayout, template_set_version
from scoring.templates import Template, TemplateSet
from verifier.request import Dialect, RequestWriter, Structure
from verifier.verdicts import chunks_of

_CUSTOM_ID = re.compile(r"cb-([0-9a-f]{12})-(\d{1,9})-(\d{1,4})-(\d{1,6})(?:-x(\d))?")
_ENVELOPE_BYTES = 150
"""The most that a line holds beside body and URL."""


class ReplyFormat(StrEnum):
    """How much structure of a reply the provider is asked to enforce."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    NONE = "none"


class LimitParameter(StrEnum):
    """The parameter that limits a reply's tokens."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"
    NONE = "none"


class CustomId(NamedTuple):
    """Which call a request is: all that a provider hands back of it.

    `row` counts the records of the shard from 0, `template` and `chunk` those of the record's
    calls; `room` is how many times the usual completion limit the reply may take.
    """

    shard: str
    row: int
    template: int
    chunk: int
    room: int = 1

    def __str__(self) -> str:
        """At most 64 characters, of those that all providers take."""
        more = f"-x{self.room}" if self.room > 1 else ""
        return f"cb-{self.shard}-{self.row}-{self.template}-{self.chunk}{more}"


def parse_custom_id(text: object) -> CustomId | None:
    """The call that a custom_id names, None for an id that is none of ours."""
    match = _CUSTOM_ID.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    row, template, chunk = (int(number) for number in match.groups()[1:4])
    return CustomId(match[1], row, template, chunk, int(match[5] or 1))


class Body(NamedTuple):
    """A request's body, behind the numbers of its template and chunk."""

    template: int
    chunk: int
    text: bytes


class BatchForm(BaseModel):
    """What the requests of one export have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    templates: TemplateSet
    prompt_layout: PromptLayout
    max_fields_per_call: int
    response_format: ReplyFormat
    field_aliases: bool
    limit_parameter: LimitParameter
    temperature: bool
    url: str

    def calls(self, record: Record) -> Iterator[tuple[int, int, Template, tuple[str, ...]]]:
        """The record's calls: number of the template, number of the chunk, both themselves."""
        for number, template in enumerate(self.templates.templates):
            chunks = chunks_of(template, record.fields, self.max_fields_per_call)
            for part, fields in enumerate(chunks):
                yield number, part, template, fields

    @property
    def template_set(self) -> str:
        """The version of the templates, as this program renders them."""
        return template_set_version(self.templates, self.prompt_layout)

    @property
    def dialect(self) -> Dialect:
        """What the requests hold beside model and messages."""
        limit = self.limit_parameter
        return Dialect(
            structure=Structure[self.response_format.name],
            temperature=self.temperature,
            limit_key=None if limit is LimitParameter.NONE else limit.value,
            aliases=self.field_aliases,
        )


class BatchRequests:
    """Writes the requests on records; bodies are those of the online run."""

    def __init__(self, form: BatchForm) -> None:
        self._form = form
        self._dialect = form.dialect
        self._writer = RequestWriter(form.model, form.templates.templates, form.prompt_layout)

    def bodies(self, record: Record, data: DataBlock, room: int = 1) -> Iterator[Body]:
        """The bodies of the record's calls, in order. `data` are the record's sections."""
        whole = self._writer.data_message(data, record.fields)
        for number, part, template, fields in self._form.calls(record):
            same = fields == record.fields
            message = whole if same else self._writer.data_message(data, fields)
            text = self._writer.body(template, fields, message, self._dialect, room)
            yield Body(number, part, text)

    def size(self, bodies: Sequence[Body]) -> int:
        """The most bytes that the bodies' lines take."""
        return sum(len(body.text) + len(self._form.url) + _ENVELOPE_BYTES for body in bodies)

    def line(self, shard: str, row: int, body: Body, room: int = 1) -> bytes:
        """The line of one request, with its line break."""
        request = {
            "custom_id": str(CustomId(shard, row, body.template, body.chunk, room)),
            "method": "POST",
            "url": self._form.url,
            "body": orjson.Fragment(body.text),
        }
        return orjson.dumps(request) + b"\n"
