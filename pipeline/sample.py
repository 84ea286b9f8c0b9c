"""Records of an input, to estimate it by: all of a small one, else a sample spread over it.

Each comes with a weight: how many records of the input it stands for. Equal input gives equal
figures: what is picked depends on nothing else.
"""

import random
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.pvalue import TaggedOutput

import storage
from schemas.columns import rename_all
from schemas.dead_letter import DeadLetter, original_payload
from schemas.errors import RecordError
from schemas.record import Record, parse_json
from schemas.row import conform
from schemas.source import InputFormat, InputPlan, Source
from transforms.plan import compression
from transforms.read import HALVES, JoinHalves, ReadSpan
from transforms.read_lines import ByteRange, Line, lines_of, parse_row
from transforms.read_parquet import RowRange, read_batches, records_of

SAMPLE_ROWS = 5000
SAMPLE_BYTES = 64_000_000
"""An input with no more than either is read as a whole."""

LEAST_ROWS = 50
READ_BYTES = 1_000_000_000
"""How much of Parquet files is decoded for a sample."""

WINDOW_BYTES = 256_000
WINDOWS = 125
"""Of a large input of lines."""

BATCH_BYTES = 4_000_000

Weighed = tuple[Record | None, float]
"""A record, None for a dead letter; and how many of the input's it stands for."""

_UNREADABLE = (OSError, EOFError, pa.ArrowException)
_LOST: Weighed = (None, 1.0)


def sample(plan: InputPlan) -> Iterator[Weighed]:
    """Records of the input, each with its weight; all weights are 1 when it was read as a whole."""
    source = plan.source
    if source.format is InputFormat.PARQUET:
        yield from _parquet(plan.files, source)
    elif source.format is InputFormat.OPENAI:
        yield from _exchanges(plan.files, source)
    else:
        packed = [path for path in plan.files if compression(path)]
        yield from _plain([path for path in plan.files if path not in packed], source)
        for path in packed:
            yield from _compressed(path, source, SAMPLE_BYTES / len(packed))


@dataclass(frozen=True)
class _Group:
    """A row group; `size` is what its rows take in memory, about."""

    path: str
    index: int
    rows: int
    size: int

    def first(self, rows: int) -> RowRange:
        """The rows to decode, a few megabytes at a time."""
        batch_rows = BATCH_BYTES * self.rows // max(1, self.size)
        return RowRange(self.path, self.index, 0, rows, min(max(1, batch_rows), 1024))


