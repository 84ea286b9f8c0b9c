"""The `construct-beam` command."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import NamedTuple

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


class Command(NamedTuple):
    """A subcommand: the module with its `add_arguments` and `run`, and its one-line help."""

    module: str
    help: str


COMMANDS = {
    "score": Command("launch.score", "score a corpus: Parquet in, routed and scored Parquet out"),
    "demo": Command("launch.demo", "score the example corpus without an LLM and show the result"),
    "verifier": Command("launch.serve", "serve the embedded verifier alone, for load tests"),
    "cache": Command("launch.cache", "what a reply cache holds, and dropping old replies"),
    "export-batch": Command("launch.export_batch", "requests for a provider's Batch API"),
    "import-batch": Command("launch.import_batch", "scores and routes from a batch's results"),
    "evaluate": Command("launch.evaluate", "how good the scores are, given what is right"),
    "rescore": Command("launch.rescore", "scores and routes from kept verdicts, with no call"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Exit status: 0 done, 1 the run failed, 2 wrong usage, 130 stopped by Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser(given)
    values, unknown = parser.parse_known_args(given)
    if values.command is None:
        parser.print_help()
        return EXIT_USAGE
    return _run(values, unknown)


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the subcommand that is asked for loads its modules."""
    parser = argparse.ArgumentParser(
        prog="construct-beam",
        description="Tells which LLM extractions can be trusted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=version("construct-beam"))
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = next((word for word in given if not word.startswith("-")), None)
    for name, command in COMMANDS.items():
        sub = subparsers.add_parser(name, help=command.help, allow_abbrev=False)
        if name == chosen:
            module = import_module(command.module)
            sub.description = module.__doc__
            sub.formatter_class = argparse.RawDescriptionHelpFormatter
            module.add_arguments(sub)
            sub.set_defaults(run=module.run, parser=sub)
    return parser


def _run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    from schemas.errors import ConstructBeamError, UsageError

    run: Callable[[argparse.Namespace, Sequence[str]], int] = values.run
    try:
        return run(values, unknown)
    except UsageError as error:
        _say(f"construct-beam {values.command}: {error}")
        return EXIT_USAGE
    except ConstructBeamError as error:
        _say(f"construct-beam {values.command}: {error}")
        return EXIT_FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except KeyboardInterrupt:
        _say(f"construct-beam {values.command}: stopped")
        return EXIT_INTERRUPTED


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
