"""A JSON schema that came with a record or with the whole run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs
from jsonschema_rs import Validator

from schemas.arrow_json import dump_json
from schemas.errors import RecordError
from schemas.reasons import FailureReason


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A checked schema: `text` as it goes into prompts, `value` parsed."""

    text: str
    value: Mapping[str, Any] | bool


def parse_schema(value: Any) -> JsonSchema | None:
    """The schema in `value`: an object, JSON text, or an OpenAI `response_format` of either.

    Raises RecordError with reason `invalid_schema`.
    """
    if isinstance(value, str):
        return _from_text(value) if value.strip() else None
    if value is None:
        return None
    try:
        text = dump_json(value)
    except (TypeError, RecursionError) as error:
        raise _invalid(f"json_schema has no JSON form: {error}") from error
    return _from_text(text)


@lru_cache(maxsize=256)
def _from_text(text: str) -> JsonSchema | None:
    try:
        schema = json.loads(text)
        if isinstance(schema, dict) and isinstance(schema.get("json_schema"), dict):
            schema = schema["json_schema"].get("schema", schema["json_schema"])
            text = dump_json(schema)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"json_schema is not JSON: {error}") from error
    if schema is None:
        return None
    if not isinstance(schema, dict | bool):
        raise _invalid(f"json_schema must be a JSON object, not {type(schema).__name__}")
    validator_of(text)
    return JsonSchema(text, schema)


@lru_cache(maxsize=256)
def validator_of(text: str) -> Validator:
    """The compiled form of a schema, formats asserted.

    Raises RecordError with reason `invalid_schema`, also for a `$ref` that leads nowhere; none is
    fetched from another host.
    """
    try:
        return jsonschema_rs.validator_for(
            json.loads(text), validate_formats=True, retriever=_refuse
        )
    except jsonschema_rs.ValidationError as error:
        where = "/".join(map(str, error.instance_path)) or "its root"
        raise _invalid(f"json_schema is invalid at {where}: {error.message}") from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise _invalid(f"json_schema cannot be applied: {error}") from error


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def _invalid(message: str) -> RecordError:
    return RecordError(FailureReason.INVALID_SCHEMA, message)
