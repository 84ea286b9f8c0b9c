"""The public reference implementation (trustworthy-llm 0.0.3) on a corpus of ours.

Run by `throughput.py --peer_python`, in the peer's own environment; it imports nothing of ours.

  PYTHON benchmarks/peer.py BASE_URL CORPUS.jsonl
"""

import asyncio
import json
import logging
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

DOCUMENTS_AT_ONCE = 64
MODEL = "gpt-4.1-mini"
CALLS_A_DOCUMENT = 5


def completion(output: str) -> dict[str, Any]:
    """An output as the chat completion that the peer expects."""
    message = {"role": "assistant", "content": output}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
    }


async def score_all(records: list[dict[str, str]]) -> dict[str, float]:
    """Score the records, some at a time; the figures of the run."""
    from pydantic import create_model
    from tlm import TLM  # type: ignore[import-not-found]
    from tlm.config.schema import Config  # type: ignore[import-not-found]

    names = list(json.loads(records[0]["output"]))
    extraction = create_model("Extraction", **dict.fromkeys(names, (str, ...)))  # type: ignore[call-overload]
    tlm = TLM(Config(num_consistency_completions=0, num_self_reflection_completions=-1))
    waiting = iter(records)

    async def work() -> None:
        for record in waiting:
            prompt = f"{record['instructions']}\n\n{record['document']}"
            result = await tlm._async_inference(
                response={"chat_completion": completion(record["output"])},
                model=MODEL,
                messages=[{"role": "user", "content": prompt}],
                response_format=extraction,
            )
            if result["trustworthiness_score"] is None:
                raise SystemExit("the peer gave no score")

    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(DOCUMENTS_AT_ONCE)))
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    calls = CALLS_A_DOCUMENT * len(records)
    return {"documents": len(records), "calls": calls, "wall": wall, "cpu": cpu}


def main() -> None:
    """Print the figures as JSON."""
    os.environ["OPENAI_API_KEY"] = "no-key"
    os.environ["OPENAI_API_BASE"] = os.environ["OPENAI_BASE_URL"] = sys.argv[1]
    logging.disable(logging.INFO)
    lines = Path(sys.argv[2]).read_text("utf-8").splitlines()
    print(json.dumps(asyncio.run(score_all([json.loads(line) for line in lines]))))


if __name__ == "__main__":
    main()
