"""batch.json: what an export holds, and all that an import must know of it."""

import base64
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

import storage
from schemas.errors import RecordError, UsageError
from schemas.json_schema import parse_schema
from schemas.record import DocumentFrom
from schemas.source import Source
from verifier.batch_request import BatchForm

INFO_FILE = "batch.json"


class Shard(BaseModel):
    """One request file and the file of its records; a record's requests are all in one file.

    `number` is 0 until the files have their names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: str
    number: int = 0
    records: int
    requests: int
    bytes: int

    @property
    def requests_name(self) -> str:
        """The request file, below the export's folder."""
        return f"requests/requests-{self.number:05}.jsonl"

    @property
    def records_name(self) -> str:
        """The file of records, below the export's folder."""
        return f"records/records-{self.number:05}.parquet"


class BatchInfo(BaseModel):
    """An export: how its requests were written, how its records are read, and its shards.

    `columns` is the Arrow schema of the records, serialised and in base64. `template_set` and
    `version` are of the program that exported.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    version: str
    template_set: str
    form: BatchForm
    document_from: DocumentFrom
    default_schema: str | None
    columns: str
    settings: Mapping[str, Any]
    dead_letters: int = 0
    shards: tuple[Shard, ...] = ()

    @property
    def records(self) -> int:
        """The records that requests were written for."""
        return sum(shard.records for shard in self.shards)

    @property
    def requests(self) -> int:
        """The requests in all files."""
        return sum(shard.requests for shard in self.shards)

    @property
    def source(self) -> Source:
        """How the files of records are read."""
        data = base64.b64decode(self.columns)
        return Source(
            schema=pa.ipc.read_schema(pa.py_buffer(data)),
            default_schema=parse_schema(self.default_schema),
            document_from=self.document_from,
        )

    def write(self, folder: str) -> None:
        """Write batch.json at once: an export without it is not finished."""
        storage.write_text(f"{folder}/{INFO_FILE}", self.model_dump_json(indent=2) + "\n")


def new_info(form: BatchForm, source: Source, settings: Mapping[str, Any]) -> BatchInfo:
    """What is known of an export before it runs."""
    schema = source.default_schema
    return BatchInfo(
        version=version("construct-beam"),
        template_set=form.template_set,
        form=form,
        document_from=source.document_from,
        default_schema=schema.text if schema else None,
        columns=base64.b64encode(source.schema.serialize().to_pybytes()).decode("ascii"),
        settings=settings,
    )


def read_info(folder: str) -> BatchInfo:
    """The export in `folder`.

    Raises UsageError for one that is not there, not finished or damaged, and for one whose
    template_set is not what this version makes of its templates.
    """
    path = f"{folder}/{INFO_FILE}"
    try:
        if not storage.exists(path):
            raise UsageError(
                f"--batch {folder} holds no finished export: {INFO_FILE} is missing; name the "
                "folder that export-batch wrote"
            )
        info = BatchInfo.model_validate_json(storage.read_text(path))
        _ = info.source
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise UsageError(f"--batch {folder}: {INFO_FILE} cannot be read: {error}") from error
    except (pa.ArrowException, RecordError, ValueError) as error:
        raise UsageError(f"--batch {folder}: {INFO_FILE} is damaged: {error}") from error
    _check(folder, info)
    return info


def _check(folder: str, info: BatchInfo) -> None:
    ours = info.form.template_set
    if ours != info.template_set:
        raise UsageError(
            f"--batch {folder} was asked with template_set {info.template_set}, and this version "
            f"of construct-beam makes {ours} of the same templates; import with version "
            f"{info.version}"
        )
    for shard in info.shards:
        if not storage.exists(f"{folder}/{shard.records_name}"):
            raise UsageError(
                f"--batch {folder} lacks {shard.records_name}, the records that results are "
                "about; keep the export's folder whole"
            )
