"""What a JSON schema says of single fields: what breaks it, what may be absent, what it lists."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from schemas.errors import RecordError
from schemas.json_schema import JsonSchema, validator_of
from schemas.record import WHOLE_OUTPUT

MAX_VIOLATIONS = 1000
MESSAGE_LENGTH = 120
_MAX_REFERENCES = 10


def field_violations(output: object, schema: JsonSchema | None) -> dict[str, str]:
    """How fields break the schema, the first finding of each.

    A schema that cannot be applied finds nothing; nor does any in what is no JSON, as NaN.
    """
    found: dict[str, str] = {}
    if schema is None:
        return found
    with suppress(ValueError, RecordError):
        for error in islice(validator_of(schema.text).iter_errors(output), MAX_VIOLATIONS):
            field = _field_at(error.instance_path, output)
            if field is not None:
                found.setdefault(field, error.message[:MESSAGE_LENGTH])
    return found


def _field_at(steps: list[str | int], output: object) -> str | None:
    if not isinstance(output, dict):
        return WHOLE_OUTPUT
    return str(steps[0]) if steps else None


def is_required(schema: JsonSchema, field: str) -> bool:
    """Whether an object must have `field`; a value that is the whole output cannot be absent."""
    required = _followed(schema.value, schema.value).get("required")
    return field == WHOLE_OUTPUT or (isinstance(required, list) and field in required)


def listed_strings(schema: JsonSchema, field: str) -> frozenset[str]:
    """The strings among which the schema lets `field`, or what is inside it, choose."""
    part: Any = schema.value
    if field != WHOLE_OUTPUT:
        properties = _followed(part, part).get("properties")
        part = properties.get(field) if isinstance(properties, dict) else None
    choices = [choice for found in _parts(schema.value, part) for choice in _choices(found)]
    return frozenset(choice for choice in choices if isinstance(choice, str))


def _choices(part: Mapping[str, Any]) -> list[Any]:
    listed = part.get("enum")
    return [*(listed if isinstance(listed, list) else ()), part.get("const")]


def _parts(root: Any, part: Any) -> Iterator[Mapping[str, Any]]:
    """The objects in `part`, however deep, and in what it refers to; each once."""
    pending, seen = [part], set[int]()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            yield item
            pending.extend(item.values())
            pending.append(_referred(root, item))
        elif isinstance(item, list):
            pending.extend(item)


def _followed(root: Any, part: Any) -> Mapping[str, Any]:
    """`part`, or what it refers to."""
    for _ in range(_MAX_REFERENCES):
        target = _referred(root, part)
        if target is None:
            break
        part = target
    return part if isinstance(part, dict) else {}


def _referred(root: Any, part: Any) -> Any:
    """The target of a `$ref` inside the same schema, None where there is none."""
    reference = part.get("$ref") if isinstance(part, dict) else None
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    for step in reference.removeprefix("#/").split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        root = root.get(key) if isinstance(root, dict) else None
    return root
