"""What the benchmarks of faults and latencies share: corpus, server, runs of the command, bounds."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from chaos_replies import FIELDS, MODEL, mark, seeded
from chaos_server import Log, Plan

HERE = Path(__file__).resolve().parent
COMMAND = Path(sys.executable).with_name("construct-beam")
TEMPLATES = 5
SINKS = ("auto_accept", "human_review")
RUN_LIMIT_S = 900
"""A run that takes longer hangs."""


class RunFailedError(Exception):
    """The command did not end well."""


def write_corpus(folder: Path, records: int, files: int = 1) -> list[str]:
    """Records with four fields, in `files` Parquet files. Returns their ids."""
    folder.mkdir()
    rows = [_row(f"r{number}") for number in range(records)]
    for part in range(files):
        table = pa.Table.from_pylist(rows[part::files])
        pq.write_table(table, folder / f"part-{part}.parquet")
    return [row["id"] for row in rows]


def _row(record_id: str) -> dict[str, str]:
    words = ("goods", "street", "terms", "delivered", "payment", "of", "the", "and", "for", "box")
    text = " ".join(seeded("text", record_id).choices(words, k=120))
    values = (f"V{record_id} Ltd", f"{record_id[1:]}.50", "2025-03-03", "EUR")
    lines = f"{text}\nThis is {mark(record_id)}\n{', '.join(values)}\n"
    return {
        "id": record_id,
        "document": lines,
        "output": json.dumps(dict(zip(FIELDS, values, strict=True))),
        "instructions": "Extract vendor, total, date, currency.",
    }


@dataclass(frozen=True)
class Run:
    """What a run of `score` left behind, and what the server saw of it.

    `scored` are the output rows by sink, `dead` the dead letters, `verdicts` the verdict log.
    """

    summary: dict[str, Any]
    scored: dict[str, list[dict[str, Any]]]
    dead: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    log: Log

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The scored rows of all sinks."""
        return [row for rows in self.scored.values() for row in rows]

    @property
    def requests(self) -> int:
        """How many requests the server saw, whatever came of them."""
        return len(self.log.requests)

    @property
    def failures(self) -> Counter[str]:
        """How many verdicts failed for each reason."""
        return Counter(v["reason"] for v in self.verdicts if v["status"] != "ok")


@contextmanager
def server(script: str, *arguments: str) -> Iterator[str]:
    """A server of ours, which prints its port, in a process of its own; its address."""
    command = [sys.executable, str(HERE / script), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def redis_server(folder: Path) -> Iterator[str | None]:
    """The `--cache` of a Redis that is started for this; None where redis-server is missing."""
    binary = shutil.which("redis-server")
    if binary is None:
        print("redis-server is not installed: no figures of Redis")
        yield None
        return
    port = free_port()
    command = [
        binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()


def score(corpus: Path, output: Path, plan: Plan, *flags: str) -> Run:
    """Run `construct-beam score` on `corpus` against a server with `plan`.

    Raises RunFailedError when the command fails or does not end.
    """
    with server("chaos_server.py", json.dumps(asdict(plan))) as url:
        _command(
            f"--input={corpus}", f"--output={output}", f"--verdicts={output}/verdicts",
            f"--verifier={url}/v1#{MODEL}", *flags,
        )  # fmt: skip
        log = _log(url, plan.outage_s)
    return Run(
        summary=json.loads((output / "run.json").read_text()),
        scored={sink: _rows(output / sink) for sink in SINKS},
        dead=[
            json.loads(line)
            for path in sorted((output / "dead_letter").glob("*.jsonl"))
            for line in path.read_text().splitlines()
        ],
        verdicts=_rows(output / "verdicts"),
        log=log,
    )


def _log(url: str, outage_s: float) -> Log:
    """The server's log, once an outage that began has ended: a run may end before it does."""
    until = time.monotonic() + 2 * outage_s
    while True:
        try:
            with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server
                log = Log(**json.load(answer))
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
        else:
            if len(log.outage) != 1:
                return log
        time.sleep(0.5)


def _command(*flags: str) -> None:
    try:
        done = subprocess.run(
            [str(COMMAND), "score", *flags],
            check=False, capture_output=True, text=True, timeout=RUN_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RunFailedError(f"the run did not end within {RUN_LIMIT_S} s") from None
    if done.returncode:
        last = " ".join(done.stderr.split()[-60:])
        raise RunFailedError(f"the run ended with status {done.returncode}: {last}")


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in _table(path)]


def _table(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path, partitioning=None).to_pylist()
    return rows


class Bounds:
    """Prints what was measured beside what must hold, and remembers whether all of it did."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def check(self, what: str, value: float, sign: str, bound: float) -> None:
        """One figure; `sign` is ==, <=, < or >=."""
        holds = {
            "==": value == bound, "<=": value <= bound, "<": value < bound, ">=": value >= bound,
        }[sign]  # fmt: skip
        print(
            f"  {what:<58}{value:>9.6g}   must be {sign} {bound:<8g}{'' if holds else '  MISSED'}"
        )
        if not holds:
            self.missed.append(what)

    def fail(self, what: str, why: object) -> None:
        """Something that ended before it could be measured."""
        print(f"  {what}: {why}  MISSED")
        self.missed.append(what)

    def conclude(self) -> int:
        """Print the verdict. Returns the exit status."""
        print(f"\n{len(self.missed)} bounds missed" if self.missed else "\nall bounds hold")
        return 1 if self.missed else 0


def check_conserved(bounds: Bounds, run: Run, ids: Sequence[str]) -> None:
    """Every record is in exactly one sink, and run.json says the same."""
    placed = {sink: [row["id"] for row in rows] for sink, rows in run.scored.items()}
    placed["dead_letter"] = [line["id"] for line in run.dead]
    found = Counter(record for rows in placed.values() for record in rows)
    print(f"  placed: {', '.join(f'{len(rows)} {sink}' for sink, rows in placed.items())}")
    bounds.check("records that are in no sink", len(set(ids) - set(found)), "==", 0)
    bounds.check("rows too many: doubles and strangers", found.total() - len(ids), "==", 0)
    says = run.summary["placed"]
    differ = sum(says[sink] != len(rows) for sink, rows in placed.items())
    differ += run.summary["records"] != len(ids)
    bounds.check("counts in run.json that differ from the sinks", differ, "==", 0)


def check_counted(bounds: Bounds, run: Run) -> None:
    """run.json counts every request that the server saw, where all of them reached it."""
    differ = run.summary["calls"] - run.requests
    bounds.check("calls in run.json beside requests at the server", differ, "==", 0)
