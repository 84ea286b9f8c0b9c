"""The SQLite file that holds replies: how it is made, checked, read and kept small.

A row is an entry; rows are dropped in order of arrival. Functions take a connection that is used
by one thread at a time, and raise sqlite3.Error.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import UsageError
from verifier.cache.backend import Item
from verifier.cache.key import Key

APPLICATION_ID = 0x63_6F_62_6D
"""What SQLite files of ours are marked with: "cobm"."""

SCHEMA_VERSION = 1
BUSY_S = 10.0
"""How long a statement waits for other processes that write."""

PRUNE_ROWS = 2000
"""How many rows one transaction drops at most, so that other writers get their turn."""

VACUUM_PAGES = 1000
OTHER = "name another file, or use --cache none"

_TABLES = """
CREATE TABLE IF NOT EXISTS replies (
    key BLOB NOT NULL UNIQUE, arrived INTEGER NOT NULL, value BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS replies_by_arrival ON replies (arrived);
"""


def open_file(path: Path, create: bool) -> sqlite3.Connection:
    """A connection to write to the cache file, which is made if it may be and is not there.

    Raises UsageError when there is none, or when it is not ours, damaged or cannot be written.
    """
    _check_path(path, create)
    try:
        connection = _connect(path)
        try:
            _set_up(connection, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise UsageError(f"--cache file:{path} cannot be used: {explain(error)}") from error
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Another connection to a file that `open_file` opened, to read only."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _check_path(path: Path, create: bool) -> None:
    if path.is_dir():
        raise UsageError(f"--cache file:{path} is a folder; name a file in it")
    if not create and not path.exists():
        raise UsageError(f"--cache file:{path}: there is no such file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--cache file:{path}: {error.strerror}; {OTHER}") from error


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    """Check whose file it is before anything in it is changed; then make what is missing.

    The transaction also shows that the file can be written.
    """
    # As it is in one moment: another process may be making it.
    connection.execute("BEGIN")
    try:
        _check_owner(connection, path)
    finally:
        connection.execute("ROLLBACK")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _use_log(connection)
    connection.execute("PRAGMA synchronous = FULL")
    with transaction(connection):
        if _check_owner(connection, path):
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _check_owner(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is new. Raises UsageError when it is another program's or version's."""
    owner = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    if owner == APPLICATION_ID and version == SCHEMA_VERSION:
        return False
    if owner == APPLICATION_ID:
        raise UsageError(
            f"--cache file:{path} was written by another version of construct-beam (format "
            f"{version}, this one reads {SCHEMA_VERSION}); {OTHER}"
        )
    if owner or version or tables:
        raise UsageError(f"--cache file:{path} is the SQLite file of another program; {OTHER}")
    return True


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; SQLite does not wait for others here, so this does."""
    patience = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > patience:
                raise
            time.sleep(0.01)
        else:
            return


_EXPLAINED = {
    sqlite3.SQLITE_NOTADB: f"it is no SQLite file; {OTHER}",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; delete it (what is in it must be paid for "
    f"again), {OTHER}",
    sqlite3.SQLITE_CANTOPEN: f"the file or its folder cannot be opened for writing; {OTHER}",
    sqlite3.SQLITE_READONLY: f"the file or its folder cannot be written; {OTHER}",
    sqlite3.SQLITE_FULL: f"the disk is full; make room, {OTHER}",
    sqlite3.SQLITE_BUSY: "another process holds it locked; end that one, or wait and try again",
}


def explain(error: sqlite3.Error) -> str:
    """What is wrong and what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _EXPLAINED.get(code, f"{error}; {OTHER}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing of what is done within."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    try:
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def select(connection: sqlite3.Connection, keys: Sequence[Key]) -> dict[Key, bytes]:
    """The values that are there of at most 500 keys."""
    marks = ",".join("?" * len(keys))
    query = f"SELECT key, value FROM replies WHERE key IN ({marks})"  # noqa: S608 - only marks
    return dict(connection.execute(query, keys).fetchall())


def insert(connection: sqlite3.Connection, items: Sequence[Item]) -> None:
    """Write `items` in one transaction; a key that is taken stays as it is unless replaced."""
    with transaction(connection):
        for replaces, verb in ((False, "IGNORE"), (True, "REPLACE")):
            connection.executemany(
                f"INSERT OR {verb} INTO replies (key, arrived, value) VALUES (?, ?, ?)",  # noqa: S608
                [(i.key, i.arrived, i.value) for i in items if i.replaces is replaces],
            )


def drop_before(connection: sqlite3.Connection, before: int) -> int:
    """Drop some of the entries that arrived before a moment; how many."""
    return _drop(connection, PRUNE_ROWS, "WHERE arrived < ?", before)


def drop_over(connection: sqlite3.Connection, max_bytes: int) -> int:
    """Drop some of the oldest entries if more than `max_bytes` are in use; how many."""
    used = used_bytes(connection)
    if used <= max_bytes:
        return 0
    # Rows are numbered as they come and dropped about in that order.
    first = "coalesce((SELECT min(rowid) FROM replies), 0)"
    rows = _number(connection, f"SELECT coalesce(max(rowid), 0) - {first} + 1 FROM replies")  # noqa: S608
    surplus = rows * (used - max_bytes) // used
    return _drop(connection, min(PRUNE_ROWS, surplus + 1))


def _drop(connection: sqlite3.Connection, rows: int, where: str = "", *values: int) -> int:
    oldest = f"SELECT rowid FROM replies {where} ORDER BY arrived LIMIT {rows}"  # noqa: S608
    with transaction(connection):
        dropped = connection.execute(f"DELETE FROM replies WHERE rowid IN ({oldest})", values)  # noqa: S608
    return dropped.rowcount


def give_back(connection: sqlite3.Connection) -> int:
    """Give some free pages back to the file system; how many are still free."""
    # `execute` takes one step only, a page, since this returns no columns.
    connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
    return _number(connection, "PRAGMA freelist_count")


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move the log into the file, as far as no reader is in the way."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold something."""
    free = _number(connection, "PRAGMA freelist_count") * _number(connection, "PRAGMA page_size")
    return file_bytes(connection) - free


def file_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file, without its log."""
    return _number(connection, "PRAGMA page_count") * _number(connection, "PRAGMA page_size")


def stats(connection: sqlite3.Connection) -> tuple[int, int, int | None, int | None]:
    """Entries, bytes in use, and the first and last arrival in microseconds since 1970."""
    row = connection.execute(
        "SELECT count(*), (SELECT min(arrived) FROM replies), (SELECT max(arrived) FROM replies) "
        "FROM replies"
    ).fetchone()
    return row[0], used_bytes(connection), row[1], row[2]


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])
