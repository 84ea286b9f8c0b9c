"""An evaluation: how good the scores of a run are, given what is right."""

from collections.abc import Iterable, Sequence
from typing import Any

from evaluation.ablation import ablation
from evaluation.breakdown import breakdown
from evaluation.figures import figures, of_documents, of_fields
from evaluation.items import DocumentItem
from schemas.verdict import Verdict
from scoring.aggregate import ScoreScale

REPLICATES = 1000


def evaluate(
    documents: Sequence[DocumentItem],
    groups: Iterable[tuple[str, Sequence[Verdict]]] = (),
    *,
    scale: ScoreScale = ScoreScale.RESCALED,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> dict[str, Any]:
    """All figures, as JSON values. Documents of which nothing is known are counted and left out.

    `groups` are the verdicts of each record by id, for what each template adds.
    """
    known = [document for document in documents if document.fields]
    return {
        "records": len(documents),
        "without_truth": len(documents) - len(known),
        "documents": figures(of_documents(known), replicates, seed),
        "fields": figures(of_fields(known), replicates, seed),
        "accepted": _accepted(known),
        "groups": breakdown(known),
        "templates": ablation(known, groups, scale),
        "replicates": replicates,
        "seed": seed,
    }


def _accepted(documents: Sequence[DocumentItem]) -> dict[str, Any]:
    """What the run's own policy let through."""
    accepted = [document for document in documents if document.accepted]
    wrong = sum(not document.correct for document in accepted)
    fields = [field for document in accepted for field in document.fields]
    return {
        "documents": len(accepted),
        "share": len(accepted) / len(documents) if documents else None,
        "incorrect_documents": wrong,
        "incorrect_fields": sum(not field.correct for field in fields),
        "error_rate": wrong / len(accepted) if accepted else None,
    }
