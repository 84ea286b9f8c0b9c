"""Client-side cost of a verifier call: bare aiohttp, our pipeline and Scorer, the reference.

  python benchmarks/throughput.py [--records 20000] [--runs 5] [--peer_python PYTHON]

PYTHON is that of an environment with trustworthy-llm, the public reference implementation, which
then takes part with a tenth of the records (at most 1,000).

All talk to `canned_server.py` on loopback, which answers after 50 ms; each contestant runs in a
process of its own with the same settings of the garbage collector (those of `score`), one after the
other, in turns. Prints medians with their spread and the ratios
that must hold; exits with 1 when one is missed.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIELDS = ("vendor", "total", "date", "currency")
CONCURRENCY = 256
DELAY_MS = 50
MODEL = "canned-1"
PEER = "d trustworthy-llm"
Result = dict[str, float]


class Meter:
    """Wall and CPU seconds of this process between start and stop."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), self._used()

    @staticmethod
    def _used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def stop(self, documents: int, calls: int) -> Result:
        """The figures so far."""
        wall, cpu = time.perf_counter() - self._wall, self._used() - self._cpu
        return {"documents": documents, "calls": calls, "wall": wall, "cpu": cpu}


def make_corpus(path: Path, records: int) -> None:
    """Records with four fields; their prompts are about 2.7 kB long."""
    import random

    import pyarrow as pa
    import pyarrow.parquet as pq

    words = ("goods", "street", "terms", "delivered", "payment", "of", "the", "and", "for", "box")
    schema = json.dumps({"type": "object", "properties": {f: {"type": "string"} for f in FIELDS}})
    rows = []
    for number in range(records):
        text = " ".join(random.Random(number).choices(words, k=120))  # noqa: S311 - a fixed seed
        output = dict(
            zip(FIELDS, (f"V{number} Ltd", f"{number}.50", "2025-03-03", "EUR"), strict=True)
        )
        document = f"{text}\nV{number} Ltd, total {number}.50 EUR, 2025-03-03\n"
        rows.append(
            {
                "id": f"r{number}",
                "document": document,
                "output": json.dumps(output),
                "instructions": "Extract vendor, total, date, currency.",
                "json_schema": schema,
            }
        )
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2000)


def read_records(path: Path) -> list[Any]:
    """The corpus as records."""
    import pyarrow.parquet as pq

    from schemas.parse_record import parse_record

    return [parse_record(row) for row in pq.read_table(path).to_pylist()]


