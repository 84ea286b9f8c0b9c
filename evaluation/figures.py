"""The figures of an evaluation: of documents, of fields, and of groups of either."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluation.items import DocumentItem, FieldItem
from evaluation.metrics import (
    Bools,
    Floats,
    Ranking,
    Resampler,
    calibration_error,
    reliability,
)

COVERAGES = (0.90, 0.95, 0.99)
_MEASURES: Mapping[str, Callable[[Ranking], float | None]] = {
    "auroc": Ranking.auroc,
    "precision_at_errors": Ranking.precision_at_errors,
    "confidence_gap": Ranking.confidence_gap,
    "error_rate": Ranking.error_rate,
    **{
        f"residual_error_{round(100 * share)}": partial(Ranking.residual_error, coverage=share)
        for share in COVERAGES
    },
}


class Interval(NamedTuple):
    """A figure with the 95 % interval of its bootstrap replicates; None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Scored:
    """Items as arrays; `documents` numbers the document of each from 0. Unscored ones are NaN."""

    scores: Floats
    correct: Bools
    documents: NDArray[np.intp]
    weights: Floats

    @property
    def known(self) -> "Scored":
        """Those that have a score."""
        some = ~np.isnan(self.scores)
        return Scored(
            self.scores[some], self.correct[some], self.documents[some], self.weights[some]
        )


def of_documents(documents: Sequence[DocumentItem]) -> Scored:
    """Documents as items."""
    return _scored([(_nan(d.score), d.correct, i, d.weight) for i, d in enumerate(documents)])


def of_fields(documents: Sequence[DocumentItem]) -> Scored:
    """The fields of documents as items."""
    return fields_by(documents, lambda _field: "").get("", _scored([]))


def fields_by(
    documents: Sequence[DocumentItem], key: Callable[[FieldItem], str]
) -> dict[str, Scored]:
    """The fields of documents as items, by what `key` says of them."""
    groups: dict[str, list[_Row]] = {}
    for number, document in enumerate(documents):
        for field in document.fields:
            row = (_nan(field.score), field.correct, number, document.weight)
            groups.setdefault(key(field), []).append(row)
    return {name: _scored(rows) for name, rows in groups.items()}


_Row = tuple[float, bool, int, float]


def _scored(rows: Sequence[_Row]) -> Scored:
    scores, correct, numbers, weights = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Scored(
        np.array(scores, dtype=np.float64),
        np.array(correct, dtype=np.bool_),
        np.array(numbers, dtype=np.intp),
        np.array(weights, dtype=np.float64),
    )


def _nan(score: float | None) -> float:
    return float("nan") if score is None else score


def figures(items: Scored, replicates: int, seed: int) -> dict[str, Any]:
    """The measures of items, with intervals; of curves: coverage and risk, and reliability."""
    known = items.known
    ranking = Ranking.of(known.scores, known.correct, known.weights)
    bins = reliability(known.scores, known.correct, known.weights)
    return {
        "items": len(items.scores),
        "unscored": len(items.scores) - len(known.scores),
        "errors": int((~items.correct).sum()),
        **{
            name: interval._asdict()
            for name, interval in _intervals(known, ranking, replicates, seed).items()
        },
        "calibration_error": calibration_error(bins),
        "coverage_risk": _curve(ranking),
        "reliability": [bin_.__dict__ for bin_ in bins],
    }


def _intervals(known: Scored, ranking: Ranking, replicates: int, seed: int) -> dict[str, Interval]:
    """Each measure, and where 95 % of its replicates are, documents being drawn."""
    rng = np.random.default_rng(seed)
    resampler = Resampler(known.scores, known.correct, known.documents, known.weights)
    drawn = [resampler.replicate(rng) for _ in range(replicates if len(known.scores) else 0)]
    return {
        name: _interval(measure(ranking), [measure(one) for one in drawn])
        for name, measure in _MEASURES.items()
    }


def _interval(value: float | None, replicates: Sequence[float | None]) -> Interval:
    found = [r for r in replicates if r is not None]
    if value is None or len(found) < max(1, len(replicates) // 2):
        return Interval(value, None, None)
    low, high = np.quantile(found, (0.025, 0.975))
    return Interval(value, float(low), float(high))


MOST_POINTS = 400


def _curve(ranking: Ranking) -> list[dict[str, float]]:
    """Points of the coverage-risk curve, thinned out evenly where there are very many."""
    thresholds, coverage, risk = ranking.coverage_risk()
    count = len(thresholds)
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(np.intp))
    return [
        {"threshold": float(thresholds[i]), "coverage": float(coverage[i]), "risk": float(risk[i])}
        for i in (chosen if count else ())
    ]


def group(items: Scored) -> dict[str, Any]:
    """The few figures of a group."""
    known = items.known
    ranking = Ranking.of(known.scores, known.correct, known.weights)
    return {
        "items": len(items.scores),
        "errors": int((~items.correct).sum()),
        "error_rate": ranking.error_rate(),
        "mean_score": float(known.scores.mean()) if len(known.scores) else None,
        "auroc": ranking.auroc(),
    }
