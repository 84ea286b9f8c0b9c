"""Literal evidence as a judge: is each value found, does it fit its schema, is a null plausible?"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from schemas.evidence import NO_EVIDENCE, Evidence, EvidenceKind
from schemas.json_schema import JsonSchema
from scoring.evidence import Document, leaves
from scoring.literal_nulls import Sign, overlooked
from scoring.literal_schema import field_violations, is_required, listed_strings

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
NULL_DOUBTFUL = {Sign.LABEL: 0.3, Sign.PATTERN: 0.3, Sign.COMMON_PATTERN: 0.5}
NULL_FORBIDDEN = 0.15
VIOLATION = 0.15
"""Confidence by what was found; no measurement stands behind these figures but their order."""

QUOTED_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Opinion:
    """What literal evidence says of one field: a confidence in [0, 1], and why."""

    confidence: float
    explanation: str
    evidence: Evidence = NO_EVIDENCE


def assess(
    document: Document, output: object, schema: JsonSchema | None, fields: Sequence[str]
) -> dict[str, Opinion]:
    """An opinion on each of `fields`, top-level keys of `output` or `$` for the whole of it.

    A schema that cannot be applied is left out of account.
    """
    broken = field_violations(output, schema)
    values = {f: output.get(f) if isinstance(output, dict) else output for f in fields}
    return {f: _opinion(document, f, v, schema, broken.get(f)) for f, v in values.items()}


def _opinion(
    document: Document, field: str, value: object, schema: JsonSchema | None, violation: str | None
) -> Opinion:
    if next(leaves(value), None) is None:
        absent = value is None and schema is not None and not is_required(schema, field)
        return _empty(document, field, None if absent else violation)
    opinion = _found(document, field, value, schema)
    if violation is None:
        return opinion
    explanation = f"Breaks the schema: {violation}. {opinion.explanation}"
    return Opinion(min(VIOLATION, opinion.confidence), explanation, opinion.evidence)


def _found(document: Document, field: str, value: object, schema: JsonSchema | None) -> Opinion:
    """The opinion on the least supported leaf of `value`, the first of several."""
    opinions = []
    for leaf in leaves(value):
        opinions.append(_leaf(document, field, leaf, schema))
        if opinions[-1].confidence == FOUND[EvidenceKind.NONE]:
            break
    return min(opinions, key=lambda o: o.confidence)


def _leaf(document: Document, field: str, leaf: object, schema: JsonSchema | None) -> Opinion:
    if isinstance(leaf, bool):
        return Opinion(NOT_LITERAL, "A yes or no stands in no document literally.")
    evidence = document.find(leaf)
    confidence = FOUND[evidence.kind]
    if evidence.text is not None:
        where = f"{_quoted(evidence.text)} at characters {evidence.start}-{evidence.end}"
        return Opinion(confidence, f"Found {where} ({evidence.kind.value}).", evidence)
    wanted = _quoted(str(Decimal(leaf) if isinstance(leaf, int) else leaf))
    if isinstance(leaf, str) and schema is not None and leaf in listed_strings(schema, field):
        return Opinion(NOT_LITERAL, f"{wanted} is a choice of the schema, not a quotation.")
    return Opinion(confidence, f"Nothing in the document supports {wanted}.")


def _empty(document: Document, field: str, violation: str | None) -> Opinion:
    if violation is not None:
        return Opinion(NULL_FORBIDDEN, f"Empty, but {violation}.")
    hint = overlooked(document.text, field)
    if hint is not None:
        explanation = f"Empty, but the document has {_quoted(hint.text)}."
        return Opinion(NULL_DOUBTFUL[hint.sign], explanation)
    return Opinion(NULL_PLAUSIBLE, "Empty, and nothing in the document points to a value.")


def _quoted(text: str) -> str:
    """Text as it is shown in a sentence: on one line, and not too long."""
    line = " ".join(text.split())
    return f'"{line if len(line) <= QUOTED_LENGTH else line[: QUOTED_LENGTH - 3] + "..."}"'
