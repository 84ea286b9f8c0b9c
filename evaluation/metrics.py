"""How well scores separate correct items from incorrect ones. Pure, on numpy arrays.

An item is a field or a document: `scores` are in [0, 1], `correct` are booleans, and `weights` say
how often an item counts (all once unless given): bootstrap replicates and inverse sampling
probabilities are weights. Equal scores are a tie, of which every order is averaged, so that no
figure depends on the order of the input. A figure that is not defined, for lack of errors or of
correct items, is None, never NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Ranking:
    """Weights of correct and incorrect items at each distinct score, lowest first."""

    levels: Floats
    right: Floats
    wrong: Floats

    @classmethod
    def of(cls, scores: Floats, correct: Bools, weights: Floats | None = None) -> "Ranking":
        """The ranking of items, which are all of the same length."""
        levels, place = np.unique(scores, return_inverse=True)
        return cls._at(levels, place, correct, weights)

    @classmethod
    def _at(
        cls, levels: Floats, place: NDArray[np.intp], correct: Bools, weights: Floats | None
    ) -> "Ranking":
        counted = np.ones(len(place)) if weights is None else weights
        right = np.bincount(place, counted * correct, minlength=len(levels))
        total = np.bincount(place, counted, minlength=len(levels))
        wrong = np.maximum(total - right, 0.0).astype(np.float64)
        return cls(levels, right.astype(np.float64), wrong)

    @property
    def total(self) -> float:
        """The weight of all items."""
        return float(self.right.sum() + self.wrong.sum())

    @property
    def errors(self) -> float:
        """The weight of the incorrect items."""
        return float(self.wrong.sum())

    def auroc(self) -> float | None:
        """The chance that a correct item scores above an incorrect one; a tie is half of it."""
        pairs = self.right.sum() * self.wrong.sum()
        if pairs <= 0:
            return None
        below = np.cumsum(self.wrong) - self.wrong
        return float((self.right * (below + 0.5 * self.wrong)).sum() / pairs)

    def precision_at_errors(self) -> float | None:
        """The share of wrong items among the K lowest-scored, K being the number of wrong ones."""
        if self.errors <= 0:
            return None
        return self._wrong_among_lowest(self.errors) / self.errors

    def confidence_gap(self) -> float | None:
        """The mean score of correct items less that of incorrect ones."""
        if self.right.sum() <= 0 or self.errors <= 0:
            return None
        mean_right = (self.levels * self.right).sum() / self.right.sum()
        mean_wrong = (self.levels * self.wrong).sum() / self.errors
        return float(mean_right - mean_wrong)

    def error_rate(self) -> float | None:
        """The share of incorrect items."""
        return self.errors / self.total if self.total > 0 else None

    def residual_error(self, coverage: float) -> float | None:
        """The error rate among the share `coverage` of items with the highest scores."""
        kept = coverage * self.total
        if kept <= 0:
            return None
        return max(0.0, self.errors - self._wrong_among_lowest(self.total - kept)) / kept

    def coverage_risk(self) -> tuple[Floats, Floats, Floats]:
        """(thresholds, coverage, error rate) as the threshold falls from the highest score on.

        Kept are the items that score at least the threshold.
        """
        kept = np.cumsum((self.right + self.wrong)[::-1])
        wrong = np.cumsum(self.wrong[::-1])
        some = kept > 0
        share, risk = kept[some] / max(self.total, 1e-300), wrong[some] / kept[some]
        return self.levels[::-1][some], share, risk

    def _wrong_among_lowest(self, weight: float) -> float:
        """The wrong items among the lowest-scored of a total weight; a tie gives its share."""
        all_items = self.right + self.wrong
        before = np.cumsum(all_items) - all_items
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(all_items > 0, (weight - before) / all_items, 0.0)
        return float((self.wrong * np.clip(share, 0.0, 1.0)).sum())


class Resampler:
    """Bootstrap replicates of a ranking: documents are drawn, since their items fail together.

    `documents` numbers the document of each item from 0.
    """

    def __init__(
        self, scores: Floats, correct: Bools, documents: NDArray[np.intp], weights: Floats
    ) -> None:
        self._levels, self._place = np.unique(scores, return_inverse=True)
        self._correct = correct
        self._documents = documents
        self._weights = weights
        self._count = int(documents.max()) + 1 if len(documents) else 0

    def replicate(self, rng: np.random.Generator) -> Ranking:
        """The ranking of documents drawn with replacement."""
        drawn = np.bincount(rng.integers(self._count, size=self._count), minlength=self._count)
        weights = drawn[self._documents] * self._weights
        return Ranking._at(self._levels, self._place, self._correct, weights)


@dataclass(frozen=True)
class Bin:
    """Items whose scores are in [low, high), the last bin's in [low, high]."""

    low: float
    high: float
    weight: float
    mean_score: float
    accuracy: float


def reliability(
    scores: Floats, correct: Bools, weights: Floats | None = None, bins: int = 10
) -> list[Bin]:
    """The bins of equal width that hold any items, with their mean score and share of correct."""
    counted = np.ones(len(scores)) if weights is None else weights
    place = np.minimum((scores * bins).astype(np.intp), bins - 1)
    weight = np.bincount(place, counted, minlength=bins)
    total = np.bincount(place, counted * scores, minlength=bins)
    right = np.bincount(place, counted * correct, minlength=bins)
    return [
        Bin(i / bins, (i + 1) / bins, float(weight[i]), float(total[i] / weight[i]),
            float(right[i] / weight[i]))
        for i in range(bins)
        if weight[i] > 0
    ]  # fmt: skip


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """The expected calibration error: the mean distance of score and accuracy over bins."""
    total = sum(b.weight for b in bins)
    if total <= 0:
        return None
    return sum(b.weight * abs(b.accuracy - b.mean_score) for b in bins) / total
