"""How `construct-beam score` grows: with records, fields, document length and concurrency.

  python benchmarks/growth.py [records] [fields] [length] [concurrency]      (default: all four)

Each point is a whole run of the command in a process of its own, against `canned_server.py` on
loopback; time, CPU and peak memory are the kernel's figures for that process. Prints a table for each
and exits with 1 when one of these is missed: 10 times the records take at most 10.5 times as long;
400,000 records need at most 1.2 times the memory of 100,000; 10 times the fields, or a document 10
times as long, cost at most 11 times the CPU a record, what a run costs anyway left out.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
ROWS_A_GROUP = 10_000
WORDS = ("goods", "street", "terms", "delivered", "payment", "of", "the", "and", "for", "box")
DELAY_MS = 20
IDLE_RECORDS = 10
"""A run on so few records is taken for what a run costs anyway."""


class Corpus(NamedTuple):
    """Records to make: how many, with how many fields, on how long a document (characters)."""

    records: int
    fields: int = 4
    length: int = 600


class Point(NamedTuple):
    """One run: wall and CPU seconds, peak megabytes."""

    wall: float
    cpu: float
    peak: float


def field_names(fields: int) -> list[str]:
    """Names as in an invoice with many lines."""
    return [f"line_{number:03}_amount" for number in range(fields)]


def rows(corpus: Corpus, start: int, stop: int) -> pa.Table:
    """Rows `start` to `stop` of a corpus; every value stands in its document."""
    names = field_names(corpus.fields)
    made = []
    for number in range(start, stop):
        values = {name: f"{number + place}.50" for place, name in enumerate(names)}
        lines = "\n".join(f"{name} {value}" for name, value in values.items())
        words = random.Random(number).choices(WORDS, k=corpus.length // 6)  # noqa: S311 - a fixed seed
        document = " ".join(words) + "\n" + lines
        made.append({"id": f"r{number}", "document": document, "output": json.dumps(values)})
    return pa.Table.from_pylist(made)


def write(corpus: Corpus, path: Path) -> None:
    """The corpus as one Parquet file, made and written a row group at a time."""
    size = max(1, min(ROWS_A_GROUP, 40_000_000 // (corpus.length + 30 * corpus.fields)))
    with pq.ParquetWriter(path, rows(corpus, 0, 1).schema) as writer:
        for start in range(0, corpus.records, size):
            writer.write_table(rows(corpus, start, min(start + size, corpus.records)))


@contextmanager
def server(fields: Sequence[str]) -> Iterator[str]:
    """The base URL of a canned server that knows `fields`."""
    command = [sys.executable, str(HERE / "canned_server.py"), "0", str(DELAY_MS), *fields]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip() if process.stdout else ''}/v1"
        finally:
            process.kill()


def run(corpus: Corpus, concurrency: int = 256) -> Point:
    """Score a corpus; every record must be placed with all its verdicts."""
    with tempfile.TemporaryDirectory() as folder, server(field_names(corpus.fields)) as url:
        source = Path(folder, "in.parquet")
        write(corpus, source)
        command = [
            sys.executable, "-m", "launch.main", "score", f"--input={source}",
            f"--output={folder}/out", f"--verifier={url}#canned-1",
            f"--max_concurrency={concurrency}", f"--max_records_in_flight={concurrency}",
            f"--max_fields_per_call={corpus.fields}",
        ]  # fmt: skip
        start = time.monotonic()
        environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"score ended with {process.returncode}")
        summary = json.loads(Path(folder, "out", "run.json").read_text("utf-8"))
    placed, calls = summary["records"], summary["calls"]
    if (placed, calls) != (corpus.records, 5 * corpus.records):
        raise SystemExit(f"{placed} of {corpus.records} records were placed, with {calls} calls")
    return Point(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


class Table:
    """Prints points as they come, and checks bounds on their ratios."""

    def __init__(self, what: str) -> None:
        print(f"\n{what:>12}{'seconds':>10}{'ms/record':>11}{'CPU ms/record':>15}{'peak MB':>9}")
        self.good = True

    def row(self, name: int, records: int, point: Point) -> None:
        """One run."""
        print(
            f"{name:>12,}{point.wall:>10.1f}{1000 * point.wall / records:>11.3f}"
            f"{1000 * point.cpu / records:>15.3f}{point.peak:>9.0f}",
            flush=True,
        )

    def check(self, what: str, ratio: float, bound: float) -> None:
        """A ratio that must not be above `bound`."""
        missed = "" if ratio <= bound else "  MISSED"
        self.good &= not missed
        print(f"{what:<44}{ratio:>7.2f}   must be <= {bound}{missed}", flush=True)


def records() -> bool:
    """1,000 to 400,000 records."""
    table, points = Table("records"), dict[int, Point]()
    for size in (1000, 10_000, 100_000, 400_000):
        points[size] = run(Corpus(size))
        table.row(size, size, points[size])
    table.check("time, 10,000 / 1,000 records", points[10_000].wall / points[1000].wall, 10.5)
    table.check("time, 100,000 / 10,000 records", points[100_000].wall / points[10_000].wall, 10.5)
    growth = points[400_000].wall / points[100_000].wall
    table.check("time, 400,000 / 100,000 records", growth, 4.2)
    table.check("memory, 400,000 / 100,000", points[400_000].peak / points[100_000].peak, 1.2)
    return table.good


def _tenfold(table: Table, sizes: Sequence[int], corpus_of: Callable[[int], Corpus]) -> bool:
    """Runs of growing records; CPU a record beyond an idle run's must grow no faster than they."""
    costs = []
    for size in sizes:
        corpus = corpus_of(size)
        idle = run(corpus._replace(records=IDLE_RECORDS))
        point = run(corpus)
        table.row(size, corpus.records, point)
        costs.append((point.cpu - idle.cpu) / (corpus.records - IDLE_RECORDS))
    for index in range(1, len(sizes)):
        what = f"CPU a record, {sizes[index]:,} / {sizes[index - 1]:,}"
        table.check(what, costs[index] / costs[index - 1], 11)
    return table.good


def fields() -> bool:
    """4 to 400 fields, on documents of one length."""
    counts = {4: 4000, 40: 2000, 400: 400}
    return _tenfold(Table("fields"), list(counts), lambda n: Corpus(counts[n], n, 10_000))


def length() -> bool:
    """Documents of 2 kB to 200 kB."""
    counts = {2_000: 4000, 20_000: 2000, 200_000: 400}
    return _tenfold(Table("characters"), list(counts), lambda n: Corpus(counts[n], 4, n))


def concurrency() -> bool:
    """16 to 1,024 requests in flight; nothing must hold but that all records are placed."""
    table = Table("concurrency")
    for limit, size in {16: 2000, 64: 5000, 256: 10_000, 1024: 10_000}.items():
        table.row(limit, size, run(Corpus(size), limit))
    return table.good


PARTS: dict[str, Callable[[], bool]] = {
    "records": records,
    "fields": fields,
    "length": length,
    "concurrency": concurrency,
}


def main() -> int:
    """Run the parts that were named."""
    wanted = sys.argv[1:] or list(PARTS)
    if not set(wanted) <= set(PARTS):
        print(__doc__)
        return 2
    results = [PARTS[name]() for name in wanted]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
