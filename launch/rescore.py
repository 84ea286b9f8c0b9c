"""Scores and routes from replies that are kept, with no verifier call.

From a verdict log (score --verdicts PATH):
  construct-beam rescore --verdicts OUT/verdicts --policy policy.yaml --output scores.jsonl
From raw replies, one JSON object a line, {"id"?, "output", "replies": {template: text}}:
  construct-beam rescore --replies replies.jsonl

Writes a JSON line for each record: id, trustworthiness_score, per_field_scores,
trustworthiness_explanation, route, review_reasons; a record without any verdict has a
dead_letter_reason instead of a route.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Self

from pydantic import Field, model_validator

from launch.flags import add_flags, flag_names, refuse_unknown, settings_from
from pipeline.settings import RoutingFlags

if TYPE_CHECKING:
    from scoring.routing import RoutingRules


class RescoreFlags(RoutingFlags):
    """What to score again, and how."""

    verdicts: Annotated[
        str | None, Field(description="verdict log: a Parquet file, folder or glob")
    ] = None
    replies: Annotated[
        str | None, Field(description="JSONL file of outputs with the replies on them")
    ] = None
    templates: Annotated[
        str | None, Field(description="folder of templates, as for score (with --replies)")
    ] = None
    diff: Annotated[
        str | None,
        Field(
            description="another policy file, or default: write only the records that --policy "
            "routes otherwise, with both decisions"
        ),
    ] = None
    output: Annotated[str, Field(description="JSONL file to write; - is standard output")] = "-"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.verdicts is None) == (self.replies is None):
            raise ValueError("name either --verdicts or --replies")
        if self.verdicts is not None and self.templates is not None:
            raise ValueError("--templates goes with --replies: a verdict log is read already")
        return self


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of rescore."""
    add_flags(parser, RescoreFlags)


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Write a line for each record."""
    refuse_unknown(unknown, flag_names(values.parser))
    flags = settings_from(RescoreFlags, values)
    from schemas.arrow_json import dump_json

    rows = rescored(flags) if flags.diff is None else changed(flags)
    with _output(flags.output) as file:
        for row in rows:
            file.write(dump_json(row).encode("utf-8", "surrogatepass") + b"\n")
    return 0


def rescored(flags: RescoreFlags) -> Iterator[dict[str, Any]]:
    """The output rows, one for each record, in order of their source."""
    from pipeline.inputs import read_rules

    return (row for (row,) in _decided(flags, read_rules(flags)))


def _decided(flags: RescoreFlags, *rules: RoutingRules) -> Iterator[list[dict[str, Any]]]:
    """Each record's output row under each of `rules`; the source is read once."""
    from pipeline.inputs import read_templates
    from pipeline.rescore import grouped_verdicts, read_replies, rescore_row

    if flags.verdicts is not None:
        groups = grouped_verdicts(flags.verdicts)
    else:
        groups = read_replies(str(flags.replies), read_templates(flags.templates))
    for record_id, verdicts in groups:
        yield [rescore_row(record_id, verdicts, rule, flags.score_scale) for rule in rules]


def changed(flags: RescoreFlags) -> Iterator[dict[str, Any]]:
    """The rows whose decision differs under the policy of --diff; counts go to standard error."""
    from pipeline.inputs import read_rules

    policy = None if flags.diff == "default" else flags.diff
    other = read_rules(flags.model_copy(update={"policy": policy}))
    return _changes(_decided(flags, other, read_rules(flags)))


def _changes(decided: Iterator[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    moves: Counter[str] = Counter()
    total = 0
    for old, new in decided:
        total += 1
        before, after = _decision(old), _decision(new)
        if before != after:
            moves[f"{before['route']} -> {after['route']}"] += 1
            kept = {key: new[key] for key in ("id", "trustworthiness_score")}
            yield {**kept, "old": before, "new": after}
    sys.stderr.write(f"{moves.total()} of {total} records are decided otherwise\n")
    for move, count in moves.most_common():
        sys.stderr.write(f"  {count:>8}  {move}\n")


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    """The route and its reasons; a record without any verdict has neither."""
    return {key: row.get(key) for key in ("route", "review_reasons")}


@contextlib.contextmanager
def _output(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    with Path(path).open("wb") as file:
        yield file
