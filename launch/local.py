"""Running a pipeline in this process: progress while it goes on, Ctrl-C that stops it."""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from launch.progress import ProgressLine
from schemas.errors import RunStoppedError
from verifier.engine import close_engine, get_engine

STOP_WITHIN_S = 5.0
GC_THRESHOLDS = (20_000, 50, 100)


def run_to_end(pipeline: Any) -> None:
    """Run a Beam pipeline and wait for it. Raises RunStoppedError when it does not end well."""
    state = pipeline.run().wait_until_finish()
    if state not in (None, "DONE"):
        raise RunStoppedError(f"the runner ended in state {state}")


def run_watched(work: Callable[[], None], total: int | None) -> None:
    """Do `work` on a thread of its own; show progress over `total` records meanwhile.

    Raises what `work` raises, RunStoppedError with the run's fault where there is one, and
    KeyboardInterrupt after Ctrl-C or SIGTERM, once the engine is stopped.
    """
    collect_less()
    errors: list[BaseException] = []
    done = threading.Event()

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            errors.append(error)
        finally:
            done.set()

    progress = ProgressLine(total)
    before = signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=guarded, name="construct-beam-run", daemon=True).start()
    try:
        while not done.wait(0.1):
            progress.update(get_engine().counters())
    except KeyboardInterrupt:
        _stop(done, progress, total)
    finally:
        progress.close()
        signal.signal(signal.SIGTERM, before)
    if errors:
        raise _cause(errors[0])


def collect_less() -> None:
    """Have garbage looked for less often: a tenth of a run's CPU.

    What was imported lives on anyway, and records in flight are many but free of cycles.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def log_to_stderr() -> None:
    """Show warnings and errors, each on a line."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(_worth_showing)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _worth_showing(record: logging.LogRecord) -> bool:
    """Whether a log record is worth showing: once the run's fault is known, Beam's wrapping of it
    is not."""
    return not (record.name.startswith("apache_beam") and get_engine().fault())


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _cause(error: BaseException) -> BaseException:
    """The run's own fault, if the engine knows one, instead of the runner's wrapping."""
    fault = get_engine().fault()
    if fault is None:
        return error
    stopped = RunStoppedError(f"the run was stopped: {fault}")
    stopped.__cause__ = error
    return stopped


def _stop(run_ended: threading.Event, progress: ProgressLine, total: int | None) -> None:
    """Stop the engine, say what was done, and leave; Beam's own threads would linger."""
    engine = get_engine()
    engine.stop("stopped by Ctrl-C")
    run_ended.wait(STOP_WITHIN_S)
    progress.close()
    done = engine.counters()
    of = "" if total is None else f" of {total}"
    sys.stderr.write(
        f"stopped: {done.records}{of} records were verified with {done.requests} calls; "
        "no result was written. The same command starts again; replies in its cache are not paid "
        "for twice.\n"
    )
    close_engine()
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(130)
