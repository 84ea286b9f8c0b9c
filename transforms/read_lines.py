"""Files of JSON lines as byte ranges, and byte ranges as records."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import storage
from schemas.columns import rename_values
from schemas.dead_letter import DeadLetter, Stage, original_payload
from schemas.errors import RecordError
from schemas.json_rows import row_cells, rows_batch
from schemas.openai_log import Exchange, exchange_values, read_exchange
from schemas.parse_record import parse_record
from schemas.reasons import FailureReason
from schemas.record import Record, invalid, parse_json
from schemas.row import Row
from schemas.source import InputFormat, Source
from transforms.plan import compression

RANGE_BYTES = 64 * 1024 * 1024
BATCH_ROWS = 256
BATCH_BYTES = 4 * 1024 * 1024
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ByteRange:
    """The lines that begin in bytes `start` to `stop` of a file; to the end without `stop`."""

    path: str
    start: int
    stop: int | None

    def __str__(self) -> str:
        return f"{self.path} (bytes {self.start}-{self.stop or 'end'})"


@dataclass(frozen=True)
class Line:
    """A line that may be part of an exchange, as it came, with what it says."""

    exchange: Exchange
    data: bytes
    path: str


Lines = Iterator[Record | DeadLetter | Line]


def byte_ranges(path: str) -> Iterator[ByteRange]:
    """A file's ranges of about RANGE_BYTES; a compressed file is one range."""
    with storage.open_input(path) as file:
        if compression(path):
            yield ByteRange(path, 0, None)
            return
        size = file.seek(0, io.SEEK_END)
    for start in range(0, size, RANGE_BYTES):
        yield ByteRange(path, start, min(start + RANGE_BYTES, size))


def lines_of(span: ByteRange) -> Iterator[bytes]:
    """The range's lines that hold anything. Raises OSError and ArrowException."""
    with storage.open_input(span.path) as raw:
        packed = compression(span.path)
        file: Any = pa.CompressedInputStream(pa.PythonFile(raw), packed) if packed else raw
        position = span.start
        if position:
            file.seek(position - 1)
            position += len(file.readline()) - 1
        reader = io.BufferedReader(file) if packed else file
        while span.stop is None or position < span.stop:
            line = reader.readline()
            if not line:
                return
            if position == 0:
                line = line.removeprefix(BOM)
            position += len(line)
            if line.strip():
                yield line.rstrip(b"\r\n")


def read_lines(span: ByteRange, source: Source) -> Lines:
    """The range's records, in order; halves of an exchange come out as Lines."""
    pending: list[tuple[Record, dict[str, Any]]] = []
    size = 0
    for data in lines_of(span):
        result = _read(data, span.path, source)
        if not isinstance(result, tuple):
            yield result
            continue
        pending.append(result)
        size += len(data)
        if len(pending) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield from _with_rows(pending, source)
            pending, size = [], 0
    yield from _with_rows(pending, source)


def _read(
    data: bytes, path: str, source: Source
) -> tuple[Record, dict[str, Any]] | DeadLetter | Line:
    values: Mapping[str, Any] = {}
    try:
        values = _parse(data)
        if source.format is InputFormat.DEAD_LETTER:
            data = original_payload(values)
            values = _parse(data)
        elif source.format is InputFormat.OPENAI:
            exchange = read_exchange(values)
            if not exchange.complete and exchange.key is not None:
                return Line(exchange, data, path)
            values = exchange_values(exchange)
        return parse_row(values, source)
    except RecordError as error:
        return lost_line(data, path, error, values.get(source.renames.get("id", "id")))


def _parse(data: bytes) -> Mapping[str, Any]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(FailureReason.INVALID_UTF8, f"the line is not UTF-8: {error}") from error
    try:
        values = parse_json(text)
    except ValueError as error:
        raise RecordError(FailureReason.INVALID_JSON, f"the line is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise invalid(f"the line holds no JSON object but {type(values).__name__}")
    return values


def parse_row(values: Mapping[str, Any], source: Source) -> tuple[Record, dict[str, Any]]:
    """The record of a JSON row, and the row's cells. Raises RecordError."""
    ours = rename_values(values, source.renames)
    record = parse_record(ours, None, source.default_schema, source.document_from)
    return record, row_cells(ours, source.carry)


def _with_rows(pending: list[tuple[Record, dict[str, Any]]], source: Source) -> Iterator[Record]:
    if pending:
        batch = rows_batch([cells for _, cells in pending], source.schema)
        for index, (record, _) in enumerate(pending):
            yield replace(record, row=Row(batch, index))


def with_row(values: Mapping[str, Any], source: Source) -> Record:
    """The record of one JSON row, with its row. Raises RecordError."""
    return next(_with_rows([parse_row(values, source)], source))


def lost_line(data: bytes, path: str, error: RecordError, record_id: Any = None) -> DeadLetter:
    """The dead letter of a line, byte for byte."""
    return DeadLetter(
        id=None if record_id is None else str(record_id),
        stage=Stage.READ,
        reason=error.reason,
        message=error.message,
        payload=data,
        source=path,
    )
