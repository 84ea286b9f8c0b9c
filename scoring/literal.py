"""Literal evidence as a judge: is each value found, does it fit its schema, is a null plausible?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.evidence import NO_EVIDENCE, Evidence, EvidenceKind
from schemas.json_schema import JsonSchema, validator_of
from schemas.record import WHOLE_OUTPUT
from scoring.evidence import Document

FOUND = {
    EvidenceKind.EXACT: 0.97,
    EvidenceKind.NORMALISED: 0.95,
    EvidenceKind.NUMBER: 0.94,
    EvidenceKind.DATE: 0.93,
    EvidenceKind.FUZZY: 0.8,
    EvidenceKind.NONE: 0.12,
}
NOT_LITERAL = 0.6
NULL_PLAUSIBLE = 0.9
NULL_DOUBTFUL = 0.3
NULL_FORBIDDEN = 0.15
VIOLATION = 0.15
"""Confidence by what was found; no measurement stands behind these figures but their order."""

_KNOWN_PATTERNS = (
    (re.compile(r"e_?mail", re.I), re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")),
    (re.compile(r"iban", re.I), re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}")),
    (re.compile(r"phone|mobile|\btel\b", re.I), re.compile(r"\+?\d[\d ()/-]{7,}\d")),
    (re.compile(r"url|website", re.I), re.compile(r"https?://\S+|\bwww\.\S+")),
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What literal evidence says of one field: a confidence in [0, 1], and why."""

    confidence: float
    explanation: str
    evidence: Evidence = NO_EVIDENCE


def assess(
    document: Document, output: object, schema: JsonSchema | None, fields: Sequence[str]
) -> dict[str, Opinion]:
    """An opinion on each of `fields`, top-level keys of `output` or `$` for the whole of it."""
    broken = _violations(output, schema)
    values = {f: output.get(f) if isinstance(output, dict) else output for f in fields}
    return {f: _opinion(document, f, value, broken.get(f)) for f, value in values.items()}


def _opinion(document: Document, field: str, value: object, violation: str | None) -> Opinion:
    if value is None or value in ("", [], {}):
        return _empty(document, field, violation)
    opinion = _found(document, value)
    if violation is None:
        return opinion
    explanation = f"Breaks the schema: {violation}. {opinion.explanation}"
    return Opinion(min(VIOLATION, opinion.confidence), explanation, opinion.evidence)


def _found(document: Document, value: object) -> Opinion:
    if isinstance(value, bool):
        return Opinion(NOT_LITERAL, "A yes or no stands in no document literally.")
    evidence = document.find(value)
    if evidence.kind is EvidenceKind.NONE:
        return Opinion(
            FOUND[evidence.kind], f"Nothing in the document supports {_missing(document, value)}."
        )
    where = f'"{_short(evidence.text or "")}" at characters {evidence.start}-{evidence.end}'
    return Opinion(FOUND[evidence.kind], f"Found {where} ({evidence.kind.value}).", evidence)


def _missing(document: Document, value: object) -> str:
    """The first leaf of `value` that is not found."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        for item in items:
            if item not in (None, "", [], {}) and document.find(item).kind is EvidenceKind.NONE:
                return _missing(document, item)
    return f'"{_short(str(value))}"'


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _empty(document: Document, field: str, violation: str | None) -> Opinion:
    if violation is not None:
        return Opinion(NULL_FORBIDDEN, f"Empty, but {violation}.")
    hint = _overlooked(document.text, field)
    if hint is not None:
        return Opinion(NULL_DOUBTFUL, f'Empty, but the document has "{_short(hint)}".')
    return Opinion(NULL_PLAUSIBLE, "Empty, and nothing in the document points to a value.")


def _overlooked(text: str, field: str) -> str | None:
    """Text that looks like a value for an empty field: its label, or a pattern it is known by."""
    for name, pattern in _KNOWN_PATTERNS:
        found = pattern.search(text) if name.search(field) else None
        if found:
            return found[0]
    words = _WORDS.findall(field)
    if not words:
        return None
    label = r"[\s_-]*".join(map(re.escape, words))
    found = re.search(rf"\b{label}\b[ \t]*[:=#][ \t]*(\S[^\n]{{0,40}})", text, re.IGNORECASE)
    return found[0] if found else None


def _violations(output: object, schema: JsonSchema | None) -> dict[str, str]:
    """How fields break the schema, the first finding of each."""
    found: dict[str, str] = {}
    if schema is not None:
        for error in validator_of(schema.text).iter_errors(output):
            steps = error.instance_path
            field = WHOLE_OUTPUT if not isinstance(output, dict) else steps[0] if steps else None
            if field is not None:
                found.setdefault(str(field), error.message[:120])
    return found
