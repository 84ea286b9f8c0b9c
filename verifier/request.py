"""The body of a chat-completions request, and what an endpoint has refused of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import orjson

from schemas.arrow_json import dump_json
from schemas.verdict import ReplyKind
from scoring.prompt import DataBlock, completion_limit, question, user_content
from scoring.templates import Template

MAX_FORMATS = 1000
"""How many reply schemas are kept: records of one corpus ask for few."""


USUAL_FIELDS = 25
_USUAL_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class Structure(IntEnum):
    """How much structure of the reply the endpoint is asked to enforce."""

    NONE = 0
    JSON_OBJECT = 1
    JSON_SCHEMA = 2


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one endpoint and model understand; begins full, and loses what was refused."""

    structure: Structure = Structure.JSON_SCHEMA
    temperature: bool = True
    limit_key: str | None = "max_tokens"

    def at_most(self, structure: Structure) -> "Dialect":
        """The dialect with no more enforced than `structure`."""
        return self if self.structure <= structure else replace(self, structure=structure)

    def without(self, parameter: str) -> "Dialect | None":
        """The dialect after a refusal of `parameter`, None when nothing is left to change."""
        if parameter == "temperature" and self.temperature:
            return replace(self, temperature=False)
        if parameter == self.limit_key:
            other = "max_completion_tokens" if parameter == "max_tokens" else None
            return replace(self, limit_key=other)
        if parameter == "response_format" and self.structure:
            return replace(self, structure=Structure(self.structure - 1))
        return None


def unusual(fields: Sequence[str]) -> bool:
    """Whether a provider may refuse a reply schema for these names, or for how many they are."""
    return len(fields) > USUAL_FIELDS or not all(map(_USUAL_NAME.fullmatch, fields))


class RequestWriter:
    """Writes request bodies as JSON bytes, each part of them only once.

    The question is written once a template, the record's data once a record and chunk of fields,
    the reply schema once for equal fields.
    """

    def __init__(self, model: str, templates: Sequence[Template]) -> None:
        self._model = model
        self._questions = {t.name: _message("system", question(t)) for t in templates}
        self._formats: dict[tuple[str, tuple[str, ...], Structure], orjson.Fragment | None] = {}

    @staticmethod
    def data_message(data: DataBlock, fields: tuple[str, ...]) -> orjson.Fragment:
        """The message that all templates share."""
        return _message("user", user_content(data, fields))

    def body(
        self,
        template: Template,
        fields: tuple[str, ...],
        data_message: orjson.Fragment,
        dialect: Dialect,
        room: int = 1,
    ) -> bytes:
        """The request; a parameter that the dialect lacks is left out.

        `room` is how many times the usual completion limit the reply may take.
        """
        body: dict[str, Any] = {
            "model": self._model,
            "messages": (self._questions[template.name], data_message),
        }
        if dialect.temperature:
            body["temperature"] = 0
        if dialect.limit_key:
            body[dialect.limit_key] = room * completion_limit(template.reply, fields)
        response_format = self._format(template, fields, dialect.structure)
        if response_format is not None:
            body["response_format"] = response_format
        return orjson.dumps(body)

    def _format(
        self, template: Template, fields: tuple[str, ...], structure: Structure
    ) -> orjson.Fragment | None:
        key = (template.name, fields, structure)
        if key not in self._formats:
            if len(self._formats) >= MAX_FORMATS:
                self._formats.clear()
            wanted = _response_format(template, fields, structure)
            self._formats[key] = orjson.Fragment(orjson.dumps(wanted)) if wanted else None
        return self._formats[key]


def _message(role: str, content: Any) -> orjson.Fragment:
    message = {"role": role, "content": content}
    # Attachments may hold Decimals and large integers; plain text takes the faster way.
    return orjson.Fragment(
        orjson.dumps(message) if isinstance(content, str) else dump_json(message)
    )


def _response_format(
    template: Template, fields: Sequence[str], structure: Structure
) -> dict[str, Any] | None:
    if template.reply is ReplyKind.DOCUMENT_SCORE or structure is Structure.NONE:
        return None
    if structure is Structure.JSON_OBJECT:
        return {"type": "json_object"}
    schema = _SCHEMAS[template.reply](template, fields)
    return {
        "type": "json_schema",
        "json_schema": {"name": template.name, "strict": True, "schema": schema},
    }


def _strict_object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _score_schema(template: Template) -> dict[str, Any]:
    if isinstance(template.scale, dict):
        return {"type": "string", "enum": list(template.scale)}
    return {"type": "integer"}


def _fields_schema(template: Template, fields: Sequence[str]) -> dict[str, Any]:
    entry = _strict_object(
        {"explanation": {"type": "string"}, template.score_key: _score_schema(template)}
    )
    return _strict_object(dict.fromkeys(fields, entry))


def _audit_schema(template: Template, fields: Sequence[str]) -> dict[str, Any]:
    finding = _strict_object(
        {
            "field_name": {"type": "string", "enum": list(fields)},
            "explanation": {"type": "string"},
        }
    )
    return _strict_object(
        {
            "explanation": {"type": "string"},
            "incorrect_fields": {"type": "array", "items": finding},
            template.score_key: _score_schema(template),
        }
    )


_SCHEMAS = {
    ReplyKind.FIELD_SCORES: _fields_schema,
    ReplyKind.INCORRECT_FIELDS: _audit_schema,
}
