"""A batch run from settings to graph: what is read at submission, and how it is wired."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter

import storage
from pipeline.cache import with_cache
from pipeline.counts import Counts, count_placed
from pipeline.inputs import flat_fields, read_rules, read_source, read_templates
from pipeline.settings import ScoreFlags, VerifierFlags
from schemas.arrow_scored import OutputShape
from schemas.errors import UsageError
from schemas.reasons import Route
from schemas.source import InputPlan
from scoring.prompt import template_set_version
from scoring.routing import RoutingRules
from scoring.templates import TemplateSet
from transforms.composite import VerifyScoreRoute
from transforms.plan import check_clashes, plan_input
from transforms.read import DEAD_LETTERS, ReadRecords
from transforms.write import WriteDeadLetters, WriteScored, WriteVerdicts
from verifier.endpoint import parse_endpoint

RUN_FILE = "run.json"
PARTS = (Route.AUTO_ACCEPT.value, Route.HUMAN_REVIEW.value, "dead_letter")


@dataclass(frozen=True)
class Run:
    """A run's settings with the contents of all files that they name."""

    flags: ScoreFlags
    plan: InputPlan
    templates: TemplateSet
    rules: RoutingRules
    shape: OutputShape

    def settings(self) -> dict[str, Any]:
        """What run.json says of the settings; they hold no secret."""
        return {
            **self.flags.model_dump(mode="json", by_alias=True),
            "template_set": template_set_version(self.templates, self.flags.prompt_layout),
            "templates_used": list(self.templates.names),
            "policy_version": self.rules.policy.version,
            "policy_rules": self.rules.policy.model_dump(
                mode="json", exclude={"review": {"audit_salt"}}
            ),
        }


def prepare_run(flags: ScoreFlags, *, local: bool = True) -> Run:
    """Read what the settings name, and check it. `local`: all workers are on this machine.

    Raises UsageError with the remedy.
    """
    flags = with_cache(flags, flags.output, local=local)
    check_rates(flags, local=local)
    flags.verifier_settings()
    endpoint = parse_endpoint(flags.verifier, flags.api_key_env)
    endpoint.headers()
    templates, source = read_templates(flags.templates), read_source(flags)
    plan = plan_input(flags.input, source, flags.input_format)
    shape = OutputShape(
        plan.source.schema,
        templates.names,
        flags.output_prefix,
        flat_fields(flags, source.default_schema),
    )
    check_clashes(plan.source.schema, shape.scored.names)
    rules = read_rules(flags)
    check_output(flags)
    return Run(flags, plan, templates, rules, shape)


def check_rates(flags: VerifierFlags, *, local: bool) -> None:
    """Refuse figures per minute that nobody can divide among processes. Raises UsageError."""
    rates = (flags.requests_per_minute, flags.tokens_per_minute)
    if not local and any(rates) and flags.verifier_processes is None:
        raise UsageError(
            "--requests_per_minute and --tokens_per_minute hold over all processes: say with "
            "--verifier_processes how many there can be (most workers times SDK processes on each)"
        )


def check_output(flags: ScoreFlags) -> None:
    """Refuse a folder with a finished run; what a killed run left in it is removed.

    With --overwrite a finished run is removed, too. Raises UsageError.
    """
    folder = flags.output
    try:
        storage.make_folder(folder)
        if storage.exists(f"{folder}/{RUN_FILE}") and not flags.overwrite:
            raise UsageError(
                f"--output {folder} holds a finished run; name another folder, or add --overwrite"
            )
        storage.remove_files(f"{folder}/{RUN_FILE}")
        parts = [f"{folder}/{part}" for part in PARTS]
        for part in [*parts, *([flags.verdicts] if flags.verdicts else [])]:
            storage.remove_files(f"{part}/part-*")
    except OSError as error:
        raise UsageError(f"--output {folder} cannot be used: {error}") from error


def build(pipeline: beam.Pipeline, run: Run) -> dict[str, beam.PCollection]:
    """Wire the whole run into `pipeline`. Returns the placed PCollections by name."""
    flags = run.flags
    read = (
        pipeline
        | "Files" >> beam.Create(run.plan.files, reshuffle=False)
        | "Read" >> ReadRecords(run.plan.source)
    )
    placed = read["records"] | "VerifyScoreRoute" >> VerifyScoreRoute(
        flags.verifier_settings(), run.templates, run.rules, flags.score_scale
    )
    dead = (read[DEAD_LETTERS], placed[DEAD_LETTERS]) | "AllDeadLetters" >> beam.Flatten()
    written = [
        placed[route.value]
        | f"Write/{route.value}" >> WriteScored(f"{flags.output}/{route.value}", run.shape)
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
