"""Scores and routes from the results of batches that export-batch wrote the requests of.

  construct-beam import-batch --batch batch --results 'results/*.jsonl' --output scored

Give it the provider's output files and its error files, in any order. Each record is placed as
score would have placed it for the same replies: OUTPUT/auto_accept, OUTPUT/human_review,
OUTPUT/dead_letter and OUTPUT/run.json. A request without a result counts as a time-out; with
--rest FOLDER such requests are written there for another upload instead, and nothing is placed:

  construct-beam import-batch --batch batch --results 'results/*.jsonl' --output scored --rest rest

Flags of Apache Beam (--runner, ...) are passed on.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import storage
from launch.flags import add_flags, flag_names, settings_from
from pipeline.batch.settings import ImportBatchFlags
from schemas.errors import RunStoppedError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of an import."""
    add_flags(parser, ImportBatchFlags)


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Place the records, or write the rest of the requests."""
    flags = settings_from(ImportBatchFlags, values)
    from launch.batch import run_pipeline
    from pipeline.batch.imports import build_import, prepare_import
    from pipeline.outputs import RUN_FILE

    ours = flag_names(values.parser)
    if flags.rest is not None:
        _write_rest(flags, unknown, ours)
    run_pipeline(lambda: prepare_import(flags), build_import, unknown, ours)
    summary = json.loads(storage.read_text(f"{flags.output}/{RUN_FILE}"))
    sys.stdout.write(describe(summary, flags))
    return 0


def _write_rest(flags: ImportBatchFlags, unknown: Sequence[str], ours: Sequence[str]) -> None:
    """Raise RunStoppedError that says where they are when there are requests to send again."""
    from launch.batch import run_pipeline
    from pipeline.batch.rest import REST_FILE, build_rest, prepare_rest

    run_pipeline(lambda: prepare_rest(flags), build_rest, unknown, ours)
    rest = json.loads(storage.read_text(f"{flags.rest}/{REST_FILE}"))
    if not rest["requests"]:
        return
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(rest["reasons"].items()))
    raise RunStoppedError(
        f"{rest['requests']} requests lack an answer ({reasons}); nothing was placed. They are in "
        f"{len(rest['files'])} files below {flags.rest}/requests: upload those, and import again "
        "with the files of both results. Without --rest the records are placed as they are."
    )


def describe(summary: Mapping[str, Any], flags: ImportBatchFlags) -> str:
    """The summary of an import for the console."""
    from launch.score import describe as describe_run
    from pipeline.settings import ScoreFlags

    export = summary["settings"]["export"]
    shown = ScoreFlags(
        input=str(export["input"]),
        output=flags.output,
        verifier=str(export["verifier"]),
        policy=flags.policy,
    )
    batch = summary["batch"]
    line = (
        f"{batch['results']} results, {batch['without_result']} requests without one; "
        f"{summary['verdicts']} verdicts, "
        f"{summary['prompt_tokens']} + {summary['completion_tokens']} tokens"
    )
    if summary["cost_usd"] is not None:
        line += f", ${summary['cost_usd']:.2f} with the batch discount"
    return f"{line}\n{describe_run(dict(summary), shown)}"
