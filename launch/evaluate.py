"""How good the scores of a run are, given what is right.

  construct-beam evaluate scored                       # ground_truth is a column of the run
  construct-beam evaluate scored --ground_truth gold.parquet --compare total=number:1%,issued=date
  construct-beam evaluate scored --labels labels.parquet --verdicts scored/verdicts --json eval.json

SCORED is the output folder of score, or a glob of scored Parquet files. A field is right when its
value agrees with the gold value by its rule (--compare), a document when all of its fields are.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evaluation.items import MissingGold
from launch.flags import add_flags, flag_names, refuse_unknown, settings_from
from scoring.aggregate import ScoreScale


class EvaluateFlags(BaseModel):
    """What is evaluated, and against what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scored: Annotated[
        str, Field(description="output folder of score, or a glob of scored Parquet files")
    ]
    ground_truth: Annotated[
        str | None,
        Field(
            description="Parquet file with columns id and ground_truth, in place of the run's "
            "own column ground_truth"
        ),
    ] = None
    labels: Annotated[
        str | None,
        Field(
            description="label file (Parquet, JSONL or CSV) with id, field, correct and weight, in "
            "place of gold values"
        ),
    ] = None
    compare: Annotated[
        str | None,
        Field(
            description="rules by field, like total=number:1%,issued=date,default=text: auto, "
            "exact, text (case and blanks do not count), number (with a tolerance), date, set, "
            "nested"
        ),
    ] = None
    missing_gold: Annotated[
        MissingGold,
        Field(
            description="a field without a gold value: exclude it, or take it for one that should "
            "be null"
        ),
    ] = MissingGold.EXCLUDE
    verdicts: Annotated[
        str | None,
        Field(description="verdict log of the run (score --verdicts): what each template adds"),
    ] = None
    score_scale: Annotated[ScoreScale, Field(description="as it was for score")] = (
        ScoreScale.RESCALED
    )
    output_prefix: Annotated[str, Field(description="as it was for score")] = ""
    replicates: Annotated[
        int, Field(ge=0, description="bootstrap replicates for the 95 % intervals")
    ] = 1000
    seed: Annotated[int, Field(ge=0, description="of the bootstrap")] = 0
    json_: Annotated[
        str | None, Field(alias="json", description="file for all figures as JSON")
    ] = None

    @model_validator(mode="after")
    def _one_truth(self) -> Self:
        if self.labels is not None and (self.ground_truth or self.compare):
            raise ValueError("labels say what is right: without ground_truth and compare")
        return self


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of an evaluation."""
    add_flags(parser, EvaluateFlags, positional=("scored",))


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Evaluate, and print the figures."""
    refuse_unknown(unknown, flag_names(values.parser))
    flags = settings_from(EvaluateFlags, values)
    import storage
    from launch.evaluation_report import describe

    result = evaluated(flags)
    sys.stdout.write(describe(result))
    if flags.json_ is not None:
        text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)
        storage.write_text(flags.json_, text + "\n")
        sys.stdout.write(f"\nall figures: {flags.json_}\n")
    return 0


def evaluated(flags: EvaluateFlags) -> dict[str, Any]:
    """The evaluation that the flags describe. Raises UsageError."""
    from evaluation.evaluate import evaluate
    from evaluation.items import read_documents, read_rows, scored_files
    from pipeline.rescore import grouped_verdicts
    from schemas.errors import UsageError

    truth, weights = _truth(flags)
    rows = _with_gold(read_rows(scored_files(flags.scored), flags.output_prefix), flags)
    documents = list(read_documents(rows, truth, weights))
    if not any(document.fields for document in documents):
        raise UsageError(
            f"{flags.scored}: of none of {len(documents)} records it is known what is right; name "
            "gold values with --ground_truth FILE or labels with --labels FILE"
        )
    return evaluate(
        documents,
        grouped_verdicts(flags.verdicts) if flags.verdicts else (),
        scale=flags.score_scale,
        replicates=flags.replicates,
        seed=flags.seed,
    )


def _truth(flags: EvaluateFlags) -> tuple[Any, Mapping[str, float]]:
    """What is right, and for how many records each labelled one stands."""
    from evaluation.agreement import parse_comparisons
    from evaluation.items import truth_by_gold, truth_by_labels
    from evaluation.labels import read_labels

    if flags.labels is None:
        return truth_by_gold(parse_comparisons(flags.compare), flags.missing_gold), {}
    labels = read_labels(flags.labels)
    marks = {(label.id, label.field): label.correct for label in labels}
    return truth_by_labels(marks), {label.id: label.weight for label in labels}


def _with_gold(rows: Iterator[dict[str, Any]], flags: EvaluateFlags) -> Iterator[dict[str, Any]]:
    """The rows with the gold values of --ground_truth, if there are any."""
    if flags.ground_truth is None:
        return rows
    gold = _gold(flags.ground_truth)
    return ({**row, "ground_truth": gold.get(row["id"])} for row in rows)


def _gold(path: str) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import storage
    from schemas.errors import UsageError

    try:
        with storage.open_input(path) as file:
            table = pq.read_table(file, columns=["id", "ground_truth"])
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"--ground_truth {path} cannot be read: {error}") from error
    ids = [str(value) for value in table["id"].to_pylist()]
    return dict(zip(ids, table["ground_truth"].to_pylist(), strict=True))
