"""Writing batch requests: records to request files, with all that an import will need."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton, TaggedOutput
from apache_beam.transforms.window import GlobalWindows

from pipeline.batch.info import INFO_FILE, BatchInfo, Shard, new_info
from pipeline.batch.settings import ExportBatchFlags
from pipeline.batch.shards import MEGABYTE, Limits, ShardFiles, clear, publish
from pipeline.inputs import read_source, read_templates
from pipeline.outputs import DEAD_LETTER, claim_folder
from schemas.dead_letter import DeadLetter, broken_record, lost_record
from schemas.errors import RecordError, UsageError
from schemas.reasons import FailureReason
from schemas.record import Record
from schemas.source import InputPlan
from transforms.plan import plan_input
from transforms.read import DEAD_LETTERS, ReadRecords
from transforms.write import WriteDeadLetters
from verifier.batch_request import BatchForm, BatchRequests, Body, ReplyFormat
from verifier.record_verifier import prepare
from verifier.request import first_dialect
from verifier.settings import OnOff, VerifierSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Export:
    """An export's settings with the contents of all files that they name."""

    flags: ExportBatchFlags
    plan: InputPlan
    info: BatchInfo

    @property
    def limits(self) -> Limits:
        """The limits of one request file."""
        flags = self.flags
        return Limits.of(flags.max_requests_per_file, flags.max_megabytes_per_file)


def prepare_export(flags: ExportBatchFlags) -> Export:
    """Read what the settings name, check it, and empty the output folder.

    Raises UsageError with the remedy.
    """
    form = _form(flags)
    if flags.max_requests_per_file < len(form.templates.templates):
        raise UsageError(
            f"--max_requests_per_file {flags.max_requests_per_file} is less than the "
            f"{len(form.templates.templates)} requests of one record"
        )
    plan = plan_input(flags.input, read_source(flags), flags.input_format)
    settings = flags.model_dump(mode="json", by_alias=True)
    _clear_output(flags)
    return Export(flags, plan, new_info(form, plan.source, settings))


def _form(flags: ExportBatchFlags) -> BatchForm:
    endpoint = VerifierSettings(target=flags.verifier).endpoint
    if endpoint.embedded:
        raise UsageError(f"--verifier {flags.verifier} has no batch mode: use construct-beam score")
    layout = flags.prompt_layout
    structure = first_dialect(urlsplit(endpoint.url).hostname, layout).structure
    return BatchForm(
        model=endpoint.model,
        templates=read_templates(flags.templates),
        prompt_layout=layout,
        max_fields_per_call=flags.max_fields_per_call,
        response_format=flags.response_format or ReplyFormat[structure.name],
        field_aliases=flags.field_aliases is OnOff.ON,
        limit_parameter=flags.limit_parameter,
        temperature=flags.temperature is OnOff.ON,
        url=flags.request_url,
    )


def _clear_output(flags: ExportBatchFlags) -> None:
    folder = flags.output
    leftovers = [f"{folder}/{DEAD_LETTER}/part-*"]
    held = "an export, whose results need it"
    claim_folder(folder, INFO_FILE, held, leftovers, overwrite=flags.overwrite)
    try:
        clear(folder)
    except OSError as error:
        raise UsageError(f"--output {folder} cannot be used: {error}") from error


def build_export(pipeline: beam.Pipeline, export: Export) -> None:
    """Wire the export into `pipeline`. batch.json is written last."""
    folder = export.flags.output
    read = (
        pipeline
        | "Files" >> beam.Create(export.plan.files, reshuffle=False)
        | "Read" >> ReadRecords(export.plan.source)
    )
    write = beam.ParDo(WriteShards(folder, export.limits, export.info)).with_output_types(Shard)
    written = read["records"] | "WriteShards" >> write.with_outputs(DEAD_LETTERS, main="shards")
    dead = (read[DEAD_LETTERS], written[DEAD_LETTERS]) | "AllDeadLetters" >> beam.Flatten()
    files = dead | f"Write/{DEAD_LETTER}" >> WriteDeadLetters(f"{folder}/{DEAD_LETTER}")
    lost = dead | "CountDeadLetters" >> beam.combiners.Count.Globally()
    _ = (
        pipeline
        | "Once" >> beam.Create([folder], reshuffle=False)
        | "Publish"
        >> beam.Map(
            _publish, export.info, AsIter(written["shards"]), AsSingleton(lost), AsIter(files)
        )
    )


def _publish(
    folder: str, info: BatchInfo, shards: Iterable[Shard], dead: int, _files: Iterable[str]
) -> None:
    """The dead letters' file names are a side input only so that this runs after that sink."""
    done = {"shards": publish(folder, shards), "dead_letters": dead}
    info.model_copy(update=done).write(folder)


class WriteShards(beam.DoFn):
    """Records to shards, each closed when the provider's limits or the bundle's end are reached.

    Main output: a Shard for each. A record whose requests fit into no file is a dead letter.
    """

    def __init__(self, folder: str, limits: Limits, info: BatchInfo) -> None:
        self._folder = folder
        self._limits = limits
        self._form = info.form
        self._schema = info.source.schema

    def setup(self) -> None:
        """Prepare what all records share."""
        self._requests = BatchRequests(self._form)
        self._shard: ShardFiles | None = None

    def start_bundle(self) -> None:
        """Give up what a failed bundle left behind."""
        if self._shard is not None:
            self._shard.abandon()
        self._shard = None

    def process(self, record: Record) -> Iterator[Any]:
        """Write the record's requests; yield a shard once it is full."""
        bodies = self._bodies(record)
        if isinstance(bodies, DeadLetter):
            yield TaggedOutput(DEAD_LETTERS, bodies)
            return
        size = self._requests.size(bodies)
        if self._shard is not None and not self._shard.requests.fits(len(bodies), size):
            yield self._close(self._shard)
        if self._shard is None:
            self._shard = ShardFiles(self._folder, self._limits, self._schema)
        file = self._shard.requests
        lines = [self._requests.line(file.token, file.records, body) for body in bodies]
        self._shard.add(record.row, lines)

    def finish_bundle(self) -> Iterator[Any]:
        """Yield the last shard."""
        if self._shard is not None:
            yield GlobalWindows.windowed_value_at_end_of_window(self._close(self._shard))

    def _close(self, shard: ShardFiles) -> Shard:
        self._shard = None
        return shard.close()

    def _bodies(self, record: Record) -> list[Body] | DeadLetter:
        try:
            bodies = list(self._requests.bodies(record, prepare(record).data))
            self._check_size(bodies)
        except RecordError as error:
            return lost_record(record, error.reason, error.message)
        except Exception as error:  # noqa: BLE001 - one record must not fail its neighbours
            return broken_record(record, error)
        return bodies

    def _check_size(self, bodies: Sequence[Body]) -> None:
        size = self._requests.size(bodies)
        if not self._limits.allow(len(bodies), size):
            raise RecordError(
                FailureReason.CONTEXT_LENGTH_EXCEEDED,
                f"its {len(bodies)} requests of {size / MEGABYTE:.1f} MB fit into no file: the "
                f"limits are {self._limits.requests} and {self._limits.bytes / MEGABYTE:g} MB",
            )
