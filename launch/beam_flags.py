"""Flags that belong to Beam: passed on, but only if Beam knows them."""

import argparse
import os
from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from launch.flags import refuse_unknown

LOCAL_RUNNER = "FnApiRunner"
IN_PROCESS = frozenset({LOCAL_RUNNER, "BundleBasedDirectRunner"})
LOCAL = IN_PROCESS | {"DirectRunner", "PrismRunner", "SwitchingDirectRunner"}
"""Runners whose workers are all on this machine."""


def beam_options(arguments: Sequence[str], ours: Sequence[str]) -> PipelineOptions:
    """Beam's options among `arguments`; the in-process Fn API runner unless one is named.

    Raises UsageError for a flag that neither Beam nor we (`ours`) know.
    """
    known = _beam_flags()
    unknown = [a for a in arguments if a.startswith("-") and a.split("=", 1)[0] not in known]
    refuse_unknown(unknown, [*ours, *known])
    named = any(a.split("=", 1)[0] == "--runner" for a in arguments)
    return PipelineOptions([*arguments, *([] if named else [f"--runner={LOCAL_RUNNER}"])])


def local_processes(options: PipelineOptions) -> int:
    """How many processes a local runner has its bundles worked on in."""
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return 1
    return int(direct.direct_num_workers) or os.cpu_count() or 1


def is_dataflow(runner: str) -> bool:
    """Whether the workers are Dataflow's; Beam takes the name in several spellings."""
    return runner.lower().endswith(("dataflow", "dataflowrunner"))


def _beam_flags() -> set[str]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for options in _subclasses(PipelineOptions):
        if "_add_argparse_args" in vars(options):
            options._add_argparse_args(parser)
    return {o for action in parser._actions for o in action.option_strings}


def _subclasses(cls: Any) -> list[Any]:
    found: list[Any] = cls.__subclasses__()
    return [*found, *(inner for sub in found for inner in _subclasses(sub))]
