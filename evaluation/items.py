"""Scored records with what is known of their fields: the items that an evaluation is about."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import storage
from evaluation.agreement import Comparisons
from schemas.errors import RecordError, UsageError
from schemas.parse_record import parse_output
from schemas.reasons import Route
from schemas.record import WHOLE_OUTPUT
from scoring.facts import is_empty

NEEDED = ("id", "output", "trustworthiness_score", "per_field_scores", "signals")
OPTIONAL = ("ground_truth", "document", "messages", "prompt", "route", "review_probability")


class MissingGold(StrEnum):
    """What a field without a gold value is: not looked at, or one that should be null."""

    EXCLUDE = "exclude"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class FieldItem:
    """One field: its score (None: not scored), whether its value is right, and what it is like."""

    name: str
    score: float | None
    correct: bool
    kind: str
    evidence: str


@dataclass(frozen=True, slots=True)
class DocumentItem:
    """One scored document and those of its fields of which it is known whether they are right."""

    id: str
    score: float | None
    fields: tuple[FieldItem, ...]
    n_fields: int
    n_verdicts: int
    length: int
    accepted: bool
    weight: float = 1.0

    @property
    def correct(self) -> bool:
        """A document is incorrect when any of its fields is."""
        return all(field.correct for field in self.fields)


Truth = Callable[[Mapping[str, Any], Any], Mapping[str, bool]]
"""Of a scored row and its parsed output: which fields are right, as far as that is known."""


def scored_files(scored: str) -> list[str]:
    """The Parquet files of a run's folder, or of a glob. Raises UsageError when there are none."""
    folder = scored.rstrip("/")
    files = [
        path for route in Route for path in storage.expand(f"{folder}/{route.value}/*.parquet")
    ] or [path for path in storage.expand(scored) if storage.exists(path)]
    if not files:
        raise UsageError(f"{scored}: no scored Parquet files; name the output folder of a run")
    return files


def read_rows(files: list[str], prefix: str = "") -> Iterator[dict[str, Any]]:
    """The rows of scored files, with our names. Raises UsageError for files that are none."""
    for path in files:
        try:
            with storage.open_input(path) as file:
                source = pq.ParquetFile(file)
                columns = _columns(path, source.schema_arrow, prefix)
                for batch in source.iter_batches(512, columns=list(columns)):
                    for row in batch.to_pylist():
                        yield {columns[name]: value for name, value in row.items()}
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{path} cannot be read as Parquet: {error}") from error


def _columns(path: str, schema: pa.Schema, prefix: str) -> dict[str, str]:
    """Our name of each column that is needed, by its name in the file."""
    ours = {"trustworthiness_score", "per_field_scores", "signals", "route", "review_probability"}
    names = {(prefix + n if n in ours else n): n for n in (*NEEDED, *OPTIONAL)}
    lacking = [n for n, ours_ in names.items() if ours_ in NEEDED and n not in schema.names]
    if lacking:
        raise UsageError(
            f"{path} is no scored file: it lacks {lacking[0]} (--output_prefix, if score had one)"
        )
    return {n: ours_ for n, ours_ in names.items() if n in schema.names}


def document_item(row: Mapping[str, Any], truth: Truth, weight: float = 1.0) -> DocumentItem:
    """The item of a scored row."""
    output = parse_output(row["output"])
    values = output if isinstance(output, dict) else {WHOLE_OUTPUT: output}
    scored = {field["field"]: field for field in row["per_field_scores"] or ()}
    known = truth(row, values)
    fields = tuple(
        FieldItem(
            name=name,
            score=(scored.get(name) or {}).get("score"),
            correct=correct,
            kind=kind_of(values.get(name)),
            evidence=_evidence(scored.get(name)),
        )
        for name, correct in known.items()
    )
    return DocumentItem(
        id=row["id"],
        score=row["trustworthiness_score"],
        fields=fields,
        n_fields=len(values),
        n_verdicts=row["signals"]["n_verdicts"],
        length=_length(row),
        accepted=row.get("route") == Route.AUTO_ACCEPT.value,
        weight=weight,
    )


def truth_by_gold(comparisons: Comparisons, missing: MissingGold) -> Truth:
    """Right is what agrees with `ground_truth`; without that column in the row, nothing is known.

    Raises RecordError for a gold that is no structured output.
    """

    def truth(row: Mapping[str, Any], values: Any) -> dict[str, bool]:
        if row.get("ground_truth") is None:
            return {}
        gold = parse_output(row["ground_truth"])
        if not isinstance(gold, dict):
            gold = {WHOLE_OUTPUT: gold}
        names = dict.fromkeys((*values, *gold))
        return {
            name: comparisons.agree(name, values.get(name), gold.get(name))
            for name in names
            if missing is MissingGold.NULL or not is_empty(gold.get(name))
        }

    return truth


def truth_by_labels(labels: Mapping[tuple[str, str], bool]) -> Truth:
    """Right is what a label says is."""

    def truth(row: Mapping[str, Any], values: Any) -> dict[str, bool]:
        found = {name: labels.get((row["id"], name)) for name in values}
        return {name: correct for name, correct in found.items() if correct is not None}

    return truth


def read_documents(
    rows: Iterable[dict[str, Any]],
    truth: Truth,
    weights: Mapping[str, float] = MappingProxyType({}),
) -> Iterator[DocumentItem]:
    """The items of scored rows; `weights` by id are 1 unless given.

    Raises UsageError that names the record whose gold is none.
    """
    for row in rows:
        try:
            yield document_item(row, truth, weights.get(row["id"], 1.0))
        except RecordError as error:
            raise UsageError(f"record {row['id']}: ground_truth: {error.message}") from error


def kind_of(value: Any) -> str:
    """The JSON type of a value."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    kinds = ((str, "text"), (list, "list"), (dict, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "other")


def _evidence(field: Mapping[str, Any] | None) -> str:
    evidence = (field or {}).get("evidence")
    return evidence["kind"] if evidence else "not looked for"


def _length(row: Mapping[str, Any]) -> int:
    """Characters of the request."""
    request = row.get("messages") or row.get("prompt") or row.get("document") or ""
    if isinstance(request, str):
        return len(request)
    return sum(len(str(message.get("content") or "")) for message in request)
