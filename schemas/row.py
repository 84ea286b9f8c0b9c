"""An input row that travels with its record and is written out unchanged."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.types as pt


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Row `index` of `batch`, without a copy; pickled as Arrow IPC of that row alone.

    A pickled slice of a batch would drag the whole batch along.
    """

    batch: pa.RecordBatch
    index: int

    def slice(self) -> pa.RecordBatch:
        """The row as a batch of length 1."""
        return self.batch.slice(self.index, 1)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return _from_ipc, (_to_ipc(self.slice()),)


def _to_ipc(batch: pa.RecordBatch) -> bytes:
    columns = [_compact(column) for column in batch.columns]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=batch.schema))
    return bytes(sink.getvalue())


def _compact(column: pa.Array) -> pa.Array:
    """A column of one value without what IPC would send of its neighbours."""
    kind = column.type
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return pa.array(column.to_pylist(), kind)
    if not pt.is_dictionary(kind):
        return column
    index = pa.array([0 if column[0].is_valid else None], kind.index_type)
    values = column.dictionary.take(column.indices)
    return pa.DictionaryArray.from_arrays(index, values, ordered=kind.ordered)


def _from_ipc(data: bytes) -> Row:
    with pa.ipc.open_stream(data) as reader:
        return Row(reader.read_next_batch(), 0)


def gather(rows: Sequence[Row | None], schema: pa.Schema) -> pa.Table:
    """The rows as one table of `schema`, in order; a record without a row has nulls."""
    batches: list[pa.RecordBatch] = []
    for batch, run in groupby(rows, key=lambda row: None if row is None else id(row.batch)):
        chosen = list(run)
        first = chosen[0]
        if batch is None or first is None:
            columns = [pa.nulls(len(chosen), f.type) for f in schema]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        else:
            indices = pa.array([row.index for row in chosen if row is not None])
            batches.append(conform(first.batch.take(indices), schema))
    return pa.Table.from_batches(batches, schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the columns of `schema`: null where it lacks one, widened where it is narrower.

    Raises ArrowInvalid for a value that its column cannot hold.
    """
    if batch.schema.equals(schema):
        return batch
    names = set(batch.schema.names)
    columns = [
        batch.column(f.name).cast(f.type)
        if f.name in names
        else pa.nulls(batch.num_rows, type=f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
