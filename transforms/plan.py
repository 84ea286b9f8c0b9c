"""Planning the input, at submission: files, format, and the columns of all rows."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

import storage
from schemas.columns import check_renames, rename_schema
from schemas.errors import UsageError
from schemas.json_rows import json_row_schema
from schemas.record import RECORD_KEYS
from schemas.source import InputFormat, InputPlan, Source

REQUEST_KEYS = ("messages", "prompt", "document")
LINE_SUFFIXES = (".jsonl", ".ndjson", ".json")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def plan_input(pattern: str, wanted: Source, given_format: InputFormat | None) -> InputPlan:
    """The plan for the files that `pattern` names; `wanted` is what the user said of them.

    Parquet footers are looked at; files that cannot be read are left to the run, which makes
    dead letters of them. Raises UsageError when nothing matches, when columns conflict, and
    when one that is needed is missing.
    """
    try:
        files = storage.expand(pattern)
        found = any(map(storage.exists, files))
    except OSError as error:
        raise UsageError(f"--input {pattern} cannot be looked at: {error}") from error
    if not found:
        raise UsageError(f"--input {pattern}: no such file; name a file, a folder or a glob")
    source = replace(wanted, format=given_format or _format(pattern, files))
    if source.format is not InputFormat.PARQUET:
        return InputPlan(
            tuple(files), replace(source, schema=json_row_schema(source.carry)), rows=None
        )
    if source.carry is not None:
        raise UsageError("--carry is for JSON input: Parquet columns are all carried, typed")
    footers = [footer for footer in map(_footer, files) if footer is not None]
    schema = _unify(pattern, [f.schema.to_arrow_schema() for f in footers])
    if footers:
        schema = _our_columns(pattern, schema, source)
    return InputPlan(tuple(files), replace(source, schema=schema), sum(f.num_rows for f in footers))


def _format(pattern: str, files: Sequence[str]) -> InputFormat:
    kinds = {_suffix(path) in LINE_SUFFIXES for path in files}
    if len(kinds) > 1:
        raise UsageError(f"--input {pattern}: JSON and other files together; score them apart")
    return InputFormat.JSONL if kinds == {True} else InputFormat.PARQUET


def _suffix(path: str) -> str:
    """The file's type, without a compression's ending."""
    for ending in COMPRESSIONS:
        path = path.removesuffix(ending)
    return "." + path.rpartition(".")[2].lower()


def compression(path: str) -> str | None:
    """How a file of lines is compressed, by its name."""
    return next((name for ending, name in COMPRESSIONS.items() if path.endswith(ending)), None)


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
    except pa.ArrowException:
        plain = [pa.schema([f.with_type(_plain_text(f.type)) for f in s]) for s in plain]
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except pa.ArrowException as error:
        raise UsageError(
            f"--input {pattern}: the files' columns conflict ({error}); score them apart"
        ) from error


def _plain_text(kind: pa.DataType) -> pa.DataType:
    """Text that one file holds as a dictionary or a view is plain text where files differ."""
    if pa.types.is_dictionary(kind):
        return _plain_text(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def _our_columns(pattern: str, schema: pa.Schema, source: Source) -> pa.Schema:
    try:
        check_renames(schema.names, source.renames)
        schema = rename_schema(schema, source.renames)
    except UsageError as error:
        raise UsageError(f"--input {pattern}: {error}") from error
    found = ", ".join(schema.names)
    if "output" not in schema.names:
        raise UsageError(
            f"--input {pattern}: there is no column `output`; found: {found}; "
            "name yours with --columns output=…"
        )
    if not any(key in schema.names for key in REQUEST_KEYS):
        raise UsageError(
            f"--input {pattern}: one of the columns {', '.join(REQUEST_KEYS)} is needed; "
            f"found: {found}; name yours with --columns document=…"
        )
    return schema


def check_clashes(schema: pa.Schema, ours: Sequence[str]) -> None:
    """Raise UsageError when an input column has the name of one of our output columns."""
    taken = [name for name in schema.names if name in ours and name not in RECORD_KEYS]
    if taken:
        raise UsageError(
            f"the input has columns with names of our output: {', '.join(taken)}; rename them, "
            f"like --columns old_{taken[0]}={taken[0]}, or set --output_prefix"
        )
