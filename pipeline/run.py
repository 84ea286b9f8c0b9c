"""A batch run from settings to graph: what is read at submission, and how it is wired."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter

import storage
from pipeline.counts import Counts, count_placed
from pipeline.inputs import read_rules, read_schema, read_templates
from pipeline.settings import ScoreFlags
from schemas.errors import UsageError
from schemas.json_schema import JsonSchema
from schemas.reasons import Route
from scoring.prompt import template_set_version
from scoring.routing import RoutingRules
from scoring.templates import TemplateSet
from transforms.composite import VerifyScoreRoute
from transforms.plan import ParquetPlan, plan_parquet
from transforms.read import DEAD_LETTERS, ReadRecords
from transforms.write import WriteDeadLetters, WriteScored, WriteVerdicts
from verifier.endpoint import parse_endpoint

RUN_FILE = "run.json"
PARTS = (Route.AUTO_ACCEPT.value, Route.HUMAN_REVIEW.value, "dead_letter")


@dataclass(frozen=True)
class Run:
    """A run's settings with the contents of all files that they name."""

    flags: ScoreFlags
    plan: ParquetPlan
    templates: TemplateSet
    rules: RoutingRules
    schema: JsonSchema | None

    def settings(self) -> dict[str, Any]:
        """What run.json says of the settings; they hold no secret."""
        return {
            **self.flags.model_dump(mode="json", by_alias=True),
            "template_set": template_set_version(self.templates),
            "templates_used": list(self.templates.names),
            "policy_version": self.rules.policy.version,
            "policy_rules": self.rules.policy.model_dump(
                mode="json", exclude={"review": {"audit_salt"}}
            ),
        }


def prepare_run(flags: ScoreFlags) -> Run:
    """Read what the settings name, and check it. Raises UsageError with the remedy."""
    endpoint = parse_endpoint(flags.verifier, flags.api_key_env)
    endpoint.headers()
    check_output(flags)
    return Run(
        flags,
        plan_parquet(flags.input),
        read_templates(flags.templates),
        read_rules(flags),
        read_schema(flags.schema_file),
    )


def check_output(flags: ScoreFlags) -> None:
    """Refuse a folder with a finished run or with files that are not ours.

    What a killed run left, and with --overwrite a finished one, is removed.
    """
    folder = flags.output
    if storage.exists(f"{folder}/{RUN_FILE}") and not flags.overwrite:
        raise UsageError(
            f"--output {folder} holds a finished run; name another folder, or add --overwrite"
        )
    storage.remove_files(f"{folder}/{RUN_FILE}")
    for part in PARTS:
        storage.remove_files(f"{folder}/{part}/part-*")
    if flags.verdicts:
        storage.remove_files(f"{flags.verdicts}/part-*")


def build(pipeline: beam.Pipeline, run: Run) -> dict[str, beam.PCollection]:
    """Wire the whole run into `pipeline`. Returns the placed PCollections by name."""
    flags, names = run.flags, run.templates.names
    read = (
        pipeline
        | "Files" >> beam.Create(run.plan.files, reshuffle=False)
        | "Read" >> ReadRecords(run.schema)
    )
    placed = read["records"] | "VerifyScoreRoute" >> VerifyScoreRoute(
        flags.verifier_settings(), run.templates, run.rules, flags.score_scale
    )
    dead = (read[DEAD_LETTERS], placed[DEAD_LETTERS]) | "AllDeadLetters" >> beam.Flatten()
    written = [
        placed[route.value]
        | f"Write/{route.value}"
        >> WriteScored(f"{flags.output}/{route.value}", run.plan.schema, names)
        for route in Route
    ]
    written.append(dead | "Write/dead_letter" >> WriteDeadLetters(f"{flags.output}/dead_letter"))
    if flags.verdicts:
        written.append(placed["verified"] | "Write/verdicts" >> WriteVerdicts(flags.verdicts))
    outputs = {**{route.value: placed[route.value] for route in Route}, DEAD_LETTERS: dead}
    _summarise(outputs, written, run)
    return outputs


def _summarise(
    placed: Mapping[str, beam.PCollection], written: Sequence[beam.PCollection], run: Run
) -> None:
    """Count what was placed, and write run.json once every sink is done."""
    _ = count_placed(placed) | "WriteRunFile" >> beam.Map(
        _write_summary,
        f"{run.flags.output}/{RUN_FILE}",
        run.settings(),
        *(AsIter(names) for names in written),
    )


def _write_summary(
    counts: Counts, path: str, settings: dict[str, Any], *_written: Iterable[str]
) -> None:
    """The sinks' file names are side inputs only so that this runs after all sinks."""
    summary = {**counts.summary(), "settings": settings}
    storage.write_text(path, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
