"""Which requests the injected faults hit, and how they are written on the command line."""

import itertools
import random
from collections import Counter
from collections.abc import Mapping

import pytest

from schemas.errors import UsageError
from verifier.faults import FaultKind, Faults, parse_faults

BODIES = [b"%d" % i for i in range(2000)]
RATES = {FaultKind.HANG: 0.1, FaultKind.AUTH: 0.2}


def drawn(faults: Faults, bodies: list[bytes]) -> dict[bytes, FaultKind | None]:
    return {body: faults.draw(body) for body in bodies}


def test_faults_hit_their_share() -> None:
    """A rate of 0.1 is about one request in ten; the rest get good answers."""
    counts = Counter(drawn(Faults(RATES, seed=1), BODIES).values())
    assert 150 < counts[FaultKind.HANG] < 250
    assert 320 < counts[FaultKind.AUTH] < 480
    assert set(counts) == {FaultKind.HANG, FaultKind.AUTH, None}


def test_the_draw_does_not_depend_on_the_order_of_arrival() -> None:
    """What a body gets, at first and when it comes again, is the same in any order."""
    shuffled = BODIES[:]
    random.Random(5).shuffle(shuffled)
    one, other = Faults(RATES, seed=1), Faults(RATES, seed=1)
    assert drawn(one, BODIES) == drawn(other, shuffled)
    assert drawn(one, shuffled) == drawn(other, BODIES)


def test_a_retried_request_can_fare_better() -> None:
    """Most of what was hit once is not hit at the next try, and some is hit again."""
    faults = Faults(RATES, seed=1)
    hit = [body for body, kind in drawn(faults, BODIES).items() if kind is not None]
    again = [faults.draw(body) for body in hit]
    assert len(hit) / 2 < again.count(None) < len(hit)


def test_the_seed_decides_which_requests_are_hit() -> None:
    """Another seed hits others; the same seed the same ones, whatever its sign or size."""
    for seed in (0, -1, 10**100):
        assert drawn(Faults(RATES, seed), BODIES) == drawn(Faults(RATES, seed), BODIES)
    assert drawn(Faults(RATES, 1), BODIES) != drawn(Faults(RATES, 2), BODIES)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({}, {None}),
        ({FaultKind.HANG: 0.0}, {None}),
        ({FaultKind.HANG: 1.0}, {FaultKind.HANG}),
        ({FaultKind.HANG: 0.0, FaultKind.AUTH: 1.0}, {FaultKind.AUTH}),
        (dict.fromkeys(FaultKind, 1 / len(FaultKind)), set(FaultKind)),
    ],
)
def test_rates_of_none_and_all(
    rates: Mapping[FaultKind, float], expected: set[FaultKind | None]
) -> None:
    """0 hits nothing, 1 everything; fourteen equal shares leave no good answer."""
    assert set(drawn(Faults(rates), BODIES).values()) == expected


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({FaultKind.HANG: -0.1}, "the rate of hang is -0.1; it goes from 0 to 1"),
        ({FaultKind.HANG: 1.5}, "the rate of hang is 1.5; it goes from 0 to 1"),
        ({FaultKind.AUTH: float("nan")}, "the rate of auth is nan; it goes from 0 to 1"),
        ({FaultKind.HANG: 0.6, FaultKind.AUTH: 0.5}, "add up to 1.1; together they are at most 1"),
    ],
)
def test_impossible_rates_are_refused(rates: Mapping[FaultKind, float], message: str) -> None:
    """The error names the kind, or the sum."""
    with pytest.raises(ValueError, match=message):
        Faults(rates)


def test_rates_that_add_up_to_one_on_paper_are_taken() -> None:
    """Added one by one, these binary fractions exceed it by a hair."""
    rates = [0.02, 0.01, 0.01, 0.11, 0.27, 0.12, 0.04, 0.16, 0.2, 0.06]
    assert list(itertools.accumulate(rates))[-1] > 1
    Faults(dict(zip(FaultKind, rates, strict=False)))


def test_fault_specs_become_rates() -> None:
    """One text a kind, in their order, with the seed."""
    faults = parse_faults(["rate_limit:0.1", "hang:.02", "auth:0"], seed=7)
    expected = {FaultKind.RATE_LIMIT: 0.1, FaultKind.HANG: 0.02, FaultKind.AUTH: 0.0}
    assert faults == Faults(expected, seed=7)
    assert parse_faults([]).draw(b"x") is None


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["hnag:0.1"], "--fault hnag: no such kind; did you mean hang?"),
        (["HANG:0.1"], "did you mean hang?"),
        (["rate-limit:0.1"], "did you mean rate_limit?"),
        (["zzz:0.1"], "no such kind; one of rate_limit, server_error, slow"),
        ([":0.1"], "no such kind; one of rate_limit"),
        (["hang"], "--fault hang: write kind:rate, like hang:0.02"),
        (["hang:lots"], "--fault hang:lots: write kind:rate"),
        (["hang:0.6,"], "write kind:rate"),
        (["hang:1.5"], "--fault: the rate of hang is 1.5; it goes from 0 to 1"),
        (["hang:-1"], "it goes from 0 to 1"),
        (["hang:nan"], "it goes from 0 to 1"),
        (["hang:0.1", "hang:0.2"], "--fault hang:0.2: hang is given twice"),
        (["hang:0.6", "auth:0.6"], "add up to 1.2"),
    ],
)
def test_wrong_fault_specs_are_refused(specs: list[str], message: str) -> None:
    """The error names the nearest kind, the form, or the sum."""
    with pytest.raises(UsageError) as caught:
        parse_faults(specs)
    assert message in str(caught.value)
