"""Reading records: files to spans, a reshuffle, spans to records."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from schemas.dead_letter import DeadLetter, Stage
from schemas.errors import RecordError
from schemas.openai_log import exchange_values, join
from schemas.reasons import FailureReason
from schemas.record import Record, invalid
from schemas.source import InputFormat, Source
from transforms.read_lines import Line, byte_ranges, lost_line, read_lines, with_row
from transforms.read_parquet import RowRange, read_rows, row_ranges

DEAD_LETTERS = "dead_letters"
HALVES = "halves"
DeadTag: TypeAlias = TaggedOutput[Literal["dead_letters"], DeadLetter]


class ReadRecords(beam.PTransform):
    """Files to records.

    Input: PCollection of paths. Output: `records` (Record) and `dead_letters` (DeadLetter) for
    unreadable files and rows that are no record. Only references to rows are shuffled, so that
    memory stays flat whatever the input's size; logged exchanges whose request and response
    stand apart are the exception.
    """

    def __init__(self, source: Source, label: str | None = None) -> None:
        super().__init__(label)
        self._source = source

    def display_data(self) -> dict[str, Any]:
        """The input's format."""
        return {"input_format": self._source.format.value}

    def expand(self, pcoll: beam.PCollection[str]) -> Any:
        """Wire the steps."""
        split = beam.ParDo(SplitFile(self._source)).with_outputs(DEAD_LETTERS, main="spans")
        spans = pcoll | "SplitFiles" >> split
        read = beam.ParDo(ReadSpan(self._source)).with_output_types(Record)
        rows = (
            spans["spans"]
            | "Spread" >> beam.Reshuffle()
            | "ReadSpans" >> read.with_outputs(DEAD_LETTERS, HALVES, main="records")
        )
        records, dead = rows["records"], [spans[DEAD_LETTERS], rows[DEAD_LETTERS]]
        if self._source.format is InputFormat.OPENAI:
            joined = self._join(rows[HALVES])
            records = (records, joined["records"]) | "Records" >> beam.Flatten()
            dead.append(joined[DEAD_LETTERS])
        return {"records": records, DEAD_LETTERS: dead | "DeadLetters" >> beam.Flatten()}

    def _join(self, halves: beam.PCollection) -> Any:
        """Requests and responses that stand in lines of their own, by their custom_id."""
        joined = beam.ParDo(JoinHalves(self._source)).with_output_types(Record)
        return (
            halves
            | "ByKey" >> beam.Map(lambda line: (line.exchange.key, line))
            | "Group" >> beam.GroupByKey()
            | "Join" >> joined.with_outputs(DEAD_LETTERS, main="records")
        )


class SplitFile(beam.DoFn):
    """A path to the spans of that file."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def process(self, path: str) -> Iterator[Any]:
        """Yield the spans, or a dead letter for a file that cannot be read."""
        parquet = self._source.format is InputFormat.PARQUET
        try:
            yield from row_ranges(path) if parquet else byte_ranges(path)
        except (OSError, pa.ArrowException) as error:
            yield TaggedOutput(DEAD_LETTERS, unreadable(path, path, error))


class ReadSpan(beam.DoFn):
    """A span to its records."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def process(self, span: Any) -> Iterator[Any]:
        """Yield records; rows that are none, and what a broken file withholds, as dead letters."""
        read = read_rows if isinstance(span, RowRange) else read_lines
        try:
            for result in read(span, self._source):
                if isinstance(result, DeadLetter):
                    yield TaggedOutput(DEAD_LETTERS, result)
                elif isinstance(result, Line):
                    yield TaggedOutput(HALVES, result)
                else:
                    yield result
        except (OSError, EOFError, pa.ArrowException) as error:
            yield TaggedOutput(DEAD_LETTERS, unreadable(span.path, str(span), error))


class JoinHalves(beam.DoFn):
    """The lines of one custom_id to a record."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def process(self, group: tuple[str, Iterable[Line]]) -> Iterator[Any]:
        """Yield the record of a request and a response, and what has no partner as dead letters."""
        key, lines = group[0], list(group[1])
        requests = [line for line in lines if line.exchange.request is not None]
        responses = [line for line in lines if line.exchange.response is not None]
        if len(requests) == 1 and responses:
            for response in responses:
                yield self._record(requests[0], response)
            return
        problem = f"{len(requests)} requests and {len(responses)} responses have the id {key!r}"
        for line in lines:
            yield TaggedOutput(DEAD_LETTERS, lost_line(line.data, line.path, invalid(problem)))

    def _record(self, request: Line, response: Line) -> Any:
        try:
            values = exchange_values(join(request.exchange, response.exchange))
            return with_row(values, self._source)
        except RecordError as error:
            return TaggedOutput(DEAD_LETTERS, lost_line(response.data, response.path, error))


def unreadable(path: str, where: str, error: Exception) -> DeadLetter:
    """The dead letter of a file, or of the part of it that `where` names."""
    return DeadLetter(
        id=None,
        stage=Stage.READ,
        reason=FailureReason.UNREADABLE_FILE,
        message=f"{where} cannot be read: {error}",
        payload=path.encode("utf-8", "surrogatepass"),
        source=path,
    )
