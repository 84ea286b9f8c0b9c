"""Names that every provider takes, for fields whose own names are refused as keys of a schema."""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from schemas.errors import RecordError
from schemas.verdict import Reading, ReplyKind
from scoring.reply import read_reply
from scoring.templates import Template

_TAKEN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_OTHERS = re.compile(r"[^a-zA-Z0-9_-]+")
_LENGTH = 48


def is_plain(name: str) -> bool:
    """Whether every provider takes the name as a key of a schema."""
    return _TAKEN.fullmatch(name) is not None


def aliases_of(fields: Sequence[str]) -> dict[str, str]:
    """Field to alias, for those fields that need one: the name's plain characters, else its place.

    No alias is like another field's name or alias, also not to one who minds neither case nor
    separators.
    """
    odd = [field for field in fields if not is_plain(field)]
    if not odd:
        return {}
    used = {_loosened(field) for field in fields if is_plain(field)}
    aliases: dict[str, str] = {}
    for field in odd:
        alias = _OTHERS.sub("_", field).strip("_-")[:_LENGTH]
        number = fields.index(field) + 1
        while not alias or _loosened(alias) in used:
            alias, number = f"field_{number}", number + len(fields)
        used.add(_loosened(alias))
        aliases[field] = alias
    return aliases


def _loosened(name: str) -> str:
    return re.sub(r"[_.-]", "", name).casefold()


def read_aliased(template: Template, fields: Sequence[str], text: str) -> Reading:
    """Like `read_reply`, for a reply whose keys may be fields or their aliases.

    The fuller reading counts, under the fields' own names. Raises RecordError
    when neither gives a signal.
    """
    aliases = aliases_of(fields) if template.reply is ReplyKind.FIELD_SCORES else {}
    if not aliases:
        return read_reply(template, fields, text)
    asked = tuple(aliases.get(field, field) for field in fields)
    readings = [r for r in (_read(template, fields, text), _read(template, asked, text)) if r]
    if not readings:
        return read_reply(template, fields, text)
    fullest = max(readings, key=_fullness)
    return _renamed(fullest, {alias: field for field, alias in aliases.items()})


def _read(template: Template, fields: Sequence[str], text: str) -> Reading | None:
    try:
        return read_reply(template, fields, text)
    except RecordError:
        return None


def _fullness(reading: Reading) -> tuple[int, int]:
    """How many fields were scored, and how few of the reply's keys were none."""
    unasked = sum(note.startswith("unasked ") for note in reading.notes)
    return len(reading.field_scores), -unasked


def _renamed(reading: Reading, names: Mapping[str, str]) -> Reading:
    return replace(
        reading,
        field_scores={names.get(k, k): v for k, v in reading.field_scores.items()},
        field_explanations={names.get(k, k): v for k, v in reading.field_explanations.items()},
        notes=tuple(_note(note, names) for note in reading.notes),
    )


def _note(note: str, names: Mapping[str, str]) -> str:
    """A note on a field starts with its name."""
    name, colon, rest = note.partition(": ")
    return f"{names.get(name, name)}{colon}{rest}"
