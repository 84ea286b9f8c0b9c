"""Replies in a SQLite file, shared by any number of processes on one machine.

In WAL mode readers and writers do not wait for each other. A reader thread and a writer thread
have a connection each; every batch of writes is one transaction, on disk when it is done.
"""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from verifier.cache import sqlite_file
from verifier.cache.backend import Item, StoreError, StoreStats
from verifier.cache.entry import moment
from verifier.cache.key import Key
from verifier.cache.workers import Workers

T = TypeVar("T")

SWEEP_EVERY_S = 60.0
"""How often a writer looks for entries that are too old."""


class FileBackend:
    """A SQLite file, kept below `max_bytes` and `max_age` by its writers, some rows a write."""

    lanes = 1
    batch = 200
    write_batch = 1000

    def __init__(self, path: Path, max_bytes: int, max_age: timedelta | None) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._sweep_at = 0.0
        self._reading = Workers("construct-beam-cache-read")
        self._writing = Workers("construct-beam-cache-write")
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None

    async def open(self, *, create: bool) -> None:
        """Open the file, or make it. Raises UsageError."""
        try:
            self._writer = await self._writing.run(sqlite_file.open_file, self._path, create)
            self._reader = await self._reading.run(sqlite_file.open_reader, self._path)
        except BaseException:
            await self.close()
            raise

    async def get_many(self, keys: Sequence[Key]) -> Mapping[Key, bytes]:
        """What is there of `keys`."""
        return await self._read(sqlite_file.select, keys)

    async def put_many(self, items: Sequence[Item]) -> None:
        """Write `items` in one transaction, then keep the limits."""
        await self._write(sqlite_file.insert, items)
        await self._write(self._keep_limits, len(items))

    async def stats(self) -> StoreStats:
        """Entries, bytes of the file in use, oldest and newest; reads one index of the file."""
        entries, taken, oldest, newest = await self._read(sqlite_file.stats)
        return StoreStats(entries, taken, *map(_moment, (oldest, newest)))

    async def prune(self, max_bytes: int | None, before: int | None) -> int:
        """Drop step by step, so that writes go on meanwhile, and give the room back."""
        dropped = 0
        if before is not None:
            while step := await self._write(sqlite_file.drop_before, before):
                dropped += step
        if max_bytes is not None:
            while step := await self._write(sqlite_file.drop_over, max_bytes):
                dropped += step
        free = None
        while (left := await self._write(sqlite_file.give_back)) != free:
            free = left
        await self._write(sqlite_file.checkpoint)
        return dropped

    async def close(self) -> None:
        """Close the file; the last process to do so leaves one file, without its log."""
        reader, writer, self._reader, self._writer = self._reader, self._writer, None, None
        if reader is not None:
            await self._reading.run(reader.close)
        if writer is not None:
            await self._writing.run(writer.close)
        self._reading.stop()
        self._writing.stop()

    def _keep_limits(self, connection: sqlite3.Connection, written: int) -> None:
        """Drop what is too much, in few steps; more of it, if need be, after the next write."""
        for _ in range(3 + written // sqlite_file.PRUNE_ROWS):
            sqlite_file.drop_over(connection, self._max_bytes)
        if sqlite_file.file_bytes(connection) > self._max_bytes:
            sqlite_file.give_back(connection)
        if self._max_age is not None and time.monotonic() >= self._sweep_at:
            before = time.time_ns() // 1000 - self._max_age // timedelta(microseconds=1)
            if sqlite_file.drop_before(connection, before) == 0:
                self._sweep_at = time.monotonic() + SWEEP_EVERY_S

    async def _read(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self._reading.run(self._do, function, self._reader, *arguments)

    async def _write(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self._writing.run(self._do, function, self._writer, *arguments)

    def _do(
        self, function: Callable[..., T], connection: sqlite3.Connection | None, *arguments: Any
    ) -> T:
        if connection is None:
            raise StoreError(f"{self._path} is closed")
        try:
            return function(connection, *arguments)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {sqlite_file.explain(error)}") from error


def _moment(arrived: int | None) -> Any:
    return None if arrived is None else moment(arrived)
