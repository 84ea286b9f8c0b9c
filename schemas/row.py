"""An input row that travels with its record and is written out unchanged."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


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
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _from_ipc(data: bytes) -> Row:
    with pa.ipc.open_stream(data) as reader:
        return Row(reader.read_next_batch(), 0)


def gather(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """The rows as one table of `schema`, in order; a column that a batch lacks is null."""
    batches: list[pa.RecordBatch] = []
    start = 0
    for stop in range(1, len(rows) + 1):
        if stop < len(rows) and rows[stop].batch is rows[start].batch:
            continue
        run = rows[start:stop]
        batches.append(_conform(run[0].batch.take(pa.array([r.index for r in run])), schema))
        start = stop
    return pa.Table.from_batches(batches, schema)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
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
