"""Other people's column names under ours: `--columns id=invoice_no,document=ocr_text`."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from schemas.errors import UsageError


def parse_columns(text: str | None) -> dict[str, str]:
    """Their name for each of our names. Raises UsageError for what is not `ours=theirs,…`."""
    renames: dict[str, str] = {}
    for pair in (text or "").split(","):
        if not pair.strip():
            continue
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not (ours and equals and theirs):
            raise UsageError(f"--columns {pair.strip()}: write ours=theirs, like document=ocr_text")
        if ours in renames or theirs in renames.values():
            raise UsageError(f"--columns names {ours if ours in renames else theirs} twice")
        renames[ours] = theirs
    return renames


def rename_schema(schema: pa.Schema, renames: Mapping[str, str]) -> pa.Schema:
    """`schema` under our names. Raises UsageError for a missing column and for a clash."""
    names = rename_all(schema.names, renames)
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"there are two columns {name}: rename one away, like --columns old_{name}={name}"
            )
    return pa.schema([f.with_name(n) for f, n in zip(schema, names, strict=True)])


def rename_all(names: list[str], renames: Mapping[str, str]) -> list[str]:
    """`names` with theirs replaced by ours."""
    theirs = {their: our for our, their in renames.items()}
    return [theirs.get(name, name) for name in names]


def check_renames(names: list[str], renames: Mapping[str, str]) -> None:
    """Raise UsageError when a column that `--columns` names is not there."""
    for ours, theirs in renames.items():
        if theirs not in names:
            found = ", ".join(names)
            raise UsageError(f"--columns {ours}={theirs}: no column {theirs}; found: {found}")


def rename_values(values: Mapping[str, Any], renames: Mapping[str, str]) -> dict[str, Any]:
    """A row's values under our names; what is there under our name already stays."""
    theirs = {their: our for our, their in renames.items() if their in values}
    return {theirs.get(key, key): value for key, value in values.items()}
