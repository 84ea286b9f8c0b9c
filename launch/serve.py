"""Serve the embedded verifier alone, on loopback, for load tests.

It speaks chat completions and answers construct-beam's own prompts from literal evidence, with
no LLM. Delays and faults are for testing what a pipeline does when a provider misbehaves:

  construct-beam verifier --port 8123 --delay_ms 50 --fault rate_limit:0.1 --fault hang:0.02
  construct-beam score --verifier http://127.0.0.1:8123/v1#literal-evidence ...
"""

import argparse
import sys
from collections.abc import Sequence

from launch.flags import flag_names, refuse_unknown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the server."""
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1; 0: any free")
    parser.add_argument("--delay_ms", type=float, default=0.0, help="wait before each answer")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND:RATE",
        help="a share of requests to answer wrongly; repeat for several kinds",
    )
    parser.add_argument("--seed", type=int, default=0, help="which requests the faults hit")


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Serve until Ctrl-C."""
    refuse_unknown(unknown, flag_names(values.parser))
    from scoring.routing import LITERAL_EVIDENCE
    from verifier.embedded import answer
    from verifier.faults import parse_faults
    from verifier.server import serve_forever

    def announce(base_url: str) -> None:
        sys.stdout.write(f"--verifier {base_url}#{LITERAL_EVIDENCE}\nCtrl-C stops the server\n")
        sys.stdout.flush()

    serve_forever(
        answer,
        model=LITERAL_EVIDENCE,
        port=values.port,
        delay_ms=values.delay_ms,
        faults=parse_faults(values.fault, values.seed),
        announce=announce,
    )
    return 0
