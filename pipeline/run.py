"""A batch run from settings to graph: what is read at submission, and how it is wired."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from pipeline.cache import with_cache
from pipeline.inputs import read_rules, read_source, read_templates
from pipeline.keys import check_key
from pipeline.outputs import check_output, flat_fields, settings_of, summarise, write_placed
from pipeline.prices import read_prices
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
from verifier.endpoint import EMBEDDED
from verifier.prices import Prices
from verifier.providers import provider_of
from verifier.settings import VerifierSettings


@dataclass(frozen=True)
class Run:
    """A run's settings with the contents of all files that they name."""

    flags: ScoreFlags
    plan: InputPlan
    templates: TemplateSet
    rules: RoutingRules
    verifier: VerifierSettings
    shape: OutputShape

    def settings(self) -> dict[str, Any]:
        """What run.json says of the settings; they hold no secret."""
        version = template_set_version(self.templates, self.flags.prompt_layout)
        return settings_of(self.flags, version, self.templates, self.rules)


def prepare_run(flags: ScoreFlags, *, local: bool = True, dataflow: bool = False) -> Run:
    """Read what the settings name, and check it. `local`: all workers are on this machine.

    Raises UsageError with the remedy.
    """
    flags = with_cache(flags, flags.output, local=local)
    check_shares(flags, local=local)
    prices = read_prices(flags.prices)
    verifier = flags.verifier_settings(prices)
    endpoint = verifier.endpoint
    check_budget(flags, prices, endpoint.model)
    check_key(endpoint.key, local=local, dataflow=dataflow, in_image=flags.key_in_image)
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
    return Run(flags, plan, templates, rules, verifier, shape)


def check_shares(flags: VerifierFlags, *, local: bool) -> None:
    """Refuse figures for all processes that nobody can divide among them. Raises UsageError."""
    of_all = ("requests_per_minute", "tokens_per_minute", "max_calls", "max_cost_usd")
    given = [f"--{name}" for name in of_all if getattr(flags, name) is not None]
    if given and not local and flags.verifier_processes is None:
        raise UsageError(
            f"{' and '.join(given)} hold{'s' if len(given) == 1 else ''} over all processes: say "
            "with --verifier_processes how many there can be (most workers times SDK processes on "
            "each)"
        )


def check_budget(flags: VerifierFlags, prices: Prices, model: str) -> None:
    """Refuse a budget in dollars where nobody knows the price. Raises UsageError."""
    if flags.max_cost_usd is None or flags.verifier == EMBEDDED:
        return
    if prices.find(provider_of(flags.verifier), model) is None:
        raise UsageError(
            f"--max_cost_usd: no price is known for {model}; name one with --prices FILE "
            "(docs/prices.md), or limit the run with --max_calls"
        )


def build(pipeline: beam.Pipeline, run: Run) -> dict[str, beam.PCollection]:
    """Wire the whole run into `pipeline`. Returns the placed PCollections by name."""
    flags = run.flags
    read = (
        pipeline
        | "Files" >> beam.Create(run.plan.files, reshuffle=False)
        | "Read" >> ReadRecords(run.plan.source)
    )
    placed = read["records"] | "VerifyScoreRoute" >> VerifyScoreRoute(
        run.verifier, run.templates, run.rules, flags.score_scale
    )
    dead = (read[DEAD_LETTERS], placed[DEAD_LETTERS]) | "AllDeadLetters" >> beam.Flatten()
    outputs = {**{route.value: placed[route.value] for route in Route}, DEAD_LETTERS: dead}
    written = write_placed(outputs, placed["verified"], run.shape, flags)
    summarise(outputs, written, flags.output, run.settings())
    return outputs
