"""Requests that lack an answer which can still come, as request files for another upload."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton, TaggedOutput
from apache_beam.transforms.window import GlobalWindows

import storage
from pipeline.batch.info import BatchInfo, Shard, read_info
from pipeline.batch.replies import CallResults, ShardReplies, add_up
from pipeline.batch.results import STATS, Call, find_results, results_by_shard
from pipeline.batch.settings import ImportBatchFlags
from pipeline.batch.shards import Limits, RequestFile, clear, publish
from schemas.dead_letter import DeadLetter
from schemas.errors import UsageError
from schemas.reasons import FailureReason
from schemas.record import Record
from scoring.prompt import data_block
from transforms.read_lines import ByteRange
from verifier.answer import Reply
from verifier.batch_request import BatchRequests
from verifier.call import MORE_ROOM
from verifier.fault import Action

REST_FILE = "rest.json"
NO_RESULT = "no_result"


def room_for_more(call: CallResults) -> int | None:
    """How much room the reply is to have when the call is asked again, None for one that is done.

    As online, a passing fault is asked about again, and a reply that was cut off once more with
    twice the room.
    """
    outcome = call.outcome
    if isinstance(outcome, Reply):
        return None
    room = max((result.room for result in call.results), default=1)
    if outcome.action is Action.RETRY:
        return room
    return MORE_ROOM if outcome.reason is FailureReason.TRUNCATED and room == 1 else None


@dataclass(frozen=True)
class Rest:
    """Where the requests of an export and their results are, and where the rest goes."""

    folder: str
    batch: str
    info: BatchInfo
    files: tuple[str, ...]


def prepare_rest(flags: ImportBatchFlags) -> Rest:
    """Read the export, and empty the folder `--rest`. Raises UsageError with the remedy."""
    folder, info = str(flags.rest), read_info(flags.batch)
    files = find_results(flags.results, info)
    try:
        clear(folder)
        storage.remove_files(f"{folder}/{REST_FILE}")
    except OSError as error:
        raise UsageError(f"--rest {folder} cannot be used: {error}") from error
    return Rest(folder, flags.batch, info, files)


def build_rest(pipeline: beam.Pipeline, rest: Rest) -> None:
    """Wire the search into `pipeline`; it ends with REST_FILE in the rest's folder."""
    results = results_by_shard(pipeline, rest.info, rest.files)
    write = beam.ParDo(WriteRest(rest)).with_output_types(Shard)
    written = results["shards"] | "WriteRest" >> write.with_outputs(STATS, main="files")
    reasons = written[STATS] | "AddUpReasons" >> beam.CombineGlobally(add_up)
    _ = (
        pipeline
        | "Once" >> beam.Create([rest.folder], reshuffle=False)
        | "Publish" >> beam.Map(_publish, AsIter(written["files"]), AsSingleton(reasons))
    )


def _publish(folder: str, files: Iterable[Shard], reasons: Mapping[str, int]) -> None:
    names = [shard.requests_name for shard in publish(folder, files)]
    rest = {"requests": sum(reasons.values()), "reasons": dict(reasons), "files": names}
    storage.write_text(f"{folder}/{REST_FILE}", json.dumps(rest, indent=2) + "\n")


class WriteRest(beam.DoFn):
    """A shard and the ranges of its results to the requests that are to be sent again.

    Main output: a Shard for each file. STATS: a Counter of why, by reason.
    """

    def __init__(self, rest: Rest) -> None:
        self._folder = rest.folder
        self._batch = rest.batch
        self._info = rest.info
        settings = rest.info.settings
        self._limits = Limits.of(
            settings["max_requests_per_file"], settings["max_megabytes_per_file"]
        )

    def setup(self) -> None:
        """Prepare what all records share."""
        self._requests = BatchRequests(self._info.form)
        self._file: RequestFile | None = None

    def start_bundle(self) -> None:
        """Give up what a failed bundle left behind."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def process(self, shard: tuple[str, list[ByteRange]]) -> Iterator[Any]:
        """Write the shard's requests; yield a file once it is full."""
        token, spans = shard
        reasons: Counter[str] = Counter()
        for read in ShardReplies(self._batch, self._info).read(token, spans):
            if isinstance(read, DeadLetter):
                continue
            record, calls = read
            wanted = {c.call: r for c in calls if (r := room_for_more(c)) is not None}
            reasons.update(_reason(c) for c in calls if c.call in wanted)
            if wanted:
                yield from self._write(self._lines(token, record, wanted))
        yield TaggedOutput(STATS, reasons)

    def finish_bundle(self) -> Iterator[Any]:
        """Yield the last file."""
        if self._file is not None:
            yield GlobalWindows.windowed_value_at_end_of_window(self._file.close())
            self._file = None

    def _lines(self, token: str, record: Record, wanted: Mapping[Call, int]) -> list[bytes]:
        data, (row, _, _) = data_block(record), next(iter(wanted))
        return [
            self._requests.line(token, row, body, room)
            for room in sorted(set(wanted.values()))
            for body in self._requests.bodies(record, data, room)
            if wanted.get((row, body.template, body.chunk)) == room
        ]

    def _write(self, lines: list[bytes]) -> Iterator[Shard]:
        size = sum(map(len, lines))
        if self._file is not None and not self._file.fits(len(lines), size):
            yield self._file.close()
            self._file = None
        if self._file is None:
            self._file = RequestFile(self._folder, self._limits)
        self._file.write(lines)


def _reason(call: CallResults) -> str:
    outcome = call.outcome
    if isinstance(outcome, Reply) or not call.results:
        return NO_RESULT
    return outcome.reason.value
