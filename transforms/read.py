"""Reading records from Parquet: files to row ranges, a reshuffle, row ranges to records."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.pvalue import TaggedOutput

import storage
from schemas.arrow_json import json_values
from schemas.dead_letter import DeadLetter, Stage, lost_row
from schemas.errors import RecordError
from schemas.json_schema import JsonSchema
from schemas.parse_record import parse_record
from schemas.reasons import FailureReason
from schemas.record import RECORD_KEYS, Record
from schemas.row import Row

DEAD_LETTERS = "dead_letters"
DeadTag: TypeAlias = TaggedOutput[Literal["dead_letters"], DeadLetter]
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


class ReadRecords(beam.PTransform):
    """Parquet files to records.

    Input: PCollection of paths. Output: `records` (Record) and `dead_letters` (DeadLetter) for
    unreadable files and rows that are no record. Only references to rows are shuffled, so that
    memory stays flat whatever the input's size.
    """

    def __init__(self, default_schema: JsonSchema | None = None, label: str | None = None) -> None:
        super().__init__(label)
        self._default_schema = default_schema

    def expand(self, pcoll: beam.PCollection[str]) -> Any:
        """Wire the two steps."""
        ranges = pcoll | "SplitFiles" >> beam.ParDo(SplitFile()).with_outputs(
            DEAD_LETTERS, main="ranges"
        )
        rows = (
            ranges["ranges"]
            | "Spread" >> beam.Reshuffle()
            | "ReadRanges"
            >> beam.ParDo(ReadRange(self._default_schema)).with_outputs(
                DEAD_LETTERS, main="records"
            )
        )
        dead = (ranges[DEAD_LETTERS], rows[DEAD_LETTERS]) | "DeadLetters" >> beam.Flatten()
        return {"records": rows["records"], DEAD_LETTERS: dead}


class SplitFile(beam.DoFn):
    """A path to the row ranges of that file."""

    def process(self, path: str) -> Iterator[RowRange | DeadTag]:
        """Yield the ranges, or a dead letter for a file that cannot be read."""
        try:
            yield from row_ranges(path)
        except (OSError, pa.ArrowException) as error:
            yield TaggedOutput(DEAD_LETTERS, unreadable(path, error))


class ReadRange(beam.DoFn):
    """A row range to its records."""

    def __init__(self, default_schema: JsonSchema | None) -> None:
        self._default_schema = default_schema

    def process(self, span: RowRange) -> Iterator[Record | DeadTag]:
        """Yield records; rows that are none, and what a broken file withholds, as dead letters."""
        try:
            for batch in read_batches(span):
                for result in records_of(batch, span.path, self._default_schema):
                    if isinstance(result, Record):
                        yield result
                    else:
                        yield TaggedOutput(DEAD_LETTERS, result)
        except (OSError, pa.ArrowException) as error:
            yield TaggedOutput(DEAD_LETTERS, unreadable(span.path, error, span))


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


def records_of(
    batch: pa.RecordBatch, source: str, default_schema: JsonSchema | None
) -> Iterator[Record | DeadLetter]:
    """The records of a batch, in order; a row that is none becomes a dead letter."""
    keys = [key for key in RECORD_KEYS if key in batch.schema.names]
    columns = [json_values(batch.column(key)) for key in keys]
    for index, values in enumerate(zip(*columns, strict=True)):
        row = Row(batch, index)
        try:
            yield parse_record(dict(zip(keys, values, strict=True)), row, default_schema)
        except RecordError as error:
            yield lost_row(row, error, source)


def unreadable(path: str, error: Exception, span: RowRange | None = None) -> DeadLetter:
    """The dead letter of a file, or of the part of it that `span` names."""
    where = f" (row group {span.row_group}, rows {span.start}-{span.stop})" if span else ""
    return DeadLetter(
        id=None,
        stage=Stage.READ,
        reason=FailureReason.UNREADABLE_FILE,
        message=f"{path}{where} cannot be read as Parquet: {error}",
        payload=path.encode("utf-8", "surrogatepass"),
        source=path,
    )
