"""An evaluation for the console: what a person wants to know first."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.figures import COVERAGES

MOST_ROWS = 15
_ROWS = (
    ("AUROC", "auroc"),
    ("precision at the number of errors", "precision_at_errors"),
    ("confidence gap", "confidence_gap"),
    ("error rate", "error_rate"),
    *((f"error rate at {share:.0%} coverage", f"residual_error_{round(100 * share)}")
      for share in COVERAGES),
)  # fmt: skip


def describe(result: Mapping[str, Any]) -> str:
    """The figures of documents and fields, the fields with most errors, and the templates."""
    lines = [
        *_heading(result),
        "",
        *_figures(result),
        "",
        *_accepted(result["accepted"]),
        *_fields(result["groups"]["fields"]["field"]),
        *_templates(result["templates"]),
    ]
    return "\n".join(lines) + "\n"


def _heading(result: Mapping[str, Any]) -> Iterator[str]:
    documents, fields = result["documents"], result["fields"]
    yield (
        f"{documents['items']} documents, {documents['errors']} of them incorrect; "
        f"{fields['items']} fields, {fields['errors']} incorrect"
    )
    if result["without_truth"]:
        yield f"{result['without_truth']} records are left out: it is not known what is right"
    unscored = fields["unscored"]
    if unscored or documents["unscored"]:
        yield f"without a score: {documents['unscored']} documents, {unscored} fields"


def _figures(result: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'':<36}{'documents':<24}fields"
    for title, name in _ROWS:
        documents, fields = (_interval(result[part][name]) for part in ("documents", "fields"))
        yield f"{title:<36}{documents:<24}{fields}"
    errors = [_number(result[part]["calibration_error"]) for part in ("documents", "fields")]
    yield f"{'calibration error':<36}{errors[0]:<24}{errors[1]}"
    replicates = result["replicates"]
    if replicates:
        yield f"(in brackets: 95 % intervals, {replicates} bootstrap replicates of documents)"
    if not result["documents"]["errors"]:
        yield "No document is incorrect: nothing tells whether scores find errors."


def _interval(figure: Mapping[str, float | None]) -> str:
    value, low, high = figure["value"], figure["low"], figure["high"]
    if low is None or high is None:
        return _number(value)
    return f"{_number(value)} ({_number(low)}-{_number(high)})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _accepted(accepted: Mapping[str, Any]) -> Iterator[str]:
    if not accepted["documents"]:
        yield "The run accepted none of them."
        return
    yield (
        f"The run accepted {accepted['documents']} of them ({accepted['share']:.0%}): "
        f"{accepted['incorrect_documents']} are incorrect ({accepted['error_rate']:.1%}), with "
        f"{accepted['incorrect_fields']} incorrect fields"
    )


def _fields(groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    wrong = [group for group in groups if group["errors"]]
    if not wrong:
        return
    yield ""
    yield f"{'fields with errors':<36}{'errors':>8}{'of':>8}{'AUROC':>8}"
    for group in wrong[:MOST_ROWS]:
        yield (
            f"{_short(group['group']):<36}{group['errors']:>8}{group['items']:>8}"
            f"{_number(group['auroc']):>8}"
        )
    if len(wrong) > MOST_ROWS:
        yield f"and {len(wrong) - MOST_ROWS} more (--json)"


def _templates(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield f"{'templates':<36}{'AUROC of documents':>20}{'of fields':>12}"
    for row in rows:
        auroc = [_number(row[part]["auroc"]) for part in ("documents", "fields")]
        yield f"{row['templates']:<36}{auroc[0]:>20}{auroc[1]:>12}"


def _short(text: str) -> str:
    return text if len(text) <= 34 else f"{text[:33]}…"
