"""Input rows that travel with their records: no copies in a process, small between processes."""

import pickle
from typing import Any

import cloudpickle
import dill
import pyarrow as pa
import pytest

from schemas.row import Row, gather

TABLE = pa.table({"n": range(5000), "text": ["x" * 200] * 5000})
BATCH = TABLE.to_batches()[0]


@pytest.mark.parametrize("pickler", [pickle, cloudpickle, dill])
def test_a_pickled_row_is_that_row_alone(pickler: Any) -> None:
    """The batch around it stays behind."""
    data = pickler.dumps(Row(BATCH, 4321))
    assert len(data) < 2000
    row = pickler.loads(data)
    assert row.slice().to_pylist() == [{"n": 4321, "text": "x" * 200}]


def test_rows_gather_into_their_table() -> None:
    """Any rows of any batches, in the order given."""
    other = pa.RecordBatch.from_pylist([{"n": -1, "text": None}])
    rows = [Row(BATCH, 3), Row(BATCH, 1), Row(other, 0), Row(BATCH, 1)]
    table = gather(rows, TABLE.schema)
    assert table["n"].to_pylist() == [3, 1, -1, 1]
    assert table.schema == TABLE.schema
    assert gather([], TABLE.schema).num_rows == 0


def test_batches_of_other_schemas_are_conformed() -> None:
    """A missing column is null, a narrower one is widened, another order does not matter."""
    schema = pa.schema([("n", pa.int64()), ("text", pa.string()), ("more", pa.float64())])
    narrow = pa.RecordBatch.from_arrays(
        [pa.array(["a"]), pa.array([1], pa.int8())], names=["text", "n"]
    )
    assert gather([Row(narrow, 0)], schema).to_pylist() == [{"n": 1, "text": "a", "more": None}]
