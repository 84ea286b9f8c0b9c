"""Where errors are, and where scores find them: figures by group."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluation.figures import Scored, fields_by, group, of_documents
from evaluation.items import DocumentItem, FieldItem

_FIELD_GROUPS: Mapping[str, Callable[[FieldItem], str]] = {
    "field": lambda field: field.name,
    "type": lambda field: field.kind,
    "evidence": lambda field: field.evidence,
    "depth": lambda field: str(1 + field.name.count(".") + field.name.count("[")),
}
_DOCUMENT_GROUPS: Mapping[str, Callable[[DocumentItem], str]] = {
    "number of fields": lambda document: _range(document.n_fields, (1, 5, 10, 20, 50, 100)),
    "length": lambda document: _range(document.length, (0, 1000, 4000, 16_000, 64_000, 256_000)),
    "number of verdicts": lambda document: str(document.n_verdicts),
}


def breakdown(documents: Sequence[DocumentItem]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Groups of fields and of documents, those with most errors first."""
    return {
        "fields": {
            name: _ordered(fields_by(documents, key)) for name, key in _FIELD_GROUPS.items()
        },
        "documents": {
            name: _ordered(_documents_by(documents, key)) for name, key in _DOCUMENT_GROUPS.items()
        },
    }


def _documents_by(
    documents: Sequence[DocumentItem], key: Callable[[DocumentItem], str]
) -> dict[str, Scored]:
    groups: dict[str, list[DocumentItem]] = {}
    for document in documents:
        groups.setdefault(key(document), []).append(document)
    return {name: of_documents(members) for name, members in groups.items()}


def _ordered(groups: Mapping[str, Scored]) -> list[dict[str, Any]]:
    rows = [{"group": name, **group(items)} for name, items in groups.items()]
    return sorted(rows, key=lambda row: (-row["errors"], -row["items"], row["group"]))


def _range(value: int, edges: Sequence[int]) -> str:
    """The range between two edges that a value is in."""
    low = max((edge for edge in edges if edge <= value), default=edges[0])
    high = next((edge for edge in edges if edge > value), None)
    return f"{low:,} or more" if high is None else f"{low:,}-{high - 1:,}"
