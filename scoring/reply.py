"""From the text of a verifier's reply to what it says of the document and its fields.

No answer is not an answer: what is missing, out of range or no number gives no signal, never a
middling one. A reply without any signal is an error.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.errors import RecordError
from schemas.reasons import FailureReason
from schemas.record import clean
from schemas.verdict import Reading, ReplyKind
from scoring.json_reply import in_json, json_candidates
from scoring.names import FieldNames
from scoring.templates import AUDIT_CLEAR, AUDIT_FLAGGED, Template

_SCORE_TAG = re.compile(
    r"<\s*score\s*>((?:(?!<\s*(?:/\s*)?score\s*>).)*+)<\s*/\s*score\s*>",
    re.IGNORECASE | re.DOTALL,
)
_THINK_END = re.compile(r"<\s*/\s*think(?:ing)?\s*>", re.IGNORECASE)
_THINK_START = re.compile(r"<\s*think(?:ing)?\s*>", re.IGNORECASE)
_NUMBER = re.compile(r"([+-]?\d{1,18}(?:\.\d+)?)(?:\s*%|\s*/\s*(\d{1,18}))?")
NOTE_LENGTH = 80
"""How much of a reply's own text a note quotes."""

_NAME_KEYS = ("field_name", "field", "name", "key")


def read_reply(template: Template, fields: Sequence[str], text: str) -> Reading:
    """What `text` answers to `template`, asked about `fields`.

    Raises RecordError with reason `unparseable` when the reply gives no signal at all.
    """
    if template.reply is ReplyKind.DOCUMENT_SCORE:
        return _document_reading(template, text)
    answer = answer_of(text)
    read = _READERS[template.reply]
    candidates = json_candidates(answer.strip())
    readings = [read(template, fields, value, len(candidates) == 1) for value in candidates]
    readings = [r for r in readings if r.has_signal]
    if not readings:
        raise _unparseable(f"no score for any field asked about in: {_excerpt(answer)}")
    if len(readings) > 1 and any(_signals(r) != _signals(readings[0]) for r in readings[1:]):
        raise _unparseable("the reply holds several verdicts that differ")
    return readings[0]


def split_thinking(text: str) -> tuple[str | None, str]:
    """The reasoning up to the first `</think>`, and the answer after it."""
    end = _THINK_END.search(text)
    if end is None:
        return None, text
    start = _THINK_START.match(text.lstrip())
    thinking = text[: end.start()].lstrip()
    return (thinking[start.end() :] if start else thinking).strip(), text[end.end() :]


def answer_of(text: str) -> str:
    """What follows the reasoning; a `</think>` that the answer itself quotes ends none."""
    end = _THINK_END.search(text)
    if end and not _THINK_START.match(text.lstrip()) and in_json(text, end.start()):
        return text
    return split_thinking(text)[1]


def _unparseable(message: str) -> RecordError:
    return RecordError(FailureReason.UNPARSEABLE, message)


def _excerpt(text: str) -> str:
    return repr(text.strip()[:80])


def _signals(reading: Reading) -> tuple[float | None, Mapping[str, float]]:
    return reading.document_score, reading.field_scores


def _document_reading(template: Template, text: str) -> Reading:
    thinking, answer = split_thinking(text)
    tags = _SCORE_TAG.findall(answer)
    if not tags:
        raise _unparseable(f"no <score> in: {_excerpt(answer)}")
    score, note = read_score(tags[-1], template.scale)
    if score is None:
        raise _unparseable(note or "no score")
    explanation = thinking or _SCORE_TAG.sub("", answer).strip() or None
    return Reading(document_score=score, explanation=explanation, notes=_notes(note))


def read_score(value: Any, scale: int | dict[str, float]) -> tuple[float | None, str | None]:
    """`value` on `scale` as a signal in [0, 1], and a note; None when it is no score.

    On a scale to 100, a number of at most 1 that is written with a decimal point is taken as a
    share of 1 already; a bare 1 is one of a hundred.
    """
    if isinstance(scale, dict):
        return _read_word(value, scale)
    number, top = _read_number(value)
    if number is None or (isinstance(number, float) and not math.isfinite(number)):
        return None, f"no_score: {_shown(value)}"
    if top is not None and top != scale:
        return None, f"score_out_of_range: {_shown(value)} is not on the scale 0-{scale}"
    if not 0 <= number <= scale:
        return None, f"score_out_of_range: {_shown(value)}"
    if scale == 100 and isinstance(number, float) and number <= 1 and top is None:
        return number, f"scale assumed to be 0-1: {_shown(value)}"
    return number / scale, None


def _shown(value: Any) -> str:
    """A raw score for a note: cut short, and only the type of what is no number or text."""
    if isinstance(value, dict | list):
        return type(value).__name__
    if isinstance(value, int) and value.bit_length() > 64:
        return "an integer of more than 64 bits"
    return repr(value)[:NOTE_LENGTH]


def _read_number(value: Any) -> tuple[int | float | None, int | None]:
    """The number in `value`, a float only when written with a point, and the `/N` behind it."""
    if isinstance(value, bool):
        return None, None
    if isinstance(value, int | float):
        return value, None
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None, None
    text, top = match.groups()
    if top is None and "%" in value:
        top = "100"
    return (float(text) if "." in text else int(text)), (int(top) if top else None)


