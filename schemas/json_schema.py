"""A JSON schema that came with a record or with the whole run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

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
    return _from_text(dump_json(value))


@lru_cache(maxsize=256)
def _from_text(text: str) -> JsonSchema | None:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"json_schema is not JSON: {error}") from error
    if isinstance(schema, dict) and isinstance(schema.get("json_schema"), dict):
        schema = schema["json_schema"].get("schema", schema["json_schema"])
        text = dump_json(schema)
    if schema is None:
        return None
    _check(schema)
    return JsonSchema(text, schema)


def _check(schema: Any) -> None:
    if not isinstance(schema, dict | bool):
        raise _invalid(f"json_schema must be a JSON object, not {type(schema).__name__}")
    if isinstance(schema, bool):
        return
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "its root"
        raise _invalid(f"json_schema is invalid at {where}: {error.message}") from error
    except RecursionError as error:
        raise _invalid("json_schema is nested too deep") from error


def _invalid(message: str) -> RecordError:
    return RecordError(FailureReason.INVALID_SCHEMA, message)
