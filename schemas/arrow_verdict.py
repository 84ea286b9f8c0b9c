"""Verdicts as Arrow tables, and back: the verdict log."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from schemas.reasons import FailureReason
from schemas.verdict import CallUsage, Facts, Reading, ReplyKind, Verdict, VerdictStatus

_STRINGS = pa.list_(pa.string())
_FIELD = pa.struct([("field", pa.string()), ("score", pa.float64()), ("explanation", pa.string())])
_FACTS = pa.struct(
    [
        ("fields", _STRINGS),
        ("empty_fields", _STRINGS),
        ("schema_violations", _STRINGS),
        ("instruction_like_text", _STRINGS),
    ]
)
VERDICT_SCHEMA = pa.schema(
    [
        ("record_id", pa.string()),
        ("template", pa.string()),
        ("kind", pa.string()),
        ("asked_fields", _STRINGS),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("reply", pa.string()),
        ("document_score", pa.float64()),
        ("explanation", pa.string()),
        ("field_scores", pa.list_(_FIELD)),
        ("unmatched_names", _STRINGS),
        ("notes", _STRINGS),
        ("model_asked", pa.string()),
        ("model_answered", pa.string()),
        ("template_set", pa.string()),
        ("attempts", pa.int32()),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("latency_ms", pa.float64()),
        ("arrived_at", pa.timestamp("us", tz="UTC")),
        ("facts", _FACTS),
    ]
)


def verdict_table(verdicts: Sequence[Verdict]) -> pa.Table:
    """Verdicts as a table of VERDICT_SCHEMA."""
    rows = [_values(v) for v in verdicts]
    arrays = [pa.array([r[f.name] for r in rows], f.type) for f in VERDICT_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=VERDICT_SCHEMA)


def verdicts_of(table: pa.Table) -> Iterator[Verdict]:
    """The verdicts in a table that `verdict_table` made."""
    return map(_verdict, table.to_pylist())


def _values(verdict: Verdict) -> dict[str, Any]:
    reading, usage, facts = verdict.reading, verdict.usage, verdict.facts
    return {
        "record_id": verdict.record_id,
        "template": verdict.template,
        "kind": verdict.kind.value,
        "asked_fields": verdict.asked_fields,
        "status": verdict.status.value,
        "reason": verdict.reason.value if verdict.reason else None,
        "detail": verdict.detail,
        "reply": verdict.reply,
        "document_score": reading.document_score,
        "explanation": reading.explanation,
        "field_scores": [
            {"field": f, "score": score, "explanation": reading.field_explanations.get(f)}
            for f, score in reading.field_scores.items()
        ],
        "unmatched_names": reading.unmatched_names,
        "notes": reading.notes,
        "model_asked": verdict.model_asked,
        "model_answered": verdict.model_answered,
        "template_set": verdict.template_set,
        **{name: getattr(usage, name) for name in _USAGE_NAMES},
        "arrived_at": verdict.arrived_at,
        "facts": {name: getattr(facts, name) for name in _FACTS.names},
    }


_USAGE_NAMES = (
    "attempts",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cost_usd",
    "latency_ms",
)


def _verdict(row: dict[str, Any]) -> Verdict:
    fields = row["field_scores"]
    return Verdict(
        record_id=row["record_id"],
        template=row["template"],
        kind=ReplyKind(row["kind"]),
        asked_fields=tuple(row["asked_fields"]),
        status=VerdictStatus(row["status"]),
        facts=Facts(**{name: tuple(row["facts"][name]) for name in _FACTS.names}),
        reading=Reading(
            document_score=row["document_score"],
            explanation=row["explanation"],
            field_scores={f["field"]: f["score"] for f in fields},
            field_explanations={f["field"]: f["explanation"] for f in fields if f["explanation"]},
            unmatched_names=tuple(row["unmatched_names"]),
            notes=tuple(row["notes"]),
        ),
        reason=FailureReason(row["reason"]) if row["reason"] else None,
        detail=row["detail"],
        reply=row["reply"],
        model_asked=row["model_asked"],
        model_answered=row["model_answered"],
        template_set=row["template_set"],
        usage=CallUsage(**{name: row[name] for name in _USAGE_NAMES}),
        arrived_at=row["arrived_at"],
    )
