"""What export-batch and import-batch share: running a pipeline without an engine."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def run_pipeline(
    prepare: Callable[[], T],
    build: Callable[[Any, T], object],
    beam_arguments: Sequence[str],
    ours: Sequence[str],
) -> None:
    """Have `build` wire a pipeline of what `prepare` returns, and run it to its end.

    Flags are checked first: `prepare` may empty the output folder. Raises UsageError for an
    unknown flag, RunStoppedError when the run failed. Ctrl-C ends the process: Beam's own threads
    cannot be told to stop.
    """
    import apache_beam as beam

    from launch.beam_flags import beam_options
    from launch.local import collect_less, log_to_stderr, run_to_end

    log_to_stderr()
    collect_less()
    options = beam_options(beam_arguments, ours)
    prepared = prepare()
    pipeline = beam.Pipeline(options=options)
    build(pipeline, prepared)
    before = [signal.signal(s, _stop) for s in (signal.SIGINT, signal.SIGTERM)]
    try:
        run_to_end(pipeline)
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    sys.stderr.write("stopped: nothing is finished. The same command starts again.\n")
    sys.stderr.flush()
    os._exit(130)
