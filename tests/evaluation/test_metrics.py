"""The figures: against scikit-learn, against their definitions, and where they are not defined."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from evaluation.metrics import Bools, Floats, Ranking, Resampler, calibration_error, reliability

ITEMS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), st.booleans(), st.integers(1, 5)),
    min_size=1,
    max_size=40,
)


def arrays(items: list[tuple[float, bool, int]]) -> tuple[Floats, Bools, Floats]:
    scores, correct, weights = zip(*items, strict=True)
    return np.array(scores), np.array(correct), np.array(weights, dtype=np.float64)


@given(ITEMS)
def test_auroc_is_that_of_scikit_learn(items: list[tuple[float, bool, int]]) -> None:
    """With ties and weights; None where one kind is missing."""
    scores, correct, weights = arrays(items)
    found = Ranking.of(scores, correct, weights).auroc()
    if correct.all() or not correct.any():
        assert found is None
    else:
        assert found == pytest.approx(roc_auc_score(correct, scores, sample_weight=weights))


@given(ITEMS)
def test_a_weight_is_a_repetition(items: list[tuple[float, bool, int]]) -> None:
    """Every figure is that of each item repeated as often as its weight says."""
    scores, correct, weights = arrays(items)
    times = weights.astype(int)
    weighted = Ranking.of(scores, correct, weights)
    repeated = Ranking.of(np.repeat(scores, times), np.repeat(correct, times))
    for measure in (
        Ranking.auroc, Ranking.precision_at_errors, Ranking.confidence_gap, Ranking.error_rate
    ):  # fmt: skip
        assert measure(weighted) == pytest.approx(measure(repeated))
    assert weighted.residual_error(0.7) == pytest.approx(repeated.residual_error(0.7))


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.7]), st.booleans()), min_size=1, max_size=6))
def test_ties_are_averaged_over_their_orders(items: list[tuple[float, bool]]) -> None:
    """Precision at the number of errors, by trying every order of equal scores."""
    wrong = sum(not ok for _, ok in items)
    found = Ranking.of(
        np.array([s for s, _ in items]), np.array([ok for _, ok in items])
    ).precision_at_errors()
    if not wrong:
        assert found is None
        return
    orders = [sorted(order, key=lambda item: item[0]) for order in itertools.permutations(items)]
    shares = [sum(not ok for _, ok in order[:wrong]) / wrong for order in orders]
    assert found == pytest.approx(sum(shares) / len(shares))


def test_a_case_by_hand() -> None:
    """Two wrong of five: 0.1 and 0.8."""
    scores = np.array([0.9, 0.1, 0.8, 0.7, 1.0])
    ranking = Ranking.of(scores, np.array([True, False, False, True, True]))
    assert ranking.auroc() == pytest.approx(5 / 6)
    assert ranking.precision_at_errors() == 0.5
    assert ranking.confidence_gap() == pytest.approx((0.9 + 0.7 + 1.0) / 3 - 0.45)
    assert ranking.error_rate() == 0.4
    assert ranking.residual_error(0.6) == pytest.approx(1 / 3)
    thresholds, coverage, risk = ranking.coverage_risk()
    assert thresholds.tolist() == [1.0, 0.9, 0.8, 0.7, 0.1]
    assert coverage == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert risk == pytest.approx([0, 0, 1 / 3, 1 / 4, 2 / 5])


@pytest.mark.parametrize("correct", [[], [True] * 3, [False] * 3])
def test_without_errors_or_without_right_ones_there_is_no_figure(correct: list[bool]) -> None:
    """None, never NaN or an exception."""
    ranking = Ranking.of(np.full(len(correct), 0.5), np.array(correct, dtype=np.bool_))
    assert ranking.auroc() is None
    assert ranking.confidence_gap() is None
    assert (ranking.precision_at_errors() is None) is (not correct or correct[0])
    assert (ranking.error_rate() is None) is (not correct)
    assert (ranking.residual_error(0.9) is None) is (not correct)


def test_reliability_by_hand() -> None:
    """A score of 1 is in the last bin; empty bins are left out."""
    scores = np.array([0.05, 0.95, 1.0, 1.0])
    bins = reliability(scores, np.array([False, True, True, False]))
    assert [(b.low, b.weight) for b in bins] == [(0.0, 1.0), (0.9, 3.0)]
    assert bins[1].accuracy == pytest.approx(2 / 3)
    assert calibration_error(bins) == pytest.approx((0.05 + 3 * (2.95 / 3 - 2 / 3)) / 4)
    assert calibration_error([]) is None


def test_replicates_draw_whole_documents() -> None:
    """Two documents of ten fields each: a replicate has one of them twice, or both."""
    scores = np.repeat([0.2, 0.8], 10)
    correct = np.repeat([False, True], 10)
    resampler = Resampler(scores, correct, np.repeat([0, 1], 10), np.ones(20))
    rng = np.random.default_rng(0)
    errors = {resampler.replicate(rng).errors for _ in range(50)}
    assert errors == {0.0, 10.0, 20.0}
