"""Results of a batch: found in files of any order, and read a shard at a time.

Only references to ranges of the files are shuffled. The provider's files have the results of one
request file each, so that a shard's ranges are few; the memory needed is that of one shard.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

import storage
from pipeline.batch.info import BatchInfo
from schemas.errors import UsageError
from transforms.read_lines import ByteRange, byte_ranges, lines_of
from verifier.batch_request import CustomId, parse_custom_id
from verifier.batch_result import BatchResult, read_line, read_result

STATS = "stats"
FOREIGN, UNREADABLE = "foreign", "unreadable_lines"
Call = tuple[int, int, int]
"""Row, template and chunk: a call of a shard's records."""

_SNIFFED_LINES = 20


def find_results(patterns: str, info: BatchInfo) -> tuple[str, ...]:
    """The files that `--results` names.

    Raises UsageError when there is none, and when none begins with a result of this export.
    """
    if not info.requests:
        return ()
    tokens = {shard.token for shard in info.shards}
    files = sorted({path for part in patterns.split(",") for path in _expand(part.strip())})
    if not any(_is_of(path, tokens) for path in files):
        raise UsageError(
            f"--results {patterns}: none of the {len(files)} files begins with results of this "
            "export; name the files that the provider made of its requests"
        )
    return tuple(files)


def _expand(pattern: str) -> list[str]:
    try:
        files = storage.expand(pattern)
        missing = [path for path in files if not storage.exists(path)]
    except OSError as error:
        raise UsageError(f"--results {pattern} cannot be looked at: {error}") from error
    if missing or not files:
        raise UsageError(f"--results {pattern}: no such file; name a file, a folder or a glob")
    return files


def _is_of(path: str, tokens: Collection[str]) -> bool:
    try:
        span = next(byte_ranges(path), None)
        lines = islice(lines_of(span), _SNIFFED_LINES) if span else ()
        ids = [_custom_id(line) for line in lines]
    except OSError as error:
        raise UsageError(f"--results {path} cannot be read: {error}") from error
    return any(found and found.shard in tokens for found in ids)


def _custom_id(line: bytes) -> CustomId | None:
    data = read_line(line)
    return parse_custom_id(data.get("custom_id")) if data else None


class IndexResults(beam.DoFn):
    """A range of a result file to the shards whose results it holds.

    Main output: (token, range). STATS: a Counter of lines that belong to no shard.
    """

    def __init__(self, tokens: Collection[str]) -> None:
        self._tokens = frozenset(tokens)

    def process(self, span: ByteRange) -> Iterator[Any]:
        """Read the range once. Raises OSError and ArrowException."""
        found: set[str] = set()
        stats: Counter[str] = Counter()
        for line in lines_of(span):
            data = read_line(line)
            custom_id = parse_custom_id(data.get("custom_id")) if data else None
            if custom_id is not None and custom_id.shard in self._tokens:
                found.add(custom_id.shard)
            else:
                stats[UNREADABLE if data is None else FOREIGN] += 1
        for token in sorted(found):
            yield token, span
        yield TaggedOutput(STATS, stats)


def results_by_shard(pipeline: beam.Pipeline, info: BatchInfo, files: Sequence[str]) -> Any:
    """Wire the index of the result files.

    Returns `shards`: (token, ranges) of every shard, also of one without any result, and `stats`:
    Counters.
    """
    tokens = [shard.token for shard in info.shards]
    index = beam.ParDo(IndexResults(tokens)).with_outputs(STATS, main="ranges")
    indexed = (
        pipeline
        | "ResultFiles" >> beam.Create(files, reshuffle=False)
        | "Ranges" >> beam.FlatMap(byte_ranges)
        | "SpreadRanges" >> beam.Reshuffle()
        | "Index" >> index
    )
    every = pipeline | "Shards" >> beam.Create([(t, None) for t in tokens], reshuffle=False)
    grouped = (indexed["ranges"], every) | "Ranged" >> beam.Flatten() | beam.GroupByKey()
    return {"shards": grouped | "OfShard" >> beam.MapTuple(_ranges), STATS: indexed[STATS]}


def _ranges(token: str, spans: Iterable[ByteRange | None]) -> tuple[str, list[ByteRange]]:
    found = [span for span in spans if span is not None]
    return token, sorted(found, key=lambda span: (span.path, span.start))


def read_results(token: str, spans: Iterable[ByteRange]) -> dict[Call, list[BatchResult]]:
    """The results of a shard by call, the one that counts first; equal lines are one result.

    Raises OSError and ArrowException.
    """
    found: dict[Call, dict[bytes, BatchResult]] = {}
    for span in spans:
        for line in lines_of(span):
            read = _of_shard(line, token)
            if read is not None:
                call, result = read
                found.setdefault(call, {})[result.digest] = result
    return {call: _ranked(results.values()) for call, results in found.items()}


def _of_shard(line: bytes, token: str) -> tuple[Call, BatchResult] | None:
    data = read_line(line) if token.encode() in line else None
    custom_id = parse_custom_id(data.get("custom_id")) if data else None
    if data is None or custom_id is None or custom_id.shard != token:
        return None
    result = read_result(data, line, custom_id.room)
    return (custom_id.row, custom_id.template, custom_id.chunk), result


def _ranked(results: Collection[BatchResult]) -> list[BatchResult]:
    return sorted(results, key=lambda result: result.rank, reverse=True)
