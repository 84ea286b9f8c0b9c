"""Input rows that travel with their records: no copies in a process, small between processes."""

import pickle
from decimal import Decimal
from typing import Any

import cloudpickle
import dill
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.arrow_json import row_values
from schemas.row import Row, conform, gather
from tests.support.builders import pickled

COUNT = 5000
TEXTS = [f"{i} " + "x" * 200 for i in range(COUNT)]
COLUMNS = {
    "int": pa.array(range(COUNT)),
    "text": pa.array(TEXTS),
    "large_text": pa.array(TEXTS, pa.large_string()),
    "text_view": pa.array(TEXTS, pa.string_view()),
    "binary_view": pa.array([t.encode() for t in TEXTS], pa.binary_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "list": pa.array([[t, t] for t in TEXTS]),
    "struct": pa.array([{"a": t, "b": {"c": i}} for i, t in enumerate(TEXTS)]),
    "map": pa.array([[("k", t)] for t in TEXTS], pa.map_(pa.string(), pa.string())),
    "decimal": pa.array([Decimal(i).scaleb(-2) for i in range(COUNT)], pa.decimal128(12, 2)),
    "timestamp": pa.array(range(COUNT), pa.timestamp("ns", "Europe/Paris")),
    "null": pa.nulls(COUNT),
}
BATCH = pa.RecordBatch.from_pydict({"n": range(COUNT), "text": TEXTS})


@pytest.mark.parametrize("pickler", [pickle, cloudpickle, dill])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_pickled_row_is_that_row_alone(pickler: Any, name: str) -> None:
    """The batch around it stays behind, whatever the type of a column."""
    batch = pa.RecordBatch.from_pydict({name: COLUMNS[name]})
    data = pickler.dumps(Row(batch, 4321))
    assert len(data) < 2000
    copy = pickler.loads(data).slice()
    assert copy.schema == batch.schema
    assert row_values(copy) == row_values(batch.slice(4321, 1))


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int8(), pa.string()), pa.string_view()])
def test_a_pickled_row_may_be_null(kind: pa.DataType) -> None:
    """Where dictionaries and views are made small, a null stays one."""
    column = pa.array(["a", None], pa.string()).cast(kind)
    batch = pa.RecordBatch.from_pydict({"c": column})
    copies = [pickled(Row(batch, i)).slice() for i in range(2)]
    assert [c.to_pylist() for c in copies] == [[{"c": "a"}], [{"c": None}]]
    assert [c.column("c").null_count for c in copies] == [0, 1]
    assert {c.schema.field("c").type for c in copies} == {kind}


@given(
    rows=st.lists(st.tuples(st.integers(), st.text(st.characters(exclude_categories=["Cs"]))).filter(lambda r: abs(r[0]) < 2**63), max_size=12),
    cuts=st.lists(st.integers(1, 4), min_size=1),
    between=st.booleans(),
)  # fmt: skip
def test_rows_of_mixed_batches_gather_into_their_table(
    rows: list[tuple[int, str]], cuts: list[int], between: bool
) -> None:
    """However a table was cut into batches, its rows make it again, pickled between or not."""
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    table = pa.Table.from_pylist([{"n": n, "text": t} for n, t in rows], schema)
    batches, start = [], 0
    for i in range(len(rows)):
        length = cuts[i % len(cuts)]
        batches += table.slice(start, length).to_batches()
        start += length
    found = [Row(batch, i) for batch in batches for i in range(batch.num_rows)]
    if between:
        found = [pickled(row) for row in found]
    assert gather(found, schema).equals(table)


def test_rows_gather_in_the_order_given() -> None:
    """Any rows of any batches, some more than once; a record without a row has nulls."""
    other = pa.RecordBatch.from_pylist([{"n": -1, "text": None}])
    rows = [Row(BATCH, 3), None, Row(BATCH, 1), None, None, Row(other, 0), Row(BATCH, 1)]
    table = gather(rows, BATCH.schema)
    assert table["n"].to_pylist() == [3, None, 1, None, None, -1, 1]
    assert table.schema == BATCH.schema
    assert gather([], BATCH.schema).num_rows == 0


def test_batches_of_other_schemas_are_conformed() -> None:
    """A missing column is null, a narrower one is widened, another order does not matter."""
    schema = pa.schema([("n", pa.int64()), ("text", pa.string()), ("more", pa.float64())])
    narrow = pa.RecordBatch.from_arrays(
        [pa.array(["a"]), pa.array([1], pa.int8())], names=["text", "n"]
    )
    assert gather([Row(narrow, 0)], schema).to_pylist() == [{"n": 1, "text": "a", "more": None}]


def test_a_value_that_its_column_cannot_hold_is_refused() -> None:
    """Nothing is rounded or cut."""
    wide = pa.RecordBatch.from_pydict({"n": [2**40]})
    with pytest.raises(pa.ArrowInvalid):
        conform(wide, pa.schema([("n", pa.int32())]))