def _read_word(value: Any, scale: dict[str, float]) -> tuple[float | None, str | None]:
    if isinstance(value, str):
        if value in scale:
            return scale[value], None
        words = {word.casefold(): signal for word, signal in scale.items()}
        signal = words.get(" ".join(value.split()).strip(" .\"'*").casefold())
        if signal is not None:
            return signal, None
    return None, f"no_score: {_shown(value)} is none of {', '.join(scale)}"


def _notes(*notes: str | None) -> tuple[str, ...]:
    return tuple(note for note in notes if note)


def _field_reading(template: Template, fields: Sequence[str], value: Any, alone: bool) -> Reading:
    names = FieldNames(fields)
    scores: dict[str, float] = {}
    explanations: dict[str, str] = {}
    notes: list[str] = []
    for name, entry in _entries(_unwrapped(value, names), template.score_key):
        field = names.match(name)
        if field is None:
            notes.append(f"unasked field ignored: {clean(name[:NOTE_LENGTH])}")
            continue
        raw, explanation = _entry(entry, template.score_key, alone)
        score, note = read_score(raw, template.scale)
        if note:
            notes.append(f"{field}: {note}")
        if score is None:
            continue
        if scores.setdefault(field, score) != score:
            raise _unparseable(f"the reply scores {field} twice, differently")
        if explanation:
            explanations.setdefault(field, explanation)
    return Reading(field_scores=scores, field_explanations=explanations, notes=tuple(notes))


def _unwrapped(value: Any, names: FieldNames) -> Any:
    """`value` without objects around it whose one key is no field."""
    while isinstance(value, dict) and len(value) == 1:
        (key, inner), *_ = value.items()
        if names.match(key) is not None or not isinstance(inner, dict | list):
            break
        value = inner
    return value


def _entries(value: Any, score_key: str) -> list[tuple[str, Any]]:
    """(name, entry) pairs of an object by name, or of a list of entries.

    None of an object that is an entry itself, as is left of a reply that was cut off: its keys
    are no fields, whatever the fields are called.
    """
    if isinstance(value, dict):
        bare = isinstance(value.get("explanation"), str) and score_key in value
        return [] if bare and not isinstance(value[score_key], dict) else list(value.items())
    if isinstance(value, list):
        named = [(_name(entry), entry) for entry in value]
        return [(name, entry) for name, entry in named if name is not None]
    return []


def _name(entry: Any) -> str | None:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict):
        return next((n for n in map(entry.get, _NAME_KEYS) if isinstance(n, str)), None)
    return None


def _entry(entry: Any, score_key: str, alone: bool) -> tuple[Any, str | None]:
    """The raw score and explanation of one field.

    In a lone object a bare score counts, and so does an entry that is JSON text once more.
    """
    if alone and isinstance(entry, str) and "{" in entry:
        entry = next(iter(json_candidates(entry)), entry)
    if not isinstance(entry, dict):
        return (entry if alone else None), None
    if score_key in entry and "explanation" in entry:
        return entry[score_key], _text(entry["explanation"])
    lowered = {k.casefold(): v for k, v in entry.items() if isinstance(k, str)}
    return lowered.get(score_key.casefold()), _text(lowered.get("explanation"))


def _text(value: Any) -> str | None:
    return clean(value.strip()) or None if isinstance(value, str) else None


def _audit_reading(template: Template, fields: Sequence[str], value: Any, alone: bool) -> Reading:  # noqa: ARG001 - one signature for both readers
    if not isinstance(value, dict):
        return Reading()
    if len(value) == 1 and isinstance(inner := next(iter(value.values())), dict):
        value = inner
    lowered = {k.casefold(): v for k, v in value.items() if isinstance(k, str)}
    score, note = read_score(lowered.get(template.score_key.casefold()), template.scale)
    listed = lowered.get("incorrect_fields")
    explanation = _text(lowered.get("explanation"))
    if not isinstance(listed, list):
        return Reading(score, explanation, notes=_notes(note, "incorrect_fields is no list"))
    flagged, unmatched = _flagged(listed, FieldNames(fields))
    signals = (
        {} if unmatched else {f: AUDIT_FLAGGED if f in flagged else AUDIT_CLEAR for f in fields}
    )
    return Reading(
        document_score=score,
        explanation=explanation,
        field_scores=signals,
        field_explanations={f: text for f, text in flagged.items() if text and not unmatched},
        unmatched_names=tuple(unmatched),
        notes=_notes(note),
    )


def _flagged(listed: Sequence[Any], names: FieldNames) -> tuple[dict[str, str | None], list[str]]:
    """The fields listed as incorrect with their explanations, and names that fit no field."""
    flagged: dict[str, str | None] = {}
    unmatched: list[str] = []
    for entry in listed:
        name = _name(entry)
        field = names.match_path(name) if name is not None else None
        if field is None:
            unmatched.append(clean(str(name)))
            continue
        explanation = _text(entry.get("explanation")) if isinstance(entry, dict) else None
        flagged[field] = flagged.get(field) or explanation
    return flagged, unmatched


_READERS = {
    ReplyKind.FIELD_SCORES: _field_reading,
    ReplyKind.INCORRECT_FIELDS: _audit_reading,
}
