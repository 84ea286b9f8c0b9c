"""What a run that is killed pays for twice: kill -9 in the middle, then the same command again.

  python benchmarks/resume.py [--records 6000]

Once with `--cache file:`, once with two worker processes and `--cache redis://` (where redis-server
is installed). `canned_server.py` answers after 50 ms and counts the requests of both runs; a clean
run sends five for each record. Lost are the calls in flight at the kill, and replies that arrived
in the last moment and were not written yet. Exits with 1 when a bound is missed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from chaos_replies import FIELDS
from reporting import (
    COMMAND,
    RUN_LIMIT_S,
    TEMPLATES,
    Bounds,
    redis_server,
    server,
    write_corpus,
)

DELAY_MS = 50
CONCURRENCY = 64
KILL_AFTER = 0.5
"""The share of all calls that were sent when the run is killed."""
MOST = 1.01


def requests_at(url: str) -> int:
    """How many requests the server has counted."""
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server
        return int(json.load(answer)[0])


def begin(url: str, corpus: Path, output: Path, flags: Sequence[str]) -> subprocess.Popen[bytes]:
    """The command, as the leader of a process group."""
    return subprocess.Popen(
        [
            str(COMMAND), "score", f"--input={corpus}", f"--output={output}",
            f"--verifier={url}/v1#canned-1", *flags,
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def killed_after(process: subprocess.Popen[bytes], url: str, requests: int) -> int:
    """Kill the command and its workers once so many requests were sent; how many there were."""
    until = time.monotonic() + RUN_LIMIT_S
    while requests_at(url) < requests:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the run ended before it could be killed")
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    time.sleep(1)
    return requests_at(url)


def measure(bounds: Bounds, name: str, records: int, flags: Sequence[str], folder: Path) -> None:
    """One kill and the run after it."""
    corpus, output = folder / "corpus", folder / "out"
    write_corpus(corpus, records, files=4)
    calls = TEMPLATES * records
    print(f"\n{name}: {records} records, {calls} calls in a clean run")
    with server("canned_server.py", "0", str(DELAY_MS), *FIELDS) as url:
        first = killed_after(begin(url, corpus, output, flags), url, round(KILL_AFTER * calls))
        left = sorted(str(p.relative_to(folder)) for p in output.rglob("run.json"))
        process = begin(url, corpus, output, flags)
        _, errors = process.communicate(timeout=RUN_LIMIT_S)
        both = requests_at(url)
    if process.returncode:
        bounds.fail(name, errors.decode()[-300:])
        return
    summary = json.loads((output / "run.json").read_text())
    print(f"  sent before the kill {first}, after it {both - first}; repeated {both - calls}")
    bounds.check("run.json of the killed run", len(left), "==", 0)
    bounds.check("records that the second run placed", summary["records"], "==", records)
    bounds.check("dead letters", summary["placed"]["dead_letter"], "==", 0)
    bounds.check("requests of both runs / those of a clean one", both / calls, "<=", MOST)


def main() -> int:
    """Kill and run again, with each cache."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=6000)
    records = parser.parse_args().records
    bounds = Bounds()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file").mkdir()
        flags = [f"--cache=file:{folder}/cache", f"--max_concurrency={CONCURRENCY}"]
        measure(bounds, "file", records, flags, folder / "file")
        with redis_server(folder) as cache:
            if cache is None:
                return bounds.conclude()
            (folder / "redis").mkdir()
            flags = [
                f"--cache={cache}", f"--max_concurrency={CONCURRENCY // 2}",
                "--direct_running_mode=multi_processing", "--direct_num_workers=2",
            ]  # fmt: skip
            measure(bounds, "redis, two processes", records, flags, folder / "redis")
    return bounds.conclude()


if __name__ == "__main__":
    sys.exit(main())
