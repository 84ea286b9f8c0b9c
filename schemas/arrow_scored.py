"""Scored records as Arrow tables: the output rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from schemas.evidence import Evidence
from schemas.row import gather
from schemas.scored import FieldScore, ScoredRecord

EVIDENCE = pa.struct(
    [
        ("kind", pa.string()),
        ("message_index", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.string()),
        ("similarity", pa.float64()),
    ]
)
FIELD_SCORE = pa.struct(
    [
        ("field", pa.string()),
        ("score", pa.float64()),
        ("explanation", pa.string()),
        ("evidence", EVIDENCE),
    ]
)
USAGE = pa.struct(
    [
        ("calls", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("latency_ms", pa.float64()),
    ]
)


def score_columns(templates: Sequence[str]) -> pa.Schema:
    """The columns that scoring adds to a record; `signals` has a member for each template."""
    signals = pa.struct([*((t, pa.float64()) for t in templates), ("n_verdicts", pa.int32())])
    return pa.schema(
        [
            ("trustworthiness_score", pa.float64()),
            ("trustworthiness_explanation", pa.string()),
            ("per_field_scores", pa.list_(FIELD_SCORE)),
            ("untrustworthy_fields", pa.list_(pa.string())),
            ("signals", signals),
            ("route", pa.string()),
            ("review_reasons", pa.list_(pa.string())),
            ("review_probability", pa.float64()),
            ("verifier_model", pa.string()),
            ("template_set", pa.string()),
            ("policy_version", pa.string()),
            ("scored_at", pa.timestamp("us", tz="UTC")),
            ("usage", USAGE),
        ]
    )


@dataclass(frozen=True)
class OutputShape:
    """The columns of output rows.

    `id`, the input's others unchanged, then the score columns, their names behind `prefix`; for
    each of `flat_fields` two more, `score__<field>` and `explanation__<field>`.
    """

    input_schema: pa.Schema
    templates: tuple[str, ...]
    prefix: str = ""
    flat_fields: tuple[str, ...] = ()

    @property
    def carried(self) -> pa.Schema:
        """The input's columns but for the id."""
        return pa.schema([f for f in self.input_schema if f.name != "id"])

    @property
    def scored(self) -> pa.Schema:
        """What scoring adds, under the names that it has in the output."""
        flat = [
            (f"{kind}__{field}", type_)
            for field in self.flat_fields
            for kind, type_ in (("score", pa.float64()), ("explanation", pa.string()))
        ]
        columns = [*score_columns(self.templates), *pa.schema(flat)]
        return pa.schema([f.with_name(self.prefix + f.name) for f in columns])

    @property
    def schema(self) -> pa.Schema:
        """All columns of an output row."""
        return pa.schema([("id", pa.string()), *self.carried, *self.scored])


def scored_table(scored: Sequence[ScoredRecord], shape: OutputShape) -> pa.Table:
    """Output rows as a table."""
    carried = gather([s.record.row for s in scored], shape.carried)
    rows = [_score_values(s) | _flat_values(s, shape.flat_fields) for s in scored]
    arrays = [pa.array([s.record.id for s in scored], pa.string()), *carried.columns]
    for field in shape.scored:
        name = field.name[len(shape.prefix) :]
        arrays.append(pa.array([row[name] for row in rows], field.type))
    return pa.Table.from_arrays(arrays, schema=shape.schema)


def _flat_values(scored: ScoredRecord, fields: Sequence[str]) -> dict[str, Any]:
    if not fields:
        return {}
    by_name = {f.field: f for f in scored.scores.fields}
    found = {name: by_name.get(name) for name in fields}
    return {f"score__{n}": f.score if f else None for n, f in found.items()} | {
        f"explanation__{n}": f.explanation if f else None for n, f in found.items()
    }


def _score_values(scored: ScoredRecord) -> dict[str, Any]:
    scores, decision, usage = scored.scores, scored.decision, scored.usage
    return {
        "trustworthiness_score": scores.score,
        "trustworthiness_explanation": scores.explanation,
        "per_field_scores": [field_values(f) for f in scores.fields],
        "untrustworthy_fields": decision.untrustworthy_fields,
        "signals": {**scores.signals, "n_verdicts": scores.n_verdicts},
        "route": decision.route.value,
        "review_reasons": decision.reasons,
        "review_probability": decision.review_probability,
        "verifier_model": scored.verifier_model,
        "template_set": scored.template_set,
        "policy_version": scored.policy_version,
        "scored_at": scored.scored_at,
        "usage": {name: getattr(usage, name) for name in USAGE.names},
    }


def field_values(field: FieldScore) -> dict[str, Any]:
    """One entry of `per_field_scores`."""
    return {
        "field": field.field,
        "score": field.score,
        "explanation": field.explanation,
        "evidence": None if field.evidence is None else _evidence_values(field.evidence),
    }


def _evidence_values(evidence: Evidence) -> dict[str, Any]:
    return {
        "kind": evidence.kind.value,
        "message_index": evidence.message_index,
        "start": evidence.start,
        "end": evidence.end,
        "text": evidence.text,
        "similarity": evidence.similarity,
    }
