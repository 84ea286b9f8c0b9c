"""Peak memory and time of `construct-beam score --verifier embedded` as the corpus grows.

  python benchmarks/memory.py [RECORDS ...]        (default: 10000 100000)

Each size runs in a process of its own; the peak is the kernel's figure for that process.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_A_GROUP = 10_000
WORDS = [
    "invoice",
    "vendor",
    "paid",
    "total",
    "order",
    "amount",
    "due",
    "goods",
    "street",
    "terms",
    "date",
    "number",
]


def corpus(path: Path, records: int) -> None:
    """Small records: four fields on about 600 characters of text."""
    with pq.ParquetWriter(path, rows(0, 1).schema) as writer:
        for start in range(0, records, ROWS_A_GROUP):
            writer.write_table(rows(start, min(start + ROWS_A_GROUP, records)))


def rows(start: int, stop: int) -> pa.Table:
    """Rows `start` to `stop` of the corpus."""
    return pa.Table.from_pylist(list(_rows(start, stop)))


def _rows(start: int, stop: int) -> Iterator[dict[str, str]]:
    for number in range(start, stop):
        words = random.Random(number).choices(WORDS, k=90)  # noqa: S311 - a fixed seed is the point
        output = {"vendor": f"Vendor {number}", "total": f"{number}.50", "paid": True, "note": None}
        text = f"{' '.join(words)}\nVendor {number}, total {number}.50"
        yield {"id": f"r{number}", "document": text, "output": json.dumps(output)}


def measure(records: int) -> tuple[float, float]:
    """Seconds and peak megabytes of one run."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.parquet")
        corpus(source, records)
        command = [sys.executable, "-m", "launch.main", "score", "--verifier=embedded"]
        start = time.monotonic()
        subprocess.run(
            [*command, f"--input={source}", f"--output={folder}/out"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.monotonic() - start
        placed = json.loads(Path(folder, "out", "run.json").read_text("utf-8"))["records"]
        if placed != records:
            raise SystemExit(f"{placed} of {records} records were placed")
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main() -> None:
    """Print a line for each size, growing, so that each peak is of the run just done."""
    print(f"{'records':>10}{'seconds':>10}{'records/s':>12}{'peak MB':>10}")
    for records in sorted(int(n) for n in sys.argv[1:]) or [10_000, 100_000]:
        seconds, peak = measure(records)
        print(f"{records:>10}{seconds:>10.1f}{records / seconds:>12.0f}{peak:>10.0f}", flush=True)


if __name__ == "__main__":
    main()
