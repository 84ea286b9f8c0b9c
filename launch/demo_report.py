"""What the demo prints: what was caught, what was missed, one record in full."""

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from launch.amounts import usd
from launch.score import LITERAL_HEADING
from pipeline.settings import ScoreFlags
from schemas.reasons import Route

if TYPE_CHECKING:
    from pipeline.estimate import Estimate

Row = Mapping[str, Any]
WIDTH = 96
SHORT_DOCUMENT = 900
BLIND_TO = {
    "swapped_fields": "blind: both values do stand in the document",
    "wrong_span": "blind: the wrong span stands in the document too",
}


def report(
    summary: Mapping[str, Any],
    rows: Sequence[Row],
    flags: ScoreFlags,
    with_llm: "Estimate",
    *,
    color: bool,
) -> str:
    """The demo's whole text. `rows` are scored records with the corpus's `planted` column,
    `with_llm` is what the same would cost with an LLM."""
    sections = [
        _heading(summary),
        _caught(rows),
        _accepted(rows),
        _one_record(rows, color),
        _real_llm(with_llm, flags),
        f"The results: {flags.output}/ (auto_accept, human_review, dead_letter, verdicts)",
    ]
    return "\n\n".join(s for s in sections if s) + "\n"


def _heading(summary: Mapping[str, Any]) -> str:
    placed = summary["placed"]
    return (
        f"{LITERAL_HEADING}\n{'=' * len(LITERAL_HEADING)}\n"
        f"{summary['records']} records: {placed['auto_accept']} auto-accepted, "
        f"{placed['human_review']} for human review, {placed['dead_letter']} dead letters; "
        f"{summary['calls']} verifier calls; thresholds: uncalibrated defaults"
    )


def _planted(row: Row) -> list[dict[str, str]]:
    return list(row.get("planted") or [])


def _accepted_rows(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["route"] == Route.AUTO_ACCEPT.value]


def _caught(rows: Sequence[Row]) -> str:
    """Planted mistakes by kind: how many fields were flagged, how many records held back."""
    planted, flagged, reviewed = Counter[str](), Counter[str](), Counter[str]()
    for row in rows:
        for mistake in _planted(row):
            kind = mistake["kind"]
            planted[kind] += 1
            flagged[kind] += mistake["field"] in row["untrustworthy_fields"]
            reviewed[kind] += row["route"] == Route.HUMAN_REVIEW.value
    lines = [f"{'Planted mistakes':<20}{'planted':>9}{'field flagged':>15}{'record held back':>18}"]
    for kind in sorted(planted, key=lambda k: (k in BLIND_TO, k)):
        counts = f"{planted[kind]:>9}{flagged[kind]:>15}{reviewed[kind]:>18}"
        lines.append(f"{kind:<20}{counts}  {BLIND_TO.get(kind, '')}".rstrip())
    totals = f"{planted.total():>9}{flagged.total():>15}{reviewed.total():>18}"
    lines.append(f"{'all':<20}{totals}")
    return "\n".join([*lines, _false_alarms(rows)])


def _false_alarms(rows: Sequence[Row]) -> str:
    sound = [row for row in rows if not _planted(row)]
    held = [row for row in sound if row["route"] == Route.HUMAN_REVIEW.value]
    families = Counter(str(row["family"]) for row in held)
    detail = ", ".join(f"{n} {family}" for family, n in families.most_common())
    return (
        f"False alarms: {len(held)} of {len(sound)} records without a mistake were held back"
        f" ({detail}).\nValues that were derived (counts, means) or rewritten stand in no document"
        " literally."
    )


def _accepted(rows: Sequence[Row]) -> str:
    accepted = _accepted_rows(rows)
    wrong = [row for row in accepted if _planted(row)]
    kinds = Counter(mistake["kind"] for row in wrong for mistake in _planted(row))
    text = f"Of {len(accepted)} accepted records {len(wrong)} hold a planted mistake"
    if kinds:
        text += ": " + ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
    return f"{text}.\nAn LLM as verifier reads the document and can see those; this one cannot."


def _one_record(rows: Sequence[Row], color: bool) -> str:
    """A short record with a mistake that was caught, with values, scores and evidence."""
    caught = [
        row
        for row in rows
        if any(m["field"] in row["untrustworthy_fields"] for m in _planted(row))
        and len(str(row.get("document"))) <= SHORT_DOCUMENT
    ]
    if not caught:
        return ""
    row = caught[0]
    fields = sorted(
        row["per_field_scores"], key=lambda f: -1.0 if f["score"] is None else f["score"]
    )
    spans = [f["evidence"] for f in fields if f["evidence"] and f["evidence"]["text"]]
    output = json.loads(row["output"])
    planted = {m["field"]: m["kind"] for m in _planted(row)}
    lines = [
        f"One record in full: {row['id']}, trustworthiness {row['trustworthiness_score']:.2f}, "
        f"{row['route'].replace('_', ' ')} ({', '.join(row['review_reasons'])})",
        "",
        textwrap.indent(_mark(str(row["document"]), spans, color), "  | "),
        "",
        "  field scores, lowest first ([…] in the text marks the evidence found):",
    ]
    for field in fields:
        note = f"   <- planted: {planted[field['field']]}" if field["field"] in planted else ""
        value = json.dumps(output[field["field"]], ensure_ascii=False)
        lines.append(f"  {field['score']:.2f}  {field['field']} = {value}{note}")
        lines.append(textwrap.indent(_wrap(field["explanation"] or ""), " " * 8))
    return "\n".join(lines)


def _wrap(text: str) -> str:
    return textwrap.fill(text, WIDTH - 8)


def _mark(document: str, spans: Sequence[Mapping[str, Any]], color: bool) -> str:
    """`document` with the evidence in brackets, in bold on a terminal; overlaps are joined."""
    opening, closing = ("\033[1m[", "]\033[0m") if color else ("[", "]")
    marked, position = "", 0
    for start, end in sorted((s["start"], s["end"]) for s in spans):
        if start < position:
            continue
        marked += f"{document[position:start]}{opening}{document[start:end]}{closing}"
        position = end
    lines = (marked + document[position:]).splitlines()
    return "\n".join(textwrap.fill(line, WIDTH - 4) for line in lines)


def _real_llm(estimate: "Estimate", flags: ScoreFlags) -> str:
    records, cost = max(1.0, estimate.records), estimate.cost_usd
    dollars = "" if cost is None else f", {usd(cost)}, {usd(cost / records)} a record"
    return (
        "The same with an LLM:\n"
        "  export OPENAI_API_KEY=...\n"
        f"  construct-beam score --input {flags.input} --output scored "
        f"--verifier openai:{estimate.model}\n"
        f"That is {estimate.calls:,.0f} calls, about {estimate.prompt_tokens:,.0f} + "
        f"{estimate.completion_tokens:,.0f} tokens{dollars}\n"
        "(an estimate; score --estimate prints it for your records, run.json says what it came to)."
    )
