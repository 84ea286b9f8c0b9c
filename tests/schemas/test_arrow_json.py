"""Arrow values as JSON: nothing is lost, and what JSON lacks has one documented form."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.arrow_json import dump_json, json_values
from schemas.record import parse_json

NS = 1_709_287_200_000_000_001


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None]), [1, None]),
        (pa.array([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)]),
        (pa.array([1.5, float("nan"), float("inf"), None]), [1.5, None, None, None]),
        (pa.array(["a", None, "é"]), ["a", None, "é"]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array(["a"], pa.string_view()), ["a"]),
        (pa.array(["a", "b", "a", None]).dictionary_encode(), ["a", "b", "a", None]),
        (pa.array([b"text", b"\xff\xfe", None]), ["text", "//4=", None]),
        (pa.array([b"x"], pa.large_binary()), ["x"]),
        (pa.array([b"xy"], pa.binary(2)), ["xy"]),
        (pa.array([Decimal("12.50"), None], pa.decimal128(10, 2)), [Decimal("12.50"), None]),
        (pa.array([date(2024, 3, 31)]), ["2024-03-31"]),
        (pa.array([NS], pa.timestamp("ns")), ["2024-03-01T10:00:00.000000001"]),
        (pa.array([NS], pa.timestamp("ns", "UTC")), ["2024-03-01T10:00:00.000000001Z"]),
        (pa.array([NS, None], pa.timestamp("ns", "Europe/Paris")), ["2024-03-01T11:00:00.000000001+01:00", None]),
        (pa.array([1], pa.timestamp("s", "-03:30")), ["1969-12-31T20:30:01-03:30"]),
        (pa.array([3_600_000_000], pa.time64("us")), ["01:00:00.000000"]),
        (pa.array([1500], pa.duration("ms")), ["PT1.500S"]),
        (pa.array([[1, 2], [], None]), [[1, 2], [], None]),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), [[1, 2]]),
        (pa.array([{"a": 1, "b": {"c": None}}, None]), [{"a": 1, "b": {"c": None}}, None]),
        (pa.array([{}, None], pa.struct([])), [{}, None]),
        (pa.array([[("k", 1), ("l", 2)], [], None], pa.map_(pa.string(), pa.int8())), [{"k": 1, "l": 2}, {}, None]),
        (pa.array([[(1, "x")]], pa.map_(pa.int8(), pa.string())), [{"1": "x"}]),
        (pa.array([True, None]), [True, None]),
        (pa.nulls(2), [None, None]),
        (pa.array([[{"t": NS}]], pa.list_(pa.struct([("t", pa.timestamp("ns"))]))), [[{"t": "2024-03-01T10:00:00.000000001"}]]),
    ],
    ids=lambda v: str(v.type) if isinstance(v, pa.Array) else "",
)  # fmt: skip
def test_every_type_has_its_json_form(array: pa.Array, expected: list[Any]) -> None:
    """Whole, and as a slice of a longer array."""
    assert json_values(array) == expected
    longer = pa.concat_arrays([array, array])
    assert json_values(longer.slice(1, len(array))) == (expected + expected)[1 : len(array) + 1]
    json.loads(dump_json(json_values(array)))


def test_digits_are_kept_in_text() -> None:
    """A decimal is written as it is, an integer of any size too."""
    text = dump_json({"price": Decimal("12.50"), "big": 10**40, "deep": [Decimal("1E+3")]})
    assert text == f'{{"price":12.50,"big":{10**40},"deep":[1E+3]}}'
    assert parse_json(text)["price"] == Decimal("12.50")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(value=JSON)
def test_any_json_value_survives(value: Any) -> None:
    """Written and read back, it is equal; integers of any size and exact decimals included."""
    assert parse_json(dump_json(value)) == value


@given(text=st.text(alphabet=st.characters(codec=None)))
def test_any_text_survives(text: str) -> None:
    """Lone surrogates, NUL and all."""
    assert parse_json(dump_json([text])) == [text]
