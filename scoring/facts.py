"""What routing must know of a record beside its scores."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from schemas.json_schema import validator_of
from schemas.record import Record
from schemas.verdict import Facts
from scoring.injection import instruction_like_text

MAX_VIOLATIONS = 20
MESSAGE_LENGTH = 200


def facts_of(record: Record) -> Facts:
    """The record's routing facts."""
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
    """Where the output breaks its schema, `$.path: what is wrong`, at most MAX_VIOLATIONS."""
    if record.json_schema is None:
        return ()
    validator = validator_of(record.json_schema.text)
    if validator.is_valid(record.output):
        return ()
    errors = islice(validator.iter_errors(record.output), MAX_VIOLATIONS)
    return tuple([f"{_path(e.instance_path)}: {e.message[:MESSAGE_LENGTH]}" for e in errors])


def _path(steps: Sequence[str | int]) -> str:
    """`$.items[0].price`; a key with a dot or bracket is quoted."""
    parts = [
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if step.isidentifier()
        else f"[{step!r}]"
        for step in steps
    ]
    return "$" + "".join(parts)
