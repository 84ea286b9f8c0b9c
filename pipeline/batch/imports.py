"""From a batch's results to scored and routed records: the graph of import-batch."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, TaggedOutput

import storage
from pipeline.batch.dead_letters import read_dead_letter
from pipeline.batch.info import BatchInfo, read_info
from pipeline.batch.replies import (
    NO_RESULT,
    REFUSED,
    REPEATED,
    RESULTS,
    BatchVerdicts,
    ShardReplies,
    add_up,
)
from pipeline.batch.results import FOREIGN, STATS, UNREADABLE, find_results, results_by_shard
from pipeline.batch.settings import ImportBatchFlags
from pipeline.inputs import read_rules
from pipeline.outputs import (
    DEAD_LETTER,
    check_output,
    flat_fields,
    settings_of,
    summarise,
    write_placed,
)
from pipeline.prices import read_prices
from schemas.arrow_scored import OutputShape
from schemas.dead_letter import DeadLetter, broken_record
from schemas.reasons import Route
from scoring.routing import RoutingRules
from transforms.plan import check_clashes
from transforms.read import DEAD_LETTERS
from transforms.read_lines import ByteRange, byte_ranges, lines_of
from transforms.route import RouteRecords
from transforms.score import ScoreRecords
from verifier.prices import Prices
from verifier.record_verifier import Verified

_COUNTS = (RESULTS, REPEATED, NO_RESULT, FOREIGN, UNREADABLE)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Import:
    """An import's settings with the contents of all files that they name."""

    flags: ImportBatchFlags
    info: BatchInfo
    files: tuple[str, ...]
    rules: RoutingRules
    prices: Prices
    shape: OutputShape

    def settings(self) -> dict[str, Any]:
        """What run.json says of the settings; they hold no secret."""
        templates = self.info.form.templates
        ours = settings_of(self.flags, self.info.template_set, templates, self.rules)
        return {**ours, "export": dict(self.info.settings)}


def prepare_import(flags: ImportBatchFlags) -> Import:
    """Read what the settings name, check it, and empty the output folder.

    Raises UsageError with the remedy.
    """
    info = read_info(flags.batch)
    files = find_results(flags.results, info)
    source = info.source
    fields = flat_fields(flags, source.default_schema)
    shape = OutputShape(source.schema, info.form.templates.names, flags.output_prefix, fields)
    check_clashes(source.schema, shape.scored.names)
    rules, prices = read_rules(flags), read_prices(flags.prices)
    check_output(flags)
    return Import(flags, info, files, rules, prices, shape)


def build_import(pipeline: beam.Pipeline, run: Import) -> dict[str, beam.PCollection]:
    """Wire the import into `pipeline`. Returns the placed PCollections by name."""
    flags = run.flags
    results = results_by_shard(pipeline, run.info, run.files)
    read = beam.ParDo(ReadShards(run))
    verified = results["shards"] | "ReadShards" >> read.with_output_types(Verified).with_outputs(
        DEAD_LETTERS, STATS, main="verified"
    )
    scored = verified["verified"] | ScoreRecords(run.rules, flags.score_scale)
    routed = scored["scored"] | RouteRecords()
    dead = (
        _exported_dead_letters(pipeline, flags.batch),
        verified[DEAD_LETTERS],
        scored[DEAD_LETTERS],
    ) | "AllDeadLetters" >> beam.Flatten()
    placed = {**{route.value: routed[route.value] for route in Route}, DEAD_LETTERS: dead}
    written = write_placed(placed, verified["verified"], run.shape, flags)
    stats = (
        (results[STATS], verified[STATS])
        | "Stats" >> beam.Flatten()
        | "AddUpStats" >> beam.CombineGlobally(add_up)
        | "Report" >> beam.Map(_report)
    )
    summarise(placed, written, flags.output, run.settings(), AsSingleton(stats))
    return placed


def _exported_dead_letters(pipeline: beam.Pipeline, folder: str) -> beam.PCollection:
    files = storage.expand(f"{folder}/{DEAD_LETTER}/part-*")
    return (
        pipeline
        | "DeadLetterFiles" >> beam.Create(files, reshuffle=False)
        | "DeadLetterRanges" >> beam.FlatMap(byte_ranges)
        | "DeadLetterLines" >> beam.FlatMap(lines_of)
        | "ReadDeadLetters" >> beam.Map(read_dead_letter).with_output_types(DeadLetter)
    )


def _report(stats: Mapping[str, int]) -> dict[str, Any]:
    """What run.json says of the results, and a warning of what is amiss."""
    refused = {k.removeprefix(REFUSED): n for k, n in stats.items() if k.startswith(REFUSED)}
    report = {**{name: stats.get(name, 0) for name in _COUNTS}, "refused_parameters": refused}
    for warning in _warnings(report):
        _log.warning("%s", warning)
    return {"batch": report}


def _warnings(report: Mapping[str, Any]) -> Iterator[str]:
    if report[FOREIGN]:
        yield f"{report[FOREIGN]} results are of no request of this export; they were left out"
    if report[UNREADABLE]:
        yield f"{report[UNREADABLE]} lines of the results are no JSON objects; they were left out"
    if report[NO_RESULT]:
        yield (
            f"{report[NO_RESULT]} requests have no result, which counts as a time-out; --rest "
            "writes them for another upload instead"
        )
    for parameter, count in sorted(report["refused_parameters"].items()):
        yield (
            f"{count} requests were refused for {parameter}: export again with other "
            "--response_format, --limit_parameter or --temperature"
        )


class ReadShards(beam.DoFn):
    """A shard and the ranges of its results to verified records.

    Main output: Verified. DEAD_LETTERS: a record that could not be read again. STATS: a Counter.
    """

    def __init__(self, run: Import) -> None:
        self._folder = run.flags.batch
        self._info = run.info
        self._prices = run.prices
        self._keep_replies = run.flags.keep_replies
        self._now = datetime.now(UTC)

    def setup(self) -> None:
        """Prepare what all records share."""
        self._verdicts = BatchVerdicts(self._info, self._prices, self._keep_replies, self._now)

    def process(self, shard: tuple[str, list[ByteRange]]) -> Iterator[Any]:
        """Yield the shard's records. Raises OSError and ArrowException."""
        replies = ShardReplies(self._folder, self._info)
        for read in replies.read(*shard):
            result = read if isinstance(read, DeadLetter) else self._verified(*read)
            lost = isinstance(result, DeadLetter)
            yield TaggedOutput(DEAD_LETTERS, result) if lost else result
        yield TaggedOutput(STATS, replies.stats)

    def _verified(self, *read: Any) -> Verified | DeadLetter:
        try:
            return self._verdicts.verified(*read)
        except Exception as error:  # noqa: BLE001 - one record must not fail its neighbours
            return broken_record(read[0], error)
