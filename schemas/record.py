"""The record: one generator request, its JSON schema, and the structured output to score."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cached_property
from typing import Any

from schemas.errors import RecordError
from schemas.json_schema import JsonSchema
from schemas.reasons import FailureReason
from schemas.row import Row

WHOLE_OUTPUT = "$"
"""The one field of an output that is no JSON object: a top-level array or scalar."""

RECORD_KEYS = (
    "id",
    "messages",
    "prompt",
    "document",
    "instructions",
    "json_schema",
    "output",
    "ground_truth",
    "logprobs",
    "generator",
)

MAX_DEPTH = 200
"""How deep JSON may be nested: far beyond any real output, and safe for recursive code."""

_TOO_DEEP = f"JSON is nested deeper than {MAX_DEPTH} levels"

ContentPart = Mapping[str, Any]


class DocumentFrom(StrEnum):
    """Which message of the request holds the document; earlier few-shot messages do not."""

    LAST_USER = "last_user"
    FIRST_USER = "first_user"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the generator's request; content is text or OpenAI content parts."""

    role: str
    content: str | tuple[ContentPart, ...]

    @property
    def text(self) -> str:
        """The message's text; parts that are no text (images) are left out."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(p.get("text") or "") for p in self.content if p.get("type") == "text")

    @property
    def attachments(self) -> tuple[ContentPart, ...]:
        """The parts that are no text, as they came."""
        if isinstance(self.content, str):
            return ()
        return tuple(p for p in self.content if p.get("type") != "text")


@dataclass(frozen=True)
class Record:
    """A validated record.

    `output_text` is the output as JSON text with every digit kept; `output` is that text
    parsed, with Decimal for numbers that are not integers. `row` is the input row, written
    unchanged beside the scores.
    """

    id: str
    messages: tuple[Message, ...]
    output_text: str
    json_schema: JsonSchema | None = None
    generator: str | None = None
    notes: tuple[str, ...] = ()
    row: Row | None = None
    document_from: DocumentFrom = DocumentFrom.LAST_USER

    @cached_property
    def output(self) -> Any:
        """The structured output, parsed."""
        return parse_json(self.output_text)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, in order: the output's top-level keys, else `$`."""
        return tuple(self.output) if isinstance(self.output, dict) else (WHOLE_OUTPUT,)

    def value(self, field: str) -> Any:
        """The value of `field`."""
        return self.output[field] if isinstance(self.output, dict) else self.output

    @cached_property
    def document_index(self) -> int:
        """The index of the message that holds the document, in which evidence is looked for."""
        if self.document_from is DocumentFrom.SYSTEM:
            wanted = [i for i, m in enumerate(self.messages) if m.role in {"system", "developer"}]
        else:
            wanted = [i for i, m in enumerate(self.messages) if m.role == "user"]
        first = self.document_from is DocumentFrom.FIRST_USER
        return (wanted[0] if first else wanted[-1]) if wanted else len(self.messages) - 1

    @property
    def document(self) -> str:
        """The document's text, in which evidence is looked for."""
        return self.messages[self.document_index].text


def record_values(record: Record) -> dict[str, Any]:
    """The record as the values that `schemas.parse_record.parse_record` takes."""
    values = {
        "id": record.id,
        "messages": [{"role": m.role, "content": m.content} for m in record.messages],
        "json_schema": record.json_schema.text if record.json_schema else None,
        "output": record.output_text,
        "generator": record.generator,
    }
    return {key: value for key, value in values.items() if value is not None}


def parse_json(text: str | bytes) -> Any:
    """JSON text as Python values; numbers that are not integers become Decimal.

    A lone surrogate, which no output could hold, is written out: `\\ud800`. Raises ValueError
    for text that is not strict JSON, NaN and Infinity included, and for JSON nested deeper than
    MAX_DEPTH.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except InvalidOperation:
        raise ValueError("a number's exponent has too many digits") from None
    check_depth(text, value)
    return clean(value) if "\\ud" in text.lower() else value


def check_depth(text: str, value: Any) -> None:
    """Raise ValueError when `value`, of which `text` is the JSON, is nested beyond MAX_DEPTH."""
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise ValueError(_TOO_DEEP)


def _depth(value: Any) -> int:
    """How deep lists and objects are nested."""
    depth, level = 0, [value]
    while level := [
        item
        for v in level
        if isinstance(v, dict | list)
        for item in (v.values() if isinstance(v, dict) else v)
    ]:
        depth += 1
    return depth


def clean(value: Any) -> Any:
    """`value` with lone surrogates in its texts written out, so that any output can hold it."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(k): clean(v) for k, v in value.items()}
    return value


def _refuse_constant(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant)


def content_hash(messages: tuple[Message, ...], schema: str | None, output_text: str) -> str:
    """A stable id for a record that has none: 32 hex digits of what it contains."""
    parts = [[m.role, m.content] for m in messages]
    text = json.dumps([parts, schema, output_text], sort_keys=True, default=str)
    return hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=16, key=b"construct-beam id"
    ).hexdigest()


def invalid(message: str) -> RecordError:
    """The error for a record that lacks something or has it in a wrong form."""
    return RecordError(FailureReason.INVALID_RECORD, message)
