"""Learned latencies, and how long calls are waited for because of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier.latencies import FEWEST, MISSED, Latencies
from verifier.patience import (
    CUT_FACTOR,
    CUT_FACTOR_HEDGED,
    CUT_MEDIANS,
    SHORTEST_CUT_S,
    Patience,
)

STEP = 1.05
"""How far a figure may be off: one bucket."""


def learned(*seconds: float, missed: bool = False) -> Latencies:
    latencies = Latencies()
    for each in seconds:
        latencies.add(each, missed=missed)
    return latencies


def quantile(latencies: Latencies, share: float) -> float:
    found = latencies.quantile(share)
    assert found is not None
    return found


def test_nothing_is_expected_before_enough_was_seen() -> None:
    """A handful of calls says nothing of their tail."""
    assert Latencies().quantile(0.5) is None
    assert learned(*[1.0] * (FEWEST - 1)).quantile(0.5) is None
    assert learned(*[1.0] * FEWEST).quantile(0.5) == pytest.approx(1, rel=0.05)


@given(
    st.lists(st.floats(0.002, 2000), min_size=FEWEST, max_size=400),
    st.sampled_from([0.01, 0.5, 0.9, 0.97, 0.98, 0.99]),
)
def test_a_quantile_is_right_to_a_bucket(seconds: list[float], share: float) -> None:
    """So many are at most so long, and so many are at least so long."""
    found = quantile(learned(*seconds), share)
    assert sum(s <= found * STEP for s in seconds) >= share * len(seconds) - 1e-6
    assert sum(s >= found / STEP for s in seconds) >= (1 - share) * len(seconds) - 1e-6


@given(st.lists(st.floats(0, 1e6), min_size=FEWEST, max_size=200))
def test_quantiles_rise_and_are_never_out_of_bounds(seconds: list[float]) -> None:
    """Also for latencies too short or too long for the histogram."""
    latencies = learned(*seconds)
    found = [quantile(latencies, share) for share in (0, 0.1, 0.5, 0.9, 0.98, 1)]
    assert found == sorted(found)
    assert found[0] >= 0.001
    assert found[-1] <= 0.001 * STEP**301


def test_recent_calls_weigh_most() -> None:
    """An endpoint that became ten times slower, or faster, is known to be so soon."""
    latencies = learned(*[1.0] * 10_000)
    for _ in range(2500):
        latencies.add(10.0)
    assert quantile(latencies, 0.5) == pytest.approx(10, rel=0.06)
    for _ in range(5000):
        latencies.add(0.1)
    assert quantile(latencies, 0.5) == pytest.approx(0.1, rel=0.06)
    assert quantile(latencies, 0.9) == pytest.approx(0.1, rel=0.06)


def test_a_call_that_was_cut_off_counts_as_longer_than_its_wait() -> None:
    """Else expectations would shrink with every cut."""
    assert quantile(learned(*[2.0] * FEWEST, missed=True), 0.5) == pytest.approx(
        2 * MISSED, rel=0.05
    )


def patience(seconds: list[float], *, hedged: bool = False) -> Patience:
    known = Patience(hedged=hedged)
    for each in seconds:
        known.answered("t", each)
    known.refresh()
    return known


def tailed(count: int = 1000, tail: float = 10.0) -> list[float]:
    """1 % take `tail` seconds, the others between 0.9 and 1.1."""
    rng = random.Random(4)
    return [tail if i % 100 == 99 else rng.uniform(0.9, 1.1) for i in range(count)]


def test_nothing_is_cut_or_hedged_before_enough_is_known() -> None:
    """Nor before what was seen was looked at, nor for another template."""
    known = patience(tailed(FEWEST - 1))
    assert known.cut_after("t") is known.hedge_after("t") is None
    known.answered("t", 1.0)
    assert known.cut_after("t") is None
    known.refresh()
    assert known.cut_after("t") is not None
    assert known.cut_after("other") is known.hedge_after("other") is None


@pytest.mark.parametrize("hedged", [False, True])
def test_a_cut_comes_beyond_nearly_all_calls(hedged: bool) -> None:
    """A heavy tail of 1 % does not move it; a hedge comes before it."""
    cuts = [patience(tailed(tail=tail), hedged=hedged).cut_after("t") for tail in (10.0, 500.0)]
    assert cuts[0] == cuts[1]
    known = patience([0.1] * 800 + [1.0] * 200, hedged=hedged)
    factor = CUT_FACTOR_HEDGED if hedged else CUT_FACTOR
    assert known.cut_after("t") == pytest.approx(factor * 1.0, rel=0.06)
    hedge = known.hedge_after("t")
    assert hedge is not None
    assert hedge < (known.cut_after("t") or 0)


@pytest.mark.parametrize(
    ("steady", "cut"), [(1.0, CUT_MEDIANS), (0.01, SHORTEST_CUT_S), (0.001, SHORTEST_CUT_S)]
)
def test_steady_latencies_leave_room(steady: float, cut: float) -> None:
    """A few percent above the usual is no straggler, nor is what is over in an instant."""
    assert patience([steady] * 200).cut_after("t") == pytest.approx(cut, rel=0.06)


def test_templates_are_known_apart() -> None:
    """A critique takes longer than a rating."""
    known = Patience(hedged=False)
    for _ in range(100):
        known.answered("short", 0.5)
        known.answered("long", 20.0)
    known.refresh()
    assert (known.cut_after("short") or 0) < 2
    assert (known.cut_after("long") or 0) > 50


def test_an_endpoint_that_slows_down_is_not_cut_off_for_ever() -> None:
    """Ten times slower from now on: cuts teach patience, and before long nearly nothing is cut."""
    known, cut = patience([1.0] * 2000), 0
    late = 0
    for number in range(1000):
        limit = known.cut_after("t") or 0.0
        if limit < 10:
            known.missed("t", limit)
            cut += 1
            late += number > 200
        else:
            known.answered("t", 10.0)
        known.refresh()
    assert cut > 0
    assert late == 0


@given(st.lists(st.floats(0.01, 100), min_size=FEWEST, max_size=300), st.booleans())
def test_hedges_come_no_later_than_cuts(seconds: list[float], hedged: bool) -> None:
    """A straggler is always late enough for a duplicate first."""
    known = patience(seconds, hedged=hedged)
    cut, hedge = known.cut_after("t"), known.hedge_after("t")
    assert cut is not None
    assert hedge is not None
    assert cut >= SHORTEST_CUT_S
    assert hedge <= cut
