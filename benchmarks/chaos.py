"""What comes of a run when the verifier's provider misbehaves.

  python benchmarks/chaos.py [--records 2000] [--only faults outages queues]

Runs `construct-beam score` against `chaos_server.py`, and checks

- faults (429, 5xx, resets, hangs, broken replies, refusals; evenly and in bursts): no record is
  lost or doubled, a record whose five calls succeeded in the end scores exactly as in a run without
  faults, all requests are counted, and there are less than 1.5 times as many as without faults;
- outages of 30 s in mid-run (503 to everything, or connections refused): after their first 5 s no
  more than 2 requests a second arrive on average; within 10 s of their end 100 calls have
  succeeded again, and in the end all records have all verdicts;
- queues of our own (a slow provider, or a tight rate limit, and deadlines much shorter than the
  time that calls are queued): no call times out, none is repeated, and no 10 s see more than 1.2
  times what the limit allows for them.

Prints each figure with its bound; exits with 1 when one is missed.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos_server import SETTLING_S, Plan
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

FAULTS = {"rate_limit": 0.10, "server_error": 0.05, "reset": 0.02, "hang": 0.02, "malformed": 0.03}
REFUSALS = 0.01
SHORT = ("--attempt_timeout=3", "--call_timeout=60", "--max_retry_wait=5")
MIN_VERDICTS = 3
SCORES = (
    "trustworthiness_score", "trustworthiness_explanation", "per_field_scores",
    "untrustworthy_fields", "signals", "route", "review_reasons",
)  # fmt: skip
OUTAGE_S = 30.0
RESUMED_ANSWERS = 100
QUEUE_RECORDS, QUEUE_FILES = 40, 8
MANY_BUNDLES = ("--direct_running_mode=multi_threading", "--direct_num_workers=4")
PER_MINUTE = 600


@dataclass(frozen=True)
class Bench:
    """Where runs find their input and leave their output, and where figures go."""

    folder: Path
    records: int
    bounds: Bounds

    def corpus(self, name: str, records: int, files: int = 1) -> tuple[Path, list[str]]:
        """A corpus in a folder of its own, and its ids."""
        path = self.folder / name
        return path, write_corpus(path, records, files)

    def attempt(self, title: str, measure: Callable[[], None]) -> None:
        """Measure and check; a run that fails misses its bounds and ends no others."""
        print(f"\n{title}", flush=True)
        try:
            measure()
        except RunFailedError as error:
            self.bounds.fail(title, error)


def faults(bench: Bench) -> None:
    """A run without faults, one with faults evenly spread, one with the same in bursts."""
    path, ids = bench.corpus("faults", bench.records)
    without: list[Run] = []

    def calm() -> None:
        run = score(path, bench.folder / "calm", Plan(), *SHORT)
        check_conserved(bench.bounds, run, ids)
        bench.bounds.check("requests a record", run.requests / len(ids), "==", TEMPLATES)
        check_all_verified(bench, run)
        without.append(run)

    def faulty(name: str, plan: Plan) -> None:
        run = score(path, bench.folder / name, plan, *SHORT)
        show_faults(run)
        check_conserved(bench.bounds, run, ids)
        check_counted(bench.bounds, run)
        check_exact(bench, run, without[0])
        ratio = run.requests / without[0].requests
        bench.bounds.check("requests, as a multiple of those without faults", ratio, "<", 1.5)

    bench.attempt("No faults", calm)
    if not without:
        return
    steady = Plan(faults=FAULTS, refusals=REFUSALS)
    bursts = Plan(faults=FAULTS, refusals=REFUSALS, burst_cycle=max(bench.records, 40))
    bench.attempt("Faults, evenly spread", lambda: faulty("steady", steady))
    bench.attempt("Faults, in bursts", lambda: faulty("bursts", bursts))


def show_faults(run: Run) -> None:
    """Print what the server did and what became of the calls."""
    shares = [f"{kind} {n / run.requests:.1%}" for kind, n in sorted(run.log.faults.items())]
    print(f"  {run.requests} requests in {duration(run):.0f} s: {', '.join(shares)}")
    print(f"  verdicts that failed, of {len(run.verdicts)}: {dict(run.failures.most_common())}")


def duration(run: Run) -> float:
    """Seconds from the first request to the last."""
    return run.log.requests[-1] - run.log.requests[0]


def check_exact(bench: Bench, run: Run, without: Run) -> None:
    """Records that got all their verdicts score as if nothing had happened; others are reviewed."""
    failed = {v["record_id"] for v in run.verdicts if v["status"] != "ok"}
    expected = {row["id"]: row for row in without.rows}
    full = [
        row
        for row in run.rows
        if row["id"] not in failed and row["signals"]["n_verdicts"] == TEMPLATES
    ]
    different = [row for row in full if scores_of(row) != scores_of(expected[row["id"]])]
    thin = [r for r in run.scored["auto_accept"] if r["signals"]["n_verdicts"] < MIN_VERDICTS]
    bounds = bench.bounds
    # Refusals alone leave 0.99 ** 5 = 0.951 of the records complete.
    bounds.check(
        "share of records whose five calls succeeded", len(full) / len(expected), ">=", 0.8
    )
    bounds.check("of those, records that score differently", len(different), "==", 0)
    bounds.check(f"records accepted on fewer than {MIN_VERDICTS} verdicts", len(thin), "==", 0)


def scores_of(row: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on faults."""
    return {name: row[name] for name in SCORES}


