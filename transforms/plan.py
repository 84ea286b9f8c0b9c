"""What is read once, at submission, and travels with the pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

import storage
from schemas.arrow_scored import score_columns
from schemas.errors import UsageError
from schemas.record import RECORD_KEYS

REQUEST_KEYS = ("messages", "prompt", "document")


@dataclass(frozen=True)
class ParquetPlan:
    """The input files, the union of their schemas, and their rows as far as they can be read."""

    files: tuple[str, ...]
    schema: pa.Schema
    rows: int


def plan_parquet(pattern: str) -> ParquetPlan:
    """Look at the footers of the files that `pattern` names.

    Files that cannot be read are left to the run, which makes dead letters of them. Raises
    UsageError when nothing matches, when columns conflict, and when a needed one is missing.
    """
    files = storage.expand(pattern)
    if not files or not any(map(storage.exists, files)):
        raise UsageError(f"--input {pattern}: no such file; name a Parquet file, folder or glob")
    footers = [footer for footer in map(_footer, files) if footer is not None]
    schema = _unify(pattern, [f.schema.to_arrow_schema() for f in footers])
    if footers:
        _check_columns(pattern, schema)
    return ParquetPlan(tuple(files), schema, sum(f.num_rows for f in footers))


def _footer(path: str) -> pq.FileMetaData | None:
    try:
        with storage.open_input(path) as file:
            return pq.read_metadata(file)
    except (OSError, pa.ArrowException):
        return None


def _unify(pattern: str, schemas: Sequence[pa.Schema]) -> pa.Schema:
    if not schemas:
        return pa.schema([])
    plain = [s.remove_metadata() for s in schemas]
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except pa.ArrowException as error:
        raise UsageError(
            f"--input {pattern}: the files' columns conflict ({error}); score them apart"
        ) from error


def _check_columns(pattern: str, schema: pa.Schema) -> None:
    found = ", ".join(schema.names)
    if "output" not in schema.names:
        raise UsageError(f"--input {pattern}: there is no column `output`; found: {found}")
    if not any(key in schema.names for key in REQUEST_KEYS):
        raise UsageError(
            f"--input {pattern}: one of the columns {', '.join(REQUEST_KEYS)} is needed; "
            f"found: {found}"
        )
    taken = sorted(set(schema.names) & set(score_columns(()).names))
    if taken:
        raise UsageError(
            f"--input {pattern}: the columns {', '.join(taken)} are names of our output columns; "
            f"rename them ({', '.join(RECORD_KEYS)} are the record's own)"
        )
