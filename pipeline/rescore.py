"""Scoring again from kept verdicts or replies: the same method, no call."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

import storage
from schemas.arrow_json import dump_json
from schemas.arrow_scored import field_values
from schemas.arrow_verdict import VERDICT_SCHEMA, verdicts_of
from schemas.errors import RecordError, UsageError
from schemas.parse_record import parse_record
from schemas.record import Record
from schemas.verdict import Reading, Verdict, VerdictStatus
from scoring.aggregate import ScoreScale
from scoring.facts import facts_of
from scoring.place import Unscorable, place
from scoring.reply import read_reply
from scoring.routing import RoutingRules
from scoring.templates import Template, TemplateSet

Group = tuple[str, Sequence[Verdict]]


def rescore_row(
    record_id: str, verdicts: Sequence[Verdict], rules: RoutingRules, scale: ScoreScale
) -> dict[str, Any]:
    """The output row of one record."""
    placed = place(record_id, verdicts[0].facts, verdicts, rules, scale)
    if isinstance(placed, Unscorable):
        return {
            "id": record_id,
            "trustworthiness_score": None,
            "per_field_scores": [],
            "trustworthiness_explanation": placed.message,
            "dead_letter_reason": placed.reason.value,
        }
    scores = placed.scores
    fields = [field_values(f) for f in scores.fields]
    return {
        "id": record_id,
        "trustworthiness_score": scores.score,
        "per_field_scores": [{k: f[k] for k in ("field", "score", "explanation")} for f in fields],
        "trustworthiness_explanation": scores.explanation,
        "untrustworthy_fields": placed.decision.untrustworthy_fields,
        "route": placed.decision.route.value,
        "review_reasons": placed.decision.reasons,
        "review_probability": placed.decision.review_probability,
    }


def grouped_verdicts(pattern: str) -> Iterator[Group]:
    """The verdicts of a log by record: each record as soon as its last verdict is read.

    Raises UsageError for files that are missing or no verdict log.
    """
    files = storage.expand(pattern)
    missing = Counter(_record_ids(pattern, files))
    open_groups: dict[str, list[Verdict]] = {}
    for batch in _batches(files):
        for verdict in verdicts_of(pa.Table.from_batches([batch])):
            open_groups.setdefault(verdict.record_id, []).append(verdict)
            missing[verdict.record_id] -= 1
            if not missing[verdict.record_id]:
                yield verdict.record_id, open_groups.pop(verdict.record_id)


def _record_ids(pattern: str, files: Sequence[str]) -> Iterator[str]:
    if not any(map(storage.exists, files)):
        raise UsageError(f"--verdicts {pattern}: no such file; name what score --verdicts wrote")
    for path in files:
        try:
            schema = pq.read_schema(path)
            lacking = sorted(set(VERDICT_SCHEMA.names) - set(schema.names))
            if lacking:
                raise UsageError(f"--verdicts {path} is no verdict log: it lacks {lacking[0]}")
            yield from pq.read_table(path, columns=["record_id"])["record_id"].to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"--verdicts {path} cannot be read as Parquet: {error}") from error


def _batches(files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for path in files:
        yield from pq.ParquetFile(path).iter_batches(1024)


def read_replies(path: str, templates: TemplateSet) -> Iterator[Group]:
    """The verdicts that the replies in a JSONL file give, line by line.

    Raises UsageError that names the line for one that is not as documented.
    """
    try:
        with storage.open_input(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _line(line, templates, f"--replies {path} line {number}")
    except OSError as error:
        raise UsageError(f"--replies {path} cannot be read: {error}") from error


def _line(line: bytes, templates: TemplateSet, where: str) -> Group:
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{where} is not JSON: {error}") from error
    if (
        not isinstance(data, dict)
        or "output" not in data
        or not isinstance(data.get("replies"), dict)
    ):
        raise UsageError(f'{where} must be {{"id"?, "output", "replies": {{template: text}}}}')
    replies = data["replies"]
    unknown = sorted(set(replies) - set(templates.names))
    if unknown:
        raise UsageError(f"{where}: {unknown[0]} is none of {', '.join(templates.names)}")
    record = _record(data, where)
    facts = facts_of(record)
    return record.id, [_verdict(record, facts, t, replies) for t in templates.templates]


def _record(data: Mapping[str, Any], where: str) -> Record:
    """The record of a line; replies were given already, so its request may be missing."""
    request = {key: data[key] for key in ("messages", "prompt", "document") if key in data}
    values = {**(request or {"document": ""}), "id": data.get("id"), "output": data["output"]}
    try:
        return parse_record(values | {"json_schema": data.get("json_schema")})
    except RecordError as error:
        raise UsageError(f"{where}: {error.message}") from error


def _verdict(record: Record, facts: Any, template: Template, replies: Mapping[str, Any]) -> Verdict:
    reply = replies.get(template.name)
    status, reading, reason, detail = VerdictStatus.SKIPPED, Reading(), None, "no reply"
    if reply is not None:
        text = reply if isinstance(reply, str) else dump_json(reply)
        try:
            status, reading, detail = VerdictStatus.OK, read_reply(template, facts.fields, text), ""
        except RecordError as error:
            status, reason, detail = VerdictStatus.FAILED, error.reason, error.message
    return Verdict(
        record_id=record.id,
        template=template.name,
        kind=template.reply,
        asked_fields=facts.fields,
        status=status,
        facts=facts,
        reading=reading,
        reason=reason,
        detail=detail or None,
        reply=reply if isinstance(reply, str) else None,
    )
