"""What the input is: format, columns and schema, decided once at submission."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from schemas.json_schema import JsonSchema
from schemas.record import DocumentFrom


class InputFormat(StrEnum):
    """The forms in which records come."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    OPENAI = "openai"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True)
class Source:
    """How to read the input.

    `renames` has their column name for ours; `schema` are the columns of every row, under our
    names; `carry` are the typed columns of JSON rows, None for one column `extra`.
    """

    schema: pa.Schema
    format: InputFormat = InputFormat.PARQUET
    renames: Mapping[str, str] = field(default_factory=dict)
    carry: pa.Schema | None = None
    default_schema: JsonSchema | None = None
    document_from: DocumentFrom = DocumentFrom.LAST_USER


@dataclass(frozen=True)
class InputPlan:
    """The input's files, how to read them, and how many rows they have if that is known."""

    files: tuple[str, ...]
    source: Source
    rows: int | None
