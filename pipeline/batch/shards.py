"""Shards on disk: a request file within the provider's limits, and the records it is about.

Files have temporary names in `partial/` until the whole export is done, so that nobody uploads
what a killed or retried worker left behind.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

import storage
from pipeline.batch.info import Shard
from schemas.row import Row, gather

PARTIAL = "partial"
FOLDERS = (PARTIAL, "requests", "records")
MEGABYTE = 1_000_000
TABLE_ROWS = 500
TABLE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """What the provider takes in one file."""

    requests: int
    bytes: int

    @classmethod
    def of(cls, requests: int, megabytes: float) -> "Limits":
        """The limits in a user's figures; a megabyte is 10^6 bytes."""
        return cls(requests, int(megabytes * MEGABYTE))

    def allow(self, requests: int, size: int) -> bool:
        """Whether a file may hold so many requests of `size` bytes together."""
        return requests <= self.requests and size <= self.bytes


class RequestFile:
    """A file of request lines under way. `fits` before each `write`."""

    def __init__(self, folder: str, limits: Limits) -> None:
        self.token = secrets.token_hex(6)
        self.path = f"{folder}/{PARTIAL}/{self.token}"
        self.records = self.requests = self.bytes = 0
        self._limits = limits
        self._file = FileSystems.create(f"{self.path}.jsonl")

    def fits(self, requests: int, size: int) -> bool:
        """Whether so many more requests, of `size` bytes together, have room."""
        return self._limits.allow(self.requests + requests, self.bytes + size)

    def write(self, lines: Sequence[bytes]) -> None:
        """Add the lines of one record."""
        for line in lines:
            self._file.write(line)
            self.bytes += len(line)
        self.requests += len(lines)
        self.records += 1

    def close(self) -> Shard:
        """Complete the file."""
        self._file.close()
        return Shard(
            token=self.token, records=self.records, requests=self.requests, bytes=self.bytes
        )


class ShardFiles:
    """A shard under way: a request file and the input rows of its records."""

    def __init__(self, folder: str, limits: Limits, schema: pa.Schema) -> None:
        self.requests = RequestFile(folder, limits)
        self._schema = schema
        self._file = FileSystems.create(f"{self.requests.path}.parquet")
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        self._rows: list[Row | None] = []
        self._batch: pa.RecordBatch | None = None
        self._bytes = 0

    def add(self, row: Row | None, lines: Sequence[bytes]) -> None:
        """Add a record; its number in the shard is `requests.records` before."""
        self.requests.write(lines)
        self._rows.append(row)
        if row is not None and row.batch is not self._batch:
            self._batch = row.batch
            self._bytes += row.batch.nbytes
        if len(self._rows) >= TABLE_ROWS or self._bytes >= TABLE_BYTES:
            self._flush()

    def close(self) -> Shard:
        """Complete both files."""
        self._flush()
        self._writer.close()
        self._file.close()
        return self.requests.close()

    def abandon(self) -> None:
        """Give the files up; they stay in `partial/` until the next export."""
        for file in (self._writer, self._file, self.requests):
            file.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(gather(self._rows, self._schema))
            self._rows, self._batch, self._bytes = [], None, 0


def clear(folder: str) -> None:
    """Make the folders of shards, and empty them. Raises OSError."""
    for name in FOLDERS:
        storage.make_folder(f"{folder}/{name}")
        storage.remove_files(f"{folder}/{name}/*")


def publish(folder: str, shards: Iterable[Shard]) -> tuple[Shard, ...]:
    """Give the shards' files their names, and remove what no shard owns.

    Doing it again, after a part of it, completes it.
    """
    ordered = sorted(shards, key=lambda shard: shard.token)
    numbered = [s.model_copy(update={"number": n}) for n, s in enumerate(ordered, 1)]
    for shard in numbered:
        partial = f"{folder}/{PARTIAL}/{shard.token}"
        _move(f"{partial}.jsonl", f"{folder}/{shard.requests_name}")
        _move(f"{partial}.parquet", f"{folder}/{shard.records_name}")
    storage.remove_files(f"{folder}/{PARTIAL}/*")
    return tuple(numbered)


def _move(source: str, target: str) -> None:
    if FileSystems.exists(source):
        FileSystems.rename([source], [target])
