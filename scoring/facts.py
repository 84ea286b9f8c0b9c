"""What routing must know of a record beside its scores."""

import json
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import FormatChecker
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable

from schemas.errors import RecordError
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.verdict import Facts
from scoring.injection import instruction_like_text

MAX_VIOLATIONS = 20
MESSAGE_LENGTH = 200


def facts_of(record: Record) -> Facts:
    """The record's routing facts.

    Raises RecordError (`invalid_schema`) when the schema cannot be applied at all.
    """
    return Facts(
        fields=record.fields,
        empty_fields=tuple(f for f in record.fields if is_empty(record.value(f))),
        schema_violations=schema_violations(record),
        instruction_like_text=instruction_like_text(record),
    )


def is_empty(value: Any) -> bool:
    """Whether a value is null or holds nothing: blanks, `[]`, `{}`; 0 and false are values."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value in ([], {})


def schema_violations(record: Record) -> tuple[str, ...]:
    """Where the output breaks its schema, `$.path: what is wrong`, at most MAX_VIOLATIONS.

    Raises RecordError (`invalid_schema`) for a `$ref` that leads nowhere; none is fetched.
    """
    if record.json_schema is None:
        return ()
    try:
        errors = _validator(record.json_schema.text).iter_errors(json.loads(record.output_text))
        return tuple(
            f"{error.json_path}: {error.message[:MESSAGE_LENGTH]}"
            for error in islice(errors, MAX_VIOLATIONS)
        )
    except (Unresolvable, RecursionError) as error:
        raise RecordError(
            FailureReason.INVALID_SCHEMA, f"json_schema cannot be applied: {error}"
        ) from error


@lru_cache(maxsize=256)
def _validator(schema_text: str) -> Validator:
    schema = json.loads(schema_text)
    return validator_for(schema)(schema, registry=REGISTRY, format_checker=FormatChecker())
