"""Score the example corpus without an LLM, and show what that caught and what it missed.

The corpus holds mistakes that were planted on purpose and are marked in its column `planted`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from launch.demo_report import report
from launch.flags import add_flags, flag_names, refuse_unknown, settings_from
from launch.score import score
from pipeline.settings import EstimateFlags, ScoreFlags
from schemas.errors import UsageError
from verifier.endpoint import EMBEDDED

CORPUS = Path(__file__).resolve().parent.parent / "examples" / "corpus.parquet"
LLM = "openai:gpt-4.1-mini"


class DemoFlags(BaseModel):
    """Where the demo reads and writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    output: Annotated[str, Field(description="folder for the results")] = "demo_output"
    corpus: Annotated[str, Field(description="the example corpus")] = str(CORPUS)
    overwrite: Annotated[bool, Field(description="replace the results of an earlier demo")] = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the demo."""
    add_flags(parser, DemoFlags)


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Score the corpus with the embedded verifier and print the report."""
    refuse_unknown(unknown, flag_names(values.parser))
    from pipeline.estimate import estimate_run

    demo = settings_from(DemoFlags, values)
    if not Path(demo.corpus).exists():
        raise UsageError(
            f"--corpus {demo.corpus}: no such file; the example corpus is in examples/ of the "
            "project's checkout"
        )
    flags = ScoreFlags(
        input=demo.corpus,
        output=demo.output,
        verifier=EMBEDDED,
        verdicts=f"{demo.output}/verdicts",
        accept_literal_evidence=True,
        overwrite=demo.overwrite,
    )
    summary = score(flags) or {}
    with_llm = estimate_run(EstimateFlags(input=demo.corpus, verifier=LLM))
    rows = _rows(demo.output)
    sys.stdout.write(report(summary, rows, flags, with_llm, color=sys.stdout.isatty()))
    return 0


def _rows(folder: str) -> list[dict[str, Any]]:
    """The scored records of both routes, in order of id."""
    import pyarrow.parquet as pq

    from schemas.reasons import Route

    tables = [
        pq.read_table(path).to_pylist()
        for route in Route
        for path in sorted(Path(folder, route.value).glob("*.parquet"))
    ]
    return sorted((row for table in tables for row in table), key=lambda row: str(row["id"]))
