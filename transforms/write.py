"""Writing what was placed: Parquet by route, dead letters as JSONL, the verdict log."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import BytesCoder
from apache_beam.io import WriteToText
from apache_beam.io.parquetio import WriteToParquetBatched
from apache_beam.transforms.window import GlobalWindows

from schemas.arrow_scored import OutputShape, scored_table
from schemas.arrow_verdict import VERDICT_SCHEMA, verdict_table
from schemas.dead_letter import DeadLetter
from schemas.scored import ScoredRecord
from verifier.record_verifier import Verified

T = TypeVar("T")
TABLE_ROWS = 2000
TABLE_BYTES = 32 * 1024 * 1024
PARQUET_SUFFIX = ".parquet"


class WriteScored(beam.PTransform):
    """Scored records to Parquet files below `folder`. Output: the files' names."""

    def __init__(self, folder: str, shape: OutputShape, label: str | None = None) -> None:
        super().__init__(label)
        self._folder = folder
        self._shape = shape

    def expand(self, pcoll: beam.PCollection[ScoredRecord]) -> beam.PCollection[str]:
        """Rows to tables, tables to files."""
        shape = self._shape

        def make(rows: Sequence[ScoredRecord]) -> pa.Table:
            return scored_table(rows, shape)

        return _write_tables(pcoll, make, _row_bytes, shape.schema, self._folder)


class WriteVerdicts(beam.PTransform):
    """The verdicts of verified records to Parquet files below `folder`: the verdict log."""

    def __init__(self, folder: str, label: str | None = None) -> None:
        super().__init__(label)
        self._folder = folder

    def expand(self, pcoll: beam.PCollection[Verified]) -> beam.PCollection[str]:
        """Verdicts to tables, tables to files."""
        verdicts = pcoll | "Verdicts" >> beam.FlatMap(lambda verified: verified.verdicts)
        return _write_tables(verdicts, verdict_table, lambda _: 500, VERDICT_SCHEMA, self._folder)


class WriteDeadLetters(beam.PTransform):
    """Dead letters to JSONL files below `folder`. Output: the files' names."""

    def __init__(self, folder: str, label: str | None = None) -> None:
        super().__init__(label)
        self._folder = folder

    def expand(self, pcoll: beam.PCollection[DeadLetter]) -> beam.PCollection[str]:
        """Dead letters to lines."""
        return (
            pcoll
            | "ToJson" >> beam.Map(DeadLetter.to_json).with_output_types(bytes)
            | "Write" >> WriteToText(f"{self._folder}/part", ".jsonl", coder=BytesCoder())
        )


def _row_bytes(scored: ScoredRecord) -> int:
    """About what a row takes in memory."""
    record = scored.record
    return 500 + len(record.output_text) + sum(len(m.text) for m in record.messages)


def _write_tables(
    rows: beam.PCollection,
    make: Callable[[Sequence[Any]], pa.Table],
    row_bytes: Callable[[Any], int],
    schema: pa.Schema,
    folder: str,
) -> beam.PCollection[str]:
    return (
        rows
        | "ToTables" >> beam.ParDo(ToTables(make, row_bytes)).with_output_types(pa.Table)
        | "Write"
        >> WriteToParquetBatched(f"{folder}/part", schema, file_name_suffix=PARQUET_SUFFIX)
    )


class ToTables(beam.DoFn, Generic[T]):
    """Rows of bounded input to tables of up to TABLE_ROWS rows or about TABLE_BYTES bytes."""

    def __init__(
        self, make: Callable[[Sequence[T]], pa.Table], row_bytes: Callable[[T], int]
    ) -> None:
        self._make = make
        self._row_bytes = row_bytes

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._rows: list[T] = []
        self._bytes = 0

    def process(self, row: T) -> Iterable[pa.Table]:
        """Keep the row; yield a table when there are enough."""
        self._rows.append(row)
        self._bytes += self._row_bytes(row)
        if len(self._rows) >= TABLE_ROWS or self._bytes >= TABLE_BYTES:
            yield self._flush()

    def finish_bundle(self) -> Iterator[Any]:
        """Yield the rest."""
        if self._rows:
            yield GlobalWindows.windowed_value_at_end_of_window(self._flush())

    def _flush(self) -> pa.Table:
        table = self._make(self._rows)
        self.start_bundle()
        return table
