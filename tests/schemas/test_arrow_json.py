"""Arrow values as JSON: nothing is lost, and what JSON lacks has one documented form."""

import base64
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
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
        (pa.array([1], pa.time32("s")), ["00:00:01"]),
        (pa.array([date(2024, 3, 31)], pa.date64()), ["2024-03-31"]),
        (pa.array([5_000_000], pa.date32()), ["15659-07-15"]),
        (pa.array([Decimal("1.20")], pa.decimal256(60, 2)), [Decimal("1.20")]),
        (pa.array([1.5, None]).cast(pa.float16()), [1.5, None]),
        (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (pa.array([-1500, 0], pa.duration("ns")), ["PT-0.000001500S", "PT0.000000000S"]),
        (pa.array([1500], pa.duration("ms")), ["PT1.500S"]),
        (pa.array([[1, 2], [], None]), [[1, 2], [], None]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
        (pa.array([{"a": 1, "b": {"c": None}}, None]), [{"a": 1, "b": {"c": None}}, None]),
        (pa.array([{}, None], pa.struct([])), [{}, None]),
        (pa.array([[("k", 1), ("l", 2)], [], None], pa.map_(pa.string(), pa.int8())), [{"k": 1, "l": 2}, {}, None]),
        (pa.array([[(1, "x")]], pa.map_(pa.int8(), pa.string())), [{"1": "x"}]),
        (pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int8())).slice(1), [{"b": 2}]),
        (pa.array([True, None]), [True, None]),
        (pa.array([[1], None], pa.list_view(pa.int8())), [[1], None]),
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


def test_run_end_encoded_and_extension_types() -> None:
    """Decoded, or as their storage; UUIDs as text."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    assert json_values(runs) == ["a", "a", "b"]
    raw = bytes(range(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([raw, None], pa.binary(16)))
    assert json_values(uuids) == ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]


def test_digits_are_kept_in_text() -> None:
    """A decimal is written as it is, an integer of any size too."""
    text = dump_json({"price": Decimal("12.50"), "big": 10**40, "deep": [Decimal("1E+3")]})
    assert text == f'{{"price":12.50,"big":{10**40},"deep":[1E+3]}}'
    assert parse_json(text)["price"] == Decimal("12.50")


@dataclass(frozen=True)
class Kind:
    """An Arrow type, values for it, and the JSON form of each by another way than ours."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    form: Callable[[Any], Any]


def same(value: Any) -> Any:
    return value


def base64_or_text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii")


def utc(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{(datetime(1970, 1, 1) + timedelta(seconds=seconds)).isoformat()}.{rest:09d}Z"


def date_form(value: date) -> str:
    return value.isoformat()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
DIGITS = st.decimals(-(10**15), 10**15, places=4)
LEAVES = [
    Kind(pa.int64(), st.integers(-(2**63), 2**63 - 1), same),
    Kind(pa.bool_(), st.booleans(), same),
    Kind(pa.string(), TEXT, same),
    Kind(pa.large_string(), TEXT, same),
    Kind(pa.string_view(), TEXT, same),
    Kind(pa.dictionary(pa.int32(), pa.string()), TEXT, same),
    Kind(pa.binary(), st.binary(max_size=4), base64_or_text),
    Kind(pa.decimal128(20, 4), DIGITS, same),
    Kind(pa.float64(), st.floats(), lambda v: v if math.isfinite(v) else None),
    Kind(pa.date32(), st.dates(), date_form),
    Kind(pa.timestamp("ns", "UTC"), st.integers(-(2**62), 2**62), utc),
]


def nullable(kind: Kind) -> st.SearchStrategy[Any]:
    return st.none() | kind.values


def formed(kind: Kind, value: Any) -> Any:
    return None if value is None else kind.form(value)


def list_of(kind: Kind) -> Kind:
    return Kind(
        pa.list_(kind.type),
        st.lists(nullable(kind), max_size=3),
        lambda values: [formed(kind, v) for v in values],
    )


def struct_of(kind: Kind) -> Kind:
    return Kind(
        pa.struct([("a", kind.type), ("b", pa.int64())]),
        st.fixed_dictionaries({"a": nullable(kind), "b": st.none() | st.integers(0, 9)}),
        lambda value: {"a": formed(kind, value["a"]), "b": value["b"]},
    )


def map_of(kind: Kind) -> Kind:
    return Kind(
        pa.map_(pa.string(), kind.type),
        st.dictionaries(TEXT, nullable(kind), max_size=3).map(lambda d: list(d.items())),
        lambda pairs: {key: formed(kind, value) for key, value in pairs},
    )


KINDS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(inner.map(list_of), inner.map(struct_of), inner.map(map_of)),
    max_leaves=3,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), kind=KINDS, start=st.integers(0, 4), length=st.integers(0, 4))
def test_any_part_of_any_array_has_its_values(
    data: st.DataObject, kind: Kind, start: int, length: int
) -> None:
    """Nulls, nesting and slices of longer arrays included; the text of it is strict JSON."""
    values = data.draw(st.lists(nullable(kind), max_size=5))
    array = pa.array(values, kind.type).slice(start, length)
    expected = [formed(kind, value) for value in values[start : start + length]]
    assert json_values(array) == expected
    assert parse_json(dump_json(expected)) == numbers_exact(expected)


def numbers_exact(value: Any) -> Any:
    """`value` with floats as the Decimals that their shortest texts say."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, list):
        return [numbers_exact(item) for item in value]
    if isinstance(value, dict):
        return {key: numbers_exact(item) for key, item in value.items()}
    return value


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
