"""The body of a chat-completions request, and what an endpoint has refused of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from json import dumps as json_text
from typing import Any

import orjson

from schemas.arrow_json import dump_json
from schemas.verdict import ReplyKind
from scoring.prompt import (
    Content,
    DataBlock,
    PromptLayout,
    completion_limit,
    data_content,
    system_text,
    with_question,
)
from scoring.templates import Template
from verifier.aliases import aliases_of, is_plain

MAX_FORMATS = 1000
"""How many reply schemas are kept: records of one corpus ask for few."""

USUAL_FIELDS = 25
LIMIT_KEYS = ("max_tokens", "max_completion_tokens")


class Structure(IntEnum):
    """How much structure of the reply the endpoint is asked to enforce."""

    NONE = 0
    JSON_OBJECT = 1
    JSON_SCHEMA = 2


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one endpoint and model understand; begins full, and loses what was refused.

    With `aliases`, fields whose names not every provider takes have others in a reply schema.
    """

    structure: Structure = Structure.JSON_SCHEMA
    temperature: bool = True
    limit_key: str | None = "max_tokens"
    aliases: bool = False

    def at_most(self, structure: Structure) -> "Dialect":
        """The dialect with no more enforced than `structure`."""
        return self if self.structure <= structure else replace(self, structure=structure)

    def without(self, parameter: str, fields: Sequence[str] = ()) -> "Dialect | None":
        """The dialect after a refusal of `parameter`, None when nothing is left to change.

        A schema that was refused for `fields` with unusual names is first tried with aliases.
        """
        if parameter == "temperature" and self.temperature:
            return replace(self, temperature=False)
        if parameter in LIMIT_KEYS and self.limit_key:
            renamed = parameter == self.limit_key == LIMIT_KEYS[0]
            return replace(self, limit_key=LIMIT_KEYS[1] if renamed else None)
        if parameter == "response_format" and self.structure:
            if self.structure is Structure.JSON_SCHEMA and not self.aliases and _odd(fields):
                return replace(self, aliases=True)
            return replace(self, structure=Structure(self.structure - 1))
        return None

    def sends(self, template: Template, parameter: str) -> bool:
        """Whether a request of `template` holds `parameter`: else no refusal of it is ours."""
        if parameter == "response_format":
            return bool(self.structure) and template.reply is not ReplyKind.DOCUMENT_SCORE
        return self.temperature if parameter == "temperature" else self.limit_key is not None


def unusual(fields: Sequence[str], aliases: bool = False) -> bool:
    """Whether a provider may refuse a reply schema for these names, or for how many they are."""
    return len(fields) > USUAL_FIELDS or (not aliases and _odd(fields))


def _odd(fields: Sequence[str]) -> bool:
    return not all(map(is_plain, fields))


DataMessage = orjson.Fragment | Content
"""A whole message, or the content that one begins with."""

_PREFIXES_SCHEMA = (".openai.com", ".azure.com")
"""Hosts that put the reply schema before the prompt: different ones leave no shared prefix."""


def first_dialect(host: str | None, layout: PromptLayout) -> Dialect:
    """What an endpoint is first taken to understand."""
    if layout is PromptLayout.SHARED_PREFIX and f".{host}".endswith(_PREFIXES_SCHEMA):
        return Dialect(structure=Structure.JSON_OBJECT)
    return Dialect()


_FormatKey = tuple[str, tuple[str, ...], Structure, bool]


class RequestWriter:
    """Writes request bodies as JSON bytes, each part of them only once.

    The question is written once a template, the record's data once a record and chunk of fields,
    the reply schema once for equal fields.
    """

    def __init__(
        self,
        model: str,
        templates: Sequence[Template],
        layout: PromptLayout = PromptLayout.STANDARD,
    ) -> None:
        self._model = model
        self._layout = layout
        self._systems = {t.name: _message("system", system_text(t, layout)) for t in templates}
        self._formats: dict[_FormatKey, orjson.Fragment | None] = {}

    def data_message(self, data: DataBlock, fields: tuple[str, ...]) -> DataMessage:
        """The message that all templates share, or what their messages begin with."""
        content = data_content(data, fields, self._layout)
        return content if self._layout is PromptLayout.SHARED_PREFIX else _message("user", content)

    def body(
        self,
        template: Template,
        fields: tuple[str, ...],
        data_message: DataMessage,
        dialect: Dialect,
        room: int = 1,
    ) -> bytes:
        """The request; a parameter that the dialect lacks is left out.

        `room` is how many times the usual completion limit the reply may take.
        """
        body: dict[str, Any] = {
            "model": self._model,
            "messages": (self._systems[template.name], self._user(template, data_message)),
        }
        if dialect.temperature:
            body["temperature"] = 0
        if dialect.limit_key:
            body[dialect.limit_key] = room * completion_limit(template.reply, fields)
        response_format = self._format(template, fields, dialect)
        if response_format is not None:
            body["response_format"] = response_format
        return orjson.dumps(body)

    def _user(self, template: Template, data: DataMessage) -> orjson.Fragment:
        if isinstance(data, orjson.Fragment):
            return data
        return _message("user", with_question(data, template, self._layout))

    def _format(
        self, template: Template, fields: tuple[str, ...], dialect: Dialect
    ) -> orjson.Fragment | None:
        key = (template.name, fields, dialect.structure, dialect.aliases)
        if key not in self._formats:
            if len(self._formats) >= MAX_FORMATS:
                self._formats.clear()
            wanted = _response_format(template, fields, dialect)
            self._formats[key] = orjson.Fragment(orjson.dumps(wanted)) if wanted else None
        return self._formats[key]


def _message(role: str, content: Any) -> orjson.Fragment:
    message = {"role": role, "content": content}
    # Attachments may hold Decimals and large integers; plain text takes the faster way.
    return orjson.Fragment(
        orjson.dumps(message) if isinstance(content, str) else dump_json(message)
    )


def _response_format(
    template: Template, fields: Sequence[str], dialect: Dialect
) -> dict[str, Any] | None:
    if not dialect.sends(template, "response_format"):
        return None
    if dialect.structure is Structure.JSON_OBJECT:
        return {"type": "json_object"}
    schema = _SCHEMAS[template.reply](template, fields, dialect.aliases)
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


def _fields_schema(template: Template, fields: Sequence[str], with_aliases: bool) -> dict[str, Any]:
    entry = _strict_object(
        {"explanation": {"type": "string"}, template.score_key: _score_schema(template)}
    )
    aliases = aliases_of(fields) if with_aliases else {}
    properties = {}
    for field in fields:
        alias = aliases.get(field)
        spelled = f"The field {json_text(field, ensure_ascii=False)}"
        properties[alias or field] = entry | {"description": spelled} if alias else entry
    return _strict_object(properties)


def _audit_schema(template: Template, fields: Sequence[str], with_aliases: bool) -> dict[str, Any]:
    name: dict[str, Any] = {"type": "string"}
    if not (with_aliases and _odd(fields)):
        name["enum"] = list(fields)
    finding = _strict_object({"field_name": name, "explanation": {"type": "string"}})
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
