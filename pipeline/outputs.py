"""What a batch run writes: a folder for each route, dead letters, the verdict log, run.json."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter

import storage
from pipeline.counts import Counts, count_placed
from pipeline.settings import OutputFlags
from schemas.arrow_scored import OutputShape
from schemas.errors import UsageError
from schemas.json_schema import JsonSchema
from schemas.reasons import Route
from scoring.routing import RoutingRules
from scoring.templates import TemplateSet
from transforms.read import DEAD_LETTERS
from transforms.write import WriteDeadLetters, WriteScored, WriteVerdicts

RUN_FILE = "run.json"
DEAD_LETTER = "dead_letter"
PARTS = (Route.AUTO_ACCEPT.value, Route.HUMAN_REVIEW.value, DEAD_LETTER)


def flat_fields(flags: OutputFlags, schema: JsonSchema | None) -> tuple[str, ...]:
    """The fields that --flat_columns gives columns of their own."""
    if not flags.flat_columns:
        return ()
    value = schema.value if schema else {}
    properties = value.get("properties") if isinstance(value, dict) else None
    if not properties:
        raise UsageError("--flat_columns needs --schema with properties: they name the columns")
    return tuple(properties)


def check_output(flags: OutputFlags) -> None:
    """Refuse a folder with a finished run; what a killed run left in it is removed.

    With --overwrite a finished run is removed, too. Raises UsageError.
    """
    folder = flags.output
    parts = [f"{folder}/{part}" for part in PARTS]
    claim_folder(
        folder,
        RUN_FILE,
        "a finished run",
        [f"{part}/part-*" for part in [*parts, *([flags.verdicts] if flags.verdicts else [])]],
        overwrite=flags.overwrite,
    )


def claim_folder(
    folder: str, last_file: str, held: str, leftovers: Sequence[str], *, overwrite: bool
) -> None:
    """Make an output folder ready: refuse one that is finished, remove what a killed run left.

    `last_file` in it says that it is finished, and holds `held`; `leftovers` are globs. With
    `overwrite` a finished one is emptied, too. Raises UsageError.
    """
    try:
        storage.make_folder(folder)
        if storage.exists(f"{folder}/{last_file}") and not overwrite:
            raise UsageError(
                f"--output {folder} holds {held}; name another folder, or add --overwrite"
            )
        for pattern in (f"{folder}/{last_file}", *leftovers):
            storage.remove_files(pattern)
    except OSError as error:
        raise UsageError(f"--output {folder} cannot be used: {error}") from error


def write_placed(
    placed: Mapping[str, beam.PCollection],
    verified: beam.PCollection,
    shape: OutputShape,
    flags: OutputFlags,
) -> list[beam.PCollection]:
    """Wire the sinks of records by route, of DEAD_LETTERS, and of the verdict log if it is kept.

    Returns the names of the files written.
    """
    written = [
        placed[route.value]
        | f"Write/{route.value}" >> WriteScored(f"{flags.output}/{route.value}", shape)
        for route in Route
    ]
    dead = placed[DEAD_LETTERS]
    written.append(
        dead | f"Write/{DEAD_LETTER}" >> WriteDeadLetters(f"{flags.output}/{DEAD_LETTER}")
    )
    if flags.verdicts:
        written.append(verified | "Write/verdicts" >> WriteVerdicts(flags.verdicts))
    return written


def settings_of(
    flags: OutputFlags, template_set: str, templates: TemplateSet, rules: RoutingRules
) -> dict[str, Any]:
    """What run.json says of the settings; they hold no secret."""
    return {
        **flags.model_dump(mode="json", by_alias=True),
        "template_set": template_set,
        "templates_used": list(templates.names),
        "policy_version": rules.policy.version,
        "policy_rules": rules.policy.model_dump(mode="json", exclude={"review": {"audit_salt"}}),
    }


def summarise(
    placed: Mapping[str, beam.PCollection],
    written: Sequence[beam.PCollection],
    folder: str,
    settings: Mapping[str, Any],
    more: Any = (),
) -> None:
    """Count what was placed, and write run.json once every sink is done.

    `more` is what the summary says besides: pairs, or a side input of a dict.
    """
    _ = count_placed(placed) | "WriteRunFile" >> beam.Map(
        _write_summary,
        f"{folder}/{RUN_FILE}",
        settings,
        more,
        *(AsIter(names) for names in written),
    )


def _write_summary(
    counts: Counts, path: str, settings: Mapping[str, Any], more: Any, *_written: Iterable[str]
) -> None:
    """The sinks' file names are side inputs only so that this runs after all sinks."""
    summary = {**counts.summary(), **dict(more), "settings": settings}
    storage.write_text(path, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
