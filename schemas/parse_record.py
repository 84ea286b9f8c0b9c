"""From the values of one input row to a validated record."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.arrow_json import dump_json
from schemas.errors import RecordError
from schemas.json_schema import JsonSchema, parse_schema
from schemas.reasons import FailureReason
from schemas.record import (
    DocumentFrom,
    Message,
    Record,
    check_depth,
    clean,
    content_hash,
    invalid,
    parse_json,
)
from schemas.row import Row

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def parse_record(
    values: Mapping[str, Any],
    row: Row | None = None,
    default_schema: JsonSchema | None = None,
    document_from: DocumentFrom = DocumentFrom.LAST_USER,
) -> Record:
    """The record in `values`: JSON values by the record keys of `schemas.record.RECORD_KEYS`.

    Raises RecordError with the reason and the key at fault.
    """
    messages = _messages(values)
    output_text, notes = _output(values.get("output"))
    schema = parse_schema(values.get("json_schema")) or default_schema
    return Record(
        id=_id(values.get("id"))
        or content_hash(messages, schema.text if schema else None, output_text),
        messages=messages,
        output_text=output_text,
        json_schema=schema,
        generator=_optional_text(values, "generator"),
        notes=notes,
        row=row,
        document_from=document_from,
    )


def _id(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise invalid(f"id must be text or an integer, not {type(value).__name__}")
    return str(clean(value))


def _optional_text(values: Mapping[str, Any], key: str) -> str | None:
    value: Any = values.get(key)
    if value is not None and not isinstance(value, str):
        raise invalid(f"{key} must be text, not {type(value).__name__}")
    return None if value is None else str(clean(value))


def _messages(values: Mapping[str, Any]) -> tuple[Message, ...]:
    """The request, from `messages`, else `prompt`, else `document` and `instructions`."""
    if values.get("messages") is not None:
        return _parse_messages(values["messages"])
    prompt = _optional_text(values, "prompt")
    if prompt is not None:
        return (Message("user", prompt),)
    document = _optional_text(values, "document")
    if document is None:
        raise invalid("messages, prompt and document are all missing: one of them is needed")
    instructions = _optional_text(values, "instructions")
    before = () if instructions is None else (Message("system", instructions),)
    return (*before, Message("user", document))


def _parse_messages(value: Any) -> tuple[Message, ...]:
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            raise invalid(f"messages is text that is not JSON: {error}") from error
    if not isinstance(value, list) or not value:
        raise invalid("messages must be a list of at least one {role, content}")
    return tuple(_message(m, i) for i, m in enumerate(value))


def _message(value: Any, index: int) -> Message:
    if not isinstance(value, Mapping):
        raise invalid(f"messages[{index}] must be {{role, content}}")
    role, content = value.get("role"), value.get("content")
    if not isinstance(role, str) or role not in ROLES:
        raise invalid(f"messages[{index}].role is {role!r}, not one of {', '.join(sorted(ROLES))}")
    if content is None:
        return Message(role, "")
    if isinstance(content, str):
        return Message(role, clean(content))
    if isinstance(content, Sequence) and all(isinstance(p, Mapping) for p in content):
        return Message(role, tuple(clean(part) for part in content))
    raise invalid(f"messages[{index}].content must be text or a list of content parts")


def parse_output(value: Any) -> Any:
    """A structured output, or the gold for one, in any form that a record takes.

    Raises RecordError.
    """
    return parse_json(_output(value)[0])


def _output(value: Any) -> tuple[str, tuple[str, ...]]:
    """The output as JSON text, and notes on how it was read."""
    notes: tuple[str, ...] = ()
    if isinstance(value, str):
        text, notes = _output_text(value)
    else:
        text = _json_text(value)
    if text.strip() in {"", "null", "{}"}:
        raise RecordError(FailureReason.EMPTY_OUTPUT, "output is null or an empty object")
    return text, notes


def _json_text(value: Any) -> str:
    try:
        text = dump_json(clean(value))
        check_depth(text, value)
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid(f"output has no JSON form: {error}") from error
    return text


def _output_text(text: str) -> tuple[str, tuple[str, ...]]:
    if not text.strip():
        return "", ()
    try:
        value = parse_json(text)
    except ValueError as error:
        literal = _python_literal(text)
        if literal is None:
            raise RecordError(
                FailureReason.INVALID_JSON, f"output is not JSON: {error}: {text[:80]!r}"
            ) from error
        return literal, ("output was a Python literal, not JSON",)
    return ("{}" if value == {} else text), ()


def _python_literal(text: str) -> str | None:
    """A dict or list that pandas wrote with repr(), as JSON text, else None."""
    try:
        value = clean(ast.literal_eval(text.strip()))
        return dump_json(value) if isinstance(value, dict | list) else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