def bare(url: str, path: Path) -> Result:
    """(a) aiohttp alone, posting bodies that were made before the clock starts."""
    import aiohttp
    import uvloop

    from scoring.prompt import data_block
    from scoring.templates import builtin_templates
    from verifier.request import Dialect, RequestWriter

    templates = builtin_templates().templates
    writer, bodies = RequestWriter(MODEL, templates), list[bytes]()
    for record in read_records(path):
        data = writer.data_message(data_block(record), record.fields)
        bodies += [writer.body(t, record.fields, data, Dialect()) for t in templates]
    print(f"bodies of {statistics.mean(map(len, bodies)):.0f} bytes on average", file=sys.stderr)

    async def run() -> Result:
        queue = iter(bodies)
        connector = aiohttp.TCPConnector(limit=0)
        headers = {"Content-Type": "application/json"}
        async with aiohttp.ClientSession(connector=connector) as session:

            async def work() -> None:
                for body in queue:
                    async with session.post(
                        f"{url}/chat/completions", data=body, headers=headers
                    ) as r:
                        await r.read()

            meter = Meter()
            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
            return meter.stop(len(bodies) // len(templates), len(bodies))

    result: Result = uvloop.run(run())
    return result


def pipeline(url: str, path: Path, cache: str | None = "none") -> Result:
    """(b) the whole `score` run, Parquet to Parquet, Beam's own start included."""
    import apache_beam  # noqa: F401 - imports are not what is measured

    import pipeline.run  # noqa: F401
    from launch.score import score
    from pipeline.settings import ScoreFlags

    with tempfile.TemporaryDirectory() as folder:
        flags = ScoreFlags(
            input=str(path),
            output=f"{folder}/out",
            verifier=f"{url}#{MODEL}",
            max_concurrency=CONCURRENCY,
            max_records_in_flight=CONCURRENCY,
            cache=cache,
        )
        meter = Meter()
        summary = score(flags) or {}
        return meter.stop(summary["records"], summary["calls"])


def pipeline_with_cache(url: str, path: Path) -> Result:
    """(e) the same with the reply cache that a local run has by default, empty at first."""
    return pipeline(url, path, None)


def scorer(url: str, path: Path) -> Result:
    """(c) our Scorer, without Beam, on records that are read already."""
    import uvloop

    from verifier.scorer import Scorer
    from verifier.settings import VerifierSettings

    records = read_records(path)
    settings = VerifierSettings(
        target=f"{url}#{MODEL}",
        max_concurrency=CONCURRENCY,
        max_records_in_flight=CONCURRENCY,
    )

    async def run() -> Result:
        queue = iter(records)
        async with Scorer(settings) as scorer:

            async def work() -> None:
                for record in queue:
                    await scorer.score(record)

            meter = Meter()
            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
            return meter.stop(len(records), 5 * len(records))

    result: Result = uvloop.run(run())
    return result


CONTESTANTS: dict[str, Callable[[str, Path], Result]] = {
    "a bare aiohttp": bare,
    "b pipeline": pipeline,
    "c Scorer": scorer,
    "e with cache": pipeline_with_cache,
}


def write_jsonl(corpus: Path) -> Path:
    """The corpus as JSON lines, for an environment without pyarrow."""
    import pyarrow.parquet as pq

    path = corpus.with_suffix(".jsonl")
    lines = [json.dumps(row) for row in pq.read_table(corpus).to_pylist()]
    path.write_text("\n".join(lines), "utf-8")
    return path


def command_of(name: str, url: str, corpus: Path, peer_python: str | None) -> list[str]:
    """What runs a contestant."""
    if name == PEER:
        return [peer_python or "", str(HERE / "peer.py"), url, str(write_jsonl(corpus))]
    return [sys.executable, __file__, "--contestant", name, "--url", url, "--corpus", str(corpus)]


def measure(name: str, records: int, peer_python: str | None) -> Result:
    """One run of one contestant in a process of its own, against a server of its own."""
    if name == PEER:
        records = min(1000, max(1, records // 10))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.parquet")
        make_corpus(path, records)
        command = [sys.executable, str(HERE / "canned_server.py"), "0", str(DELAY_MS), *FIELDS]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                port = server.stdout.readline().strip() if server.stdout else ""
                url = f"http://127.0.0.1:{port}/v1"
                done = subprocess.run(
                    command_of(name, url, path, peer_python),
                    check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent,
                    env=os.environ | {"PYTHONPATH": str(HERE.parent)},
                )  # fmt: skip
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                    _, peak, cpu = json.load(answer)
            finally:
                server.kill()
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return {**result, "server_cpu": cpu, "peak": peak}


def report(runs: dict[str, list[Result]]) -> bool:
    """Print the table and the ratios; whether all bounds hold."""
    print(
        f"\n{'':<18}{'calls/s':>9}{'docs/s':>9}{'CPU ms/call':>13}{'spread':>15}{'server CPU':>12}{'peak':>6}"
    )
    cost, rate, docs = {}, {}, {}
    for name, results in runs.items():
        each = [1000 * r["cpu"] / r["calls"] for r in results]
        cost[name[0]] = statistics.median(each)
        rate[name[0]] = statistics.median(r["calls"] / r["wall"] for r in results)
        docs[name[0]] = statistics.median(r["documents"] / r["wall"] for r in results)
        server = statistics.median(r["server_cpu"] / r["wall"] for r in results)
        print(
            f"{name:<18}{rate[name[0]]:>9.0f}{docs[name[0]]:>9.0f}{cost[name[0]]:>13.3f}"
            f"{min(each):>8.3f}-{max(each):.3f}{server:>11.0%}{max(r['peak'] for r in results):>6.0f}"
        )
    bounds = [
        ("CPU a call, (b) / (a)", cost["b"] / cost["a"], "<=", 2.5),
        ("CPU a call, (c) / (a)", cost["c"] / cost["a"], "<=", 1.5),
        ("calls/s,    (b) / (a)", rate["b"] / rate["a"], ">=", 0.8),
    ]
    if "d" in docs:
        bounds.append(("documents/s, (b) / (d)", docs["b"] / docs["d"], ">=", 15))
    good = True
    for what, ratio, sign, bound in bounds:
        holds = ratio <= bound if sign == "<=" else ratio >= bound
        good &= holds
        print(f"{what:<24}{ratio:>7.2f}   must be {sign} {bound:<5}{'' if holds else '  MISSED'}")
    return good


def main() -> int:
    """Measure in turns and report, or be one contestant."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer_python")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    values = parser.parse_args()
    if values.contestant:
        from launch.local import collect_less

        collect_less()
        print(json.dumps(CONTESTANTS[values.contestant](values.url, values.corpus)))
        return 0
    names = [*CONTESTANTS, *([PEER] if values.peer_python else [])]
    if not values.peer_python:
        print("the reference implementation takes no part: --peer_python names no environment")
    runs: dict[str, list[Result]] = {name: [] for name in names}
    for _ in range(values.runs):
        for name, results in runs.items():
            results.append(measure(name, values.records, values.peer_python))
    return 0 if report(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
