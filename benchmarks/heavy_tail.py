"""What adaptive deadlines and hedging do about a provider with a heavy tail of latencies.

  python benchmarks/heavy_tail.py [--records 2000]

`chaos_server.py` answers every request after a time drawn from a Pareto distribution: its median is
50 ms (times a factor by template), one call in a hundred takes more than 20 medians, none more than
60 s. Each request draws anew, a duplicate of another one too. Few records are in flight, so that no
call waits in a queue. The runs of `construct-beam score` are: no adaptive deadlines, adaptive
deadlines, hedging on top of them.

Latencies are those of `usage.latency_ms`, a record's slowest call, which is the record's latency
where nothing is queued. As a check on that, the server's own figure stands beside the p99: from
the first request about a record to the last moment that one of them was open.

Prints a table and the bounds that must hold; exits with 1 when one is missed.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos_server import Plan
from reporting import (
    TEMPLATES,
    Bounds,
    Run,
    RunFailedError,
    check_conserved,
    check_counted,
    score,
    write_corpus,
)

TAIL = 1.3
"""Pareto index: the share of calls above 20 medians is 20 ** -1.3 / 2, one in a hundred."""
PLAN = Plan(
    delay_s=0.05,
    tail=TAIL,
    cap_s=60.0,
    factors={"fields_numeric": 1.2, "fields_likert": 1.2, "accuracy_audit": 0.8},
    seed=7,
)
"""With this seed the 2,000 records' p99 is that of the distribution, 3.65 s; others give 2.8-4.8."""
FLAGS = ("--max_records_in_flight=16", "--max_concurrency=256")
RUNS = {
    "off": ("--adaptive_deadlines=off",),
    "adaptive": ("--adaptive_deadlines=on",),
    "hedged": ("--adaptive_deadlines=on", "--hedge"),
}


@dataclass(frozen=True)
class Figures:
    """What one run came to: latencies in ms, shares of verdicts and of calls."""

    p50: float
    p90: float
    p99: float
    server_p99: float
    dropped: float
    extra: float


def figures(run: Run) -> Figures:
    """The figures of a run."""
    latencies = [row["usage"]["latency_ms"] for row in run.rows]
    open_for = [1000 * (last - first) for first, last in run.log.records.values()]
    calls = TEMPLATES * run.summary["records"]
    return Figures(
        p50=percentile(latencies, 50),
        p90=percentile(latencies, 90),
        p99=percentile(latencies, 99),
        server_p99=percentile(open_for, 99),
        dropped=run.failures["timeout"] / calls,
        extra=run.requests / calls - 1,
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that `percent` of 100 do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def show(measured: dict[str, Figures]) -> None:
    """Print the table."""
    heads = ("p50 ms", "p90 ms", "p99 ms", "p99 at server", "dropped", "extra calls")
    print(f"\n{'':<10}" + "".join(f"{head:>15}" for head in heads))
    for name, f in measured.items():
        times = "".join(f"{ms:>15.0f}" for ms in (f.p50, f.p90, f.p99, f.server_p99))
        print(f"{name:<10}{times}{f.dropped:>15.2%}{f.extra:>15.2%}")


def check(bounds: Bounds, measured: dict[str, Figures]) -> None:
    """What must hold between the runs."""
    print()
    off, adaptive, hedged = (measured[name] for name in RUNS)
    bounds.check("p99 with adaptive deadlines / without", adaptive.p99 / off.p99, "<=", 0.25)
    bounds.check("share of verdicts dropped by adaptive deadlines", adaptive.dropped, "<=", 0.02)
    bounds.check("extra calls without hedging", adaptive.extra, "==", 0)
    bounds.check("p99 with hedging on top / without both", hedged.p99 / off.p99, "<=", 0.25)
    bounds.check("share of verdicts dropped with hedging on top", hedged.dropped, "<=", 0.005)
    bounds.check("extra calls for hedging, a call", hedged.extra, "<=", 0.05)


def measure(bounds: Bounds, folder: Path, records: int) -> dict[str, Figures]:
    """All runs on one corpus; those that fail are missed bounds."""
    corpus, measured = folder / "corpus", dict[str, Figures]()
    ids = write_corpus(corpus, records)
    for name, flags in RUNS.items():
        print(f"\n{name}: {' '.join(flags)}", flush=True)
        try:
            run = score(corpus, folder / name, PLAN, *FLAGS, *flags)
        except RunFailedError as error:
            bounds.fail(name, error)
            continue
        print(f"  verdicts that failed: {dict(run.failures.most_common())}")
        check_conserved(bounds, run, ids)
        check_counted(bounds, run)
        measured[name] = figures(run)
    return measured


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2000)
    values = parser.parse_args()
    bounds = Bounds()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(bounds, Path(folder), values.records)
    show(measured)
    if len(measured) == len(RUNS):
        check(bounds, measured)
    return bounds.conclude()


if __name__ == "__main__":
    sys.exit(main())
