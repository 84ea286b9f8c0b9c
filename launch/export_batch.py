"""Write a corpus's verifier requests as a provider's batch files: half the price, within a day.

Nothing is sent. Upload OUTPUT/requests/*.jsonl to the provider's Batch API, one batch for each
file, and give the files with its results to construct-beam import-batch:

  construct-beam export-batch --input 'extracted/*.parquet' --output batch \\
      --verifier openai:gpt-4.1-mini
  construct-beam import-batch --batch batch --results 'results/*.jsonl' --output scored

Keep the output folder until then: it holds the records that the results are about. What cannot be
read goes to OUTPUT/dead_letter, and import-batch places it with the rest. Flags of Apache Beam
(--runner, ...) are passed on.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launch.flags import add_flags, flag_names, settings_from
from pipeline.batch.settings import ExportBatchFlags

if TYPE_CHECKING:
    from pipeline.batch.info import BatchInfo


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of an export."""
    add_flags(parser, ExportBatchFlags)


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Write the files and say what to do with them."""
    flags = settings_from(ExportBatchFlags, values)
    from launch.batch import run_pipeline
    from pipeline.batch.export import build_export, prepare_export
    from pipeline.batch.info import read_info

    run_pipeline(lambda: prepare_export(flags), build_export, unknown, flag_names(values.parser))
    sys.stdout.write(describe(read_info(flags.output), flags))
    return 0


def describe(info: "BatchInfo", flags: ExportBatchFlags) -> str:
    """What was written, for the console."""
    size = sum(shard.bytes for shard in info.shards) / 1e6
    lines = [
        f"{info.records + info.dead_letters} records from {flags.input}",
        f"  {info.records:>8}  with {info.requests} requests in {_files(len(info.shards))} "
        f"({size:.1f} MB) below {flags.output}/requests",
        f"  {info.dead_letters:>8}  dead letter",
    ]
    if info.shards:
        lines += [
            f"upload each file as a batch for {info.form.url}; then, with the files of results:",
            f"  construct-beam import-batch --batch {flags.output} "
            "--results 'RESULTS/*.jsonl' --output SCORED",
        ]
    return "\n".join(lines) + "\n"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