def check_all_verified(bench: Bench, run: Run) -> None:
    """No verdict failed, and none is missing."""
    bench.bounds.check("verdicts that failed", run.failures.total(), "==", 0)
    full = sum(row["signals"]["n_verdicts"] == TEMPLATES for row in run.rows)
    missing = run.summary["records"] - full
    bench.bounds.check("records without all five verdicts", missing, "==", 0)


def outages(bench: Bench) -> None:
    """The provider is gone for 30 s in the middle of a run, in two ways."""
    path, ids = bench.corpus("outages", bench.records)

    def outage(kind: str) -> None:
        middle = TEMPLATES * bench.records // 2
        plan = Plan(outage=kind, outage_after=middle, outage_s=OUTAGE_S)
        run = score(path, bench.folder / kind, plan, *SHORT)
        check_conserved(bench.bounds, run, ids)
        check_all_verified(bench, run)
        check_trickle(bench, run)

    bench.attempt("Outage: 503 to every request", lambda: outage("unavailable"))
    bench.attempt("Outage: connections refused", lambda: outage("refused"))


def check_trickle(bench: Bench, run: Run) -> None:
    """Few requests during the outage, and many soon after it."""
    begin, end = run.log.outage
    middle = begin + SETTLING_S
    early = sum(begin <= t < middle for t in run.log.requests) + run.log.knocks[0]
    late = sum(middle <= t <= end for t in run.log.requests) + run.log.knocks[1]
    print(f"  requests in the first {SETTLING_S:g} s of the outage: {early}")
    rate = late / (OUTAGE_S - SETTLING_S)
    bench.bounds.check("requests a second in the rest of the outage", rate, "<=", 2)
    answers = [t for t in run.log.answers if t > end]
    if len(answers) < RESUMED_ANSWERS:
        raise RunFailedError(f"only {len(answers)} calls succeeded after the outage")
    print(f"  seconds to the first good answer: {answers[0] - end:.1f}")
    resumed = answers[RESUMED_ANSWERS - 1] - end
    bench.bounds.check(f"seconds until {RESUMED_ANSWERS} calls had succeeded", resumed, "<=", 10)


def queues(bench: Bench) -> None:
    """Calls are queued for much longer than any deadline, by our own limits."""
    path, ids = bench.corpus("queues", QUEUE_RECORDS, QUEUE_FILES)

    def queue(name: str, plan: Plan, *flags: str) -> Run:
        run = score(path, bench.folder / name, plan, *MANY_BUNDLES, *flags)
        print(f"  {len(ids)} records in {QUEUE_FILES} files took {duration(run):.0f} s")
        check_conserved(bench.bounds, run, ids)
        bench.bounds.check("verdicts that timed out", run.failures["timeout"], "==", 0)
        check_all_verified(bench, run)
        bench.bounds.check("requests a record", run.requests / len(ids), "==", TEMPLATES)
        return run

    def slow() -> None:
        queue(
            "slow", Plan(delay_s=2), "--max_concurrency=8",
            "--attempt_timeout=3", "--call_timeout=4", "--record_timeout=10",
        )  # fmt: skip

    def limited() -> None:
        run = queue(
            "limited", Plan(), f"--requests_per_minute={PER_MINUTE}",
            "--attempt_timeout=1", "--call_timeout=2", "--record_timeout=3",
        )  # fmt: skip
        moments = run.log.requests
        fullest = max(sum(t <= s < t + 10 for s in moments) for t in moments)
        bench.bounds.check("requests in the fullest 10 s", fullest, "<=", PER_MINUTE / 6 * 1.2)

    bench.attempt("A healthy but slow provider, 8 requests at a time", slow)
    bench.attempt(f"A limit of {PER_MINUTE} requests a minute", limited)


PARTS = {"faults": faults, "outages": outages, "queues": queues}


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    values = parser.parse_args()
    bounds = Bounds()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), values.records, bounds)
        for name in values.only:
            PARTS[name](bench)
    return bounds.conclude()


if __name__ == "__main__":
    sys.exit(main())
