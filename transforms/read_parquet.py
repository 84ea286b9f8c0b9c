"""Parquet files as row ranges, and row ranges as records."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

import storage
from schemas.arrow_json import json_values
from schemas.columns import rename_all
from schemas.dead_letter import DeadLetter, lost_row
from schemas.errors import RecordError
from schemas.parse_record import parse_record
from schemas.record import RECORD_KEYS, Record, invalid
from schemas.row import Row, conform
from schemas.source import Source

RANGE_BYTES = 64 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_ROWS = 1024


@dataclass(frozen=True)
class RowRange:
    """Rows `start` to `stop` of one row group; `batch_rows` of them are read at a time."""

    path: str
    row_group: int
    start: int
    stop: int
    batch_rows: int

    def __str__(self) -> str:
        return f"{self.path} (row group {self.row_group}, rows {self.start}-{self.stop})"


def row_ranges(path: str) -> Iterator[RowRange]:
    """The row groups of a file, cut into ranges of about RANGE_BYTES."""
    with storage.open_input(path) as file:
        metadata = pq.read_metadata(file)
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
        step = max(1, RANGE_BYTES // row_bytes)
        batch_rows = max(1, min(MAX_BATCH_ROWS, BATCH_BYTES // row_bytes))
        for start in range(0, group.num_rows, step):
            yield RowRange(path, index, start, min(start + step, group.num_rows), batch_rows)


def read_rows(span: RowRange, source: Source) -> Iterator[Record | DeadLetter]:
    """The records of a range, in order. Raises OSError and ArrowException."""
    for batch in read_batches(span):
        names = rename_all(batch.schema.names, source.renames)
        yield from _conformed(batch.rename_columns(names), source, span.path)


def read_batches(span: RowRange) -> Iterator[pa.RecordBatch]:
    """The range's rows in small batches. Raises OSError and ArrowException."""
    with storage.open_input(span.path) as file:
        parquet = pq.ParquetFile(file)
        position = 0
        for batch in parquet.iter_batches(span.batch_rows, row_groups=[span.row_group]):
            first, position = position, position + batch.num_rows
            if first >= span.stop:
                return
            start = max(span.start - first, 0)
            rows = min(span.stop, position) - first - start
            if rows > 0:
                yield batch.slice(start, rows)


def _conformed(batch: pa.RecordBatch, source: Source, path: str) -> Iterator[Record | DeadLetter]:
    """The batch in the columns of the whole input; a row that does not fit is a dead letter."""
    try:
        yield from records_of(conform(batch, source.schema), source, path)
        return
    except pa.ArrowInvalid as error:
        if batch.num_rows == 1:
            yield lost_row(
                Row(batch, 0), invalid(f"a value does not fit its column: {error}"), path
            )
            return
    for index in range(batch.num_rows):
        yield from _conformed(batch.slice(index, 1), source, path)


def records_of(batch: pa.RecordBatch, source: Source, path: str) -> Iterator[Record | DeadLetter]:
    """The records of a batch, in order; a row that is none becomes a dead letter."""
    keys = [key for key in RECORD_KEYS if key in batch.schema.names]
    columns = [json_values(batch.column(key)) for key in keys]
    for index, values in enumerate(zip(*columns, strict=True)):
        row = Row(batch, index)
        try:
            yield parse_record(
                dict(zip(keys, values, strict=True)),
                row,
                source.default_schema,
                source.document_from,
            )
        except RecordError as error:
            yield lost_row(row, error, path)
