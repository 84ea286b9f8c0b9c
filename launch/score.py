"""Score a corpus.

Reads extracted records from Parquet, asks a verifier five questions about each, and writes
scored records to OUTPUT/auto_accept and OUTPUT/human_review, what could not be scored to
OUTPUT/dead_letter, and counts to OUTPUT/run.json.

Flags of Apache Beam (--runner, ...) are passed on. Without --runner the pipeline runs in this
process.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import storage
from launch.amounts import usd
from launch.estimate import run as run_estimate
from launch.flags import add_flags, flag_names, settings_from
from pipeline.settings import ScoreFlags
from schemas.errors import UsageError
from verifier.endpoint import EMBEDDED, EXAMPLES

LITERAL_HEADING = "Literal evidence, no LLM: blind to swapped fields and wrong spans"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of a batch run."""
    add_flags(parser, ScoreFlags)


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Run the pipeline and print the summary."""
    if "verifier" not in values:
        raise UsageError(f"--verifier is needed: {EXAMPLES} ({EMBEDDED} needs no LLM)")
    if "estimate" in values:
        return run_estimate(values, unknown)
    flags = settings_from(ScoreFlags, values)
    summary = score(flags, unknown, flag_names(values.parser))
    if summary is not None:
        sys.stdout.write(describe(summary, flags))
    return 0


def score(
    flags: ScoreFlags, beam_arguments: Sequence[str] = (), ours: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Run the pipeline and wait. Returns what run.json says, None where it is not readable here.

    Raises UsageError, and RunStoppedError when the run failed.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import StandardOptions

    from launch.beam_flags import IN_PROCESS, LOCAL, beam_options, is_dataflow, local_processes
    from launch.local import log_to_stderr, run_to_end, run_watched
    from pipeline.outputs import RUN_FILE
    from pipeline.run import build, prepare_run

    log_to_stderr()
    options = beam_options(beam_arguments, ours)
    runner = options.view_as(StandardOptions).runner
    if runner in LOCAL and flags.verifier_processes is None:
        flags = flags.model_copy(update={"verifier_processes": local_processes(options)})
    prepared = prepare_run(flags, local=runner in LOCAL, dataflow=is_dataflow(runner))

    def work() -> None:
        pipeline = beam.Pipeline(options=options)
        build(pipeline, prepared)
        run_to_end(pipeline)

    if runner in IN_PROCESS:
        run_watched(work, prepared.plan.rows)
    else:
        work()
    path = f"{flags.output}/{RUN_FILE}"
    return dict(json.loads(storage.read_text(path))) if storage.exists(path) else None


def describe(summary: dict[str, Any], flags: ScoreFlags) -> str:
    """The summary of a run for the console."""
    lines = [LITERAL_HEADING, ""] if flags.verifier == EMBEDDED else []
    placed = summary["placed"]
    lines.append(f"{summary['records']} records from {flags.input}")
    lines += [f"  {count:>8}  {name.replace('_', ' ')}" for name, count in placed.items()]
    lines += _reasons("why human review", summary["review_reasons"])
    lines += _reasons("why dead letter", summary["dead_letter_reasons"])
    kept = summary["verdicts_from_cache"]
    if kept:
        lines.append(f"{kept} verdicts from the cache, {flags.cache or flags.output + '.cache'}")
    latency = summary["latency_ms"]
    if latency["p50"] is not None:
        lines.append(
            f"{summary['calls']} calls, {summary['verdicts']} verdicts, "
            f"{summary['prompt_tokens']} + {summary['completion_tokens']} tokens, "
            f"latency p50 {latency['p50']:.0f} ms, p99 {latency['p99']:.0f} ms"
        )
    if summary["cost_usd"] is not None:
        lines.append(f"cost {usd(summary['cost_usd'])}{_uncounted(summary)}")
    lines.append(
        "thresholds: uncalibrated defaults"
        if flags.policy is None
        else f"thresholds: {flags.policy}, uncalibrated"
    )
    lines.append(f"results: {flags.output}")
    return "\n".join(lines) + "\n"


def _uncounted(summary: dict[str, Any]) -> str:
    """What the cost leaves out."""
    records = summary["records_of_unknown_cost"]
    return f", without {records} records of unknown cost" if records else ""


def _reasons(title: str, counts: dict[str, int]) -> list[str]:
    if not counts:
        return []
    return [
        f"{title} (a record can have several reasons):" if "review" in title else f"{title}:"
    ] + [f"  {count:>8}  {reason}" for reason, count in counts.items()]