def _parquet(files: Iterable[str], source: Source) -> Iterator[Weighed]:
    groups: list[_Group] = []
    for path in files:
        try:
            groups += _groups(path)
        except _UNREADABLE:
            yield _LOST
    rows, size = sum(g.rows for g in groups), sum(g.size for g in groups)
    wanted = rows
    if rows > SAMPLE_ROWS or size > SAMPLE_BYTES:
        wanted = max(min(rows, SAMPLE_ROWS, rows * SAMPLE_BYTES // max(1, size)), LEAST_ROWS)
    within = _within(groups, READ_BYTES)
    picked = _spread(sum(n for _, n in within), wanted)
    weight = rows / max(1, len(picked))
    for group, count in within:
        mine = [row for row in picked if row < count]
        picked = [row - count for row in picked[len(mine) :]]
        for record in _rows(group.first(count), mine, source):
            yield record, weight


def _groups(path: str) -> list[_Group]:
    with storage.open_input(path) as file:
        metadata = pq.read_metadata(file)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    return [_Group(path, i, g.num_rows, g.total_byte_size) for i, g in enumerate(groups)]


def _within(groups: Sequence[_Group], size: int) -> list[tuple[_Group, int]]:
    """Row groups of about `size` bytes together, evenly chosen, and how many rows of each."""
    total = sum(g.size for g in groups)
    if total <= size:
        return [(g, g.rows) for g in groups]
    chosen = [groups[i] for i in _spread(len(groups), max(1, len(groups) * size // total))]
    part = min(1.0, size / max(1, sum(g.size for g in chosen)))
    return [(g, max(1, int(g.rows * part))) for g in chosen if g.rows]


def _rows(span: RowRange, rows: Sequence[int], source: Source) -> Iterator[Record | None]:
    """The records in the given rows of a row group; one None where the file breaks off."""
    left = list(reversed(rows))
    first = 0
    try:
        for batch in read_batches(span) if left else ():
            named = batch.rename_columns(rename_all(batch.schema.names, source.renames))
            while left and left[-1] < first + batch.num_rows:
                yield _row(named.slice(left.pop() - first, 1), source, span.path)
            first += batch.num_rows
            if not left:
                return
    except _UNREADABLE:
        yield None


def _row(row: pa.RecordBatch, source: Source, path: str) -> Record | None:
    try:
        result = next(records_of(conform(row, source.schema), source, path))
    except pa.ArrowInvalid:
        return None
    return None if isinstance(result, DeadLetter) else result


def _plain(files: Iterable[str], source: Source) -> Iterator[Weighed]:
    """Lines of files that can be entered anywhere: windows, spread over all of them."""
    windows: list[ByteRange] = []
    size = 0
    for path in files:
        try:
            end = _size(path)
        except OSError:
            yield _LOST
            continue
        starts = range(0, end, WINDOW_BYTES)
        windows += [ByteRange(path, at, min(at + WINDOW_BYTES, end)) for at in starts]
        size += end
    chosen = _spread(len(windows), len(windows) if size <= SAMPLE_BYTES else WINDOWS)
    for number in chosen:
        for record in _records(windows[number], source):
            yield record, len(windows) / len(chosen)


def _size(path: str) -> int:
    with storage.open_input(path) as file:
        return file.seek(0, 2)


def _compressed(path: str, source: Source, most: float) -> Iterator[Weighed]:
    """A file that can only be entered at its beginning: unpacked once to count its lines, and once
    more for some of them."""
    span = ByteRange(path, 0, None)
    lines = size = 0
    try:
        for line in lines_of(span):
            lines, size = lines + 1, size + len(line)
    except _UNREADABLE:
        size = 0
    if size <= most:
        for record in _records(span, source):
            yield record, 1.0
        return
    wanted = max(LEAST_ROWS, min(SAMPLE_ROWS, int(lines * most / size)))
    picked = set(_spread(lines, wanted))
    for number, line in enumerate(lines_of(span)):
        if number in picked:
            yield _parsed(line, source), lines / len(picked)


def _parsed(line: bytes, source: Source) -> Record | None:
    try:
        values = _object(line)
        if source.format is InputFormat.DEAD_LETTER:
            values = _object(original_payload(values))
        return parse_row(values, source)[0]
    except (RecordError, TypeError, ValueError):
        return None


def _object(data: bytes) -> dict[str, Any]:
    values = parse_json(data)
    if not isinstance(values, dict):
        raise TypeError("no JSON object")
    return values


def _exchanges(files: Iterable[str], source: Source) -> Iterator[Weighed]:
    """Logged exchanges. All lines are read, for the halves of one can stand anywhere; of a large
    input only every so-manieth is kept."""
    spans = [ByteRange(path, 0, None) for path in files]
    weight = 1 + sum(map(_size_or_nothing, files)) // SAMPLE_BYTES
    halves: dict[bytes, list[Line]] = defaultdict(list)
    for result in (r for span in spans for r in ReadSpan(source).process(span)):
        key = _key(result)
        if zlib.crc32(key) % weight:
            continue
        if isinstance(result, TaggedOutput) and result.tag == HALVES:
            halves[key].append(result.value)
        else:
            yield _record(result), float(weight)
    for key, lines in halves.items():
        for result in JoinHalves(source).process((key.decode("utf-8", "replace"), lines)):
            yield _record(result), float(weight)


def _key(result: Any) -> bytes:
    """What both halves of an exchange share; of a record or dead letter, what tells it apart."""
    value = result.value if isinstance(result, TaggedOutput) else result
    if isinstance(value, DeadLetter):
        return value.payload
    key = value.exchange.key if isinstance(value, Line) else value.id
    return str(key).encode("utf-8", "replace")


def _size_or_nothing(path: str) -> int:
    try:
        return _size(path)
    except OSError:
        return 0


def _records(span: ByteRange, source: Source) -> Iterator[Record | None]:
    return map(_record, ReadSpan(source).process(span))


def _record(result: Any) -> Record | None:
    return result if isinstance(result, Record) else None


def _spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` of the numbers below `count`: one somewhere in each of as many parts."""
    if wanted >= count:
        return list(range(count))
    rng = random.Random(0)  # noqa: S311 - equal input, equal sample
    return sorted({int((i + rng.random()) * count / wanted) for i in range(wanted)})
