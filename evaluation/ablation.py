"""What each template adds: the scores of subsets of the templates, from kept verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluation.figures import group, of_documents, of_fields
from evaluation.items import DocumentItem
from schemas.verdict import Verdict
from scoring.aggregate import ScoreScale, aggregate

ALL = "all"


def subsets(templates: Sequence[str]) -> dict[str, frozenset[str]]:
    """All templates, each alone, and all but each."""
    everything = frozenset(templates)
    alone = {f"{name} alone": frozenset({name}) for name in templates}
    without = {f"without {name}": everything - {name} for name in templates}
    return {ALL: everything, **alone, **(without if len(templates) > 2 else {})}


def ablation(
    documents: Sequence[DocumentItem],
    groups: Iterable[tuple[str, Sequence[Verdict]]],
    scale: ScoreScale,
) -> list[dict[str, Any]]:
    """Figures of documents and fields for each subset, of the documents whose verdicts were kept.

    `groups` has the verdicts of each record by id. Empty when there are none.
    """
    by_id = {document.id: document for document in documents}
    known = [(by_id[name], verdicts) for name, verdicts in groups if name in by_id]
    templates = sorted({v.template for _, verdicts in known for v in verdicts})
    return [
        {"templates": name, **_figures(known, chosen, scale)}
        for name, chosen in (subsets(templates) if templates else {}).items()
    ]


def _figures(
    known: Sequence[tuple[DocumentItem, Sequence[Verdict]]],
    chosen: frozenset[str],
    scale: ScoreScale,
) -> Mapping[str, Any]:
    scored = [_rescored(document, verdicts, chosen, scale) for document, verdicts in known]
    return {"documents": group(of_documents(scored)), "fields": group(of_fields(scored))}


def _rescored(
    document: DocumentItem, verdicts: Sequence[Verdict], chosen: frozenset[str], scale: ScoreScale
) -> DocumentItem:
    """The document as `chosen` templates alone score it."""
    scores = aggregate(
        verdicts[0].facts.fields, [v for v in verdicts if v.template in chosen], scale
    )
    by_field = {field.field: field.score for field in scores.fields}
    fields = tuple(replace(f, score=by_field.get(f.name)) for f in document.fields)
    return replace(document, score=scores.score, fields=fields)
