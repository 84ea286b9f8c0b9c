"""`score --estimate` as a user runs it: a table, and nothing sent or written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from launch.estimate import WIDTH
from launch.main import main
from tests.support.scripted import raw_server

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "id": f"r{i}",
            "document": f"Invoice {i}. Total {i}.00",
            "output": json.dumps({"total": i}),
        }
        for i in range(40)
    ]
    rows.append({"id": "bad", "document": "x", "output": "no JSON"})
    path = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def shown(text: str, label: str) -> str:
    """What a line of the table says."""
    match = re.search(rf"^ *{re.escape(label)}  +(.+)$", text, re.MULTILINE)
    assert match, f"no line {label!r} in\n{text}"
    return match[1]


def test_nothing_is_sent_or_written(corpus: Path, tmp_path: Path) -> None:
    """The command ends with status 0; the server saw no request, the disk no new file."""
    before = sorted(tmp_path.rglob("*"))
    environment = {k: v for k, v in os.environ.items() if k != "JUDGE_KEY"}
    with raw_server() as server:
        command = [sys.executable, "-m", "launch.main", "score", "--estimate"]
        flags = [f"--input={corpus}", f"--output={tmp_path / 'out'}", f"--verifier={server.target}"]
        done = subprocess.run(
            [*command, *flags, "--api_key_env=JUDGE_KEY", "--runner=FnApiRunner"],
            check=False, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=90,
        )  # fmt: skip
        assert server.asked == []
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing was sent." in done.stdout
    assert shown(done.stdout, "verifier calls") == "200"
    assert shown(done.stdout, "dead letters").startswith("1 ")
    assert sorted(tmp_path.rglob("*")) == before


def test_the_table(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls, tokens, dollars, batch price and hours, readable at 80 columns; no output is needed."""
    limits = ["--max_concurrency=10", "--requests_per_minute=2", "--tokens_per_minute=1000"]
    assert (
        main(["score", "--estimate", f"--input={corpus}", "--verifier=openai:gpt-4o", *limits]) == 0
    )
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= WIDTH == 80
    assert shown(text, "records to verify") == "40"
    assert re.fullmatch(r"\d{2,3},\d{3}  [4-6]\d\d a call", shown(text, "prompt tokens"))
    assert re.fullmatch(r"\d\d,\d{3}  assumed, 1\d\d a call", shown(text, "completion tokens"))
    cost = float(shown(text, "cost").split()[0].removeprefix("$"))
    assert shown(text, "cost").endswith("$2.50 and $10.00 a million")
    half = shown(text, "in batch mode").split()[0].removeprefix("$")
    assert float(half) == pytest.approx(cost / 2, abs=0.01)
    assert shown(text, "by requests") == "1.7 h  2 requests a minute"
    assert shown(text, "time, at least") == shown(text, "by tokens").split("  ")[0]
    assert shown(text, "by concurrency").endswith("s  10 at once")
    assert "the built-in table of 20" in text
    assert "prices change" in " ".join(text.split())


def test_without_a_price(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cost is unknown, and the remedy is named; it is never 0."""
    name = "a-very-long-model-name-" * 6
    flags = ["score", "--estimate", f"--input={corpus}", f"--verifier=http://localhost:1/v1#{name}"]
    assert main(flags) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= WIDTH
    assert shown(text, "cost") == "unknown  no price known; --prices FILE"
    assert "batch" not in text
    assert "$" not in text
    assert "No price is known for" in text


def test_own_prices_are_named(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A figure says which table it comes from, and of which date."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("as_of: 2026-11-30\nmodels: {m: {prompt: 0.075, completion: 0}}", "utf-8")
    flags = ["score", "--estimate", f"--input={corpus}", "--verifier=http://localhost:1/v1#m"]
    assert main([*flags, f"--prices={prices}"]) == 0
    text = capsys.readouterr().out
    assert shown(text, "cost").endswith("$0.075 and $0.00 a million")
    assert "prices.yaml of 2026-11-30" in " ".join(text.split())


def test_a_thinking_model_is_warned_of(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be known is said."""
    for model, thinks in (("gpt-5-mini", True), ("o4-mini", True), ("gpt-4o", False)):
        assert main(["score", "--estimate", f"--input={corpus}", f"--verifier=openai:{model}"]) == 0
        assert ("thinks before it answers" in " ".join(capsys.readouterr().out.split())) is thinks


def test_embedded_costs_nothing(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No LLM is asked: no price, no batch mode, no hours."""
    assert main(["score", "--estimate", f"--input={corpus}", "--verifier=embedded"]) == 0
    text = capsys.readouterr().out
    assert shown(text, "cost") == "$0  no LLM is asked"
    assert "time" not in text


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--verifier=openai:gpt-4o", "--max_concurency=3"], "did you mean --max_concurrency?"),
        (["--verifier=openai:gpt-4o", "--max_concurrency=0"], "--max_concurrency 0"),
        (["--verifier=openai:gpt-4o", "--prices=nowhere"], "--prices nowhere cannot be read"),
        ([], "--verifier is needed"),
    ],
)
def test_wrong_usage(
    flags: list[str], says: str, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and one line that says what to mend."""
    assert main(["score", "--estimate", f"--input={corpus}", *flags]) == 2
    assert says in capsys.readouterr().err


def test_input_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """An estimate needs input and verifier, no more."""
    assert main(["score", "--estimate", "--verifier=openai:gpt-4o"]) == 2
    assert capsys.readouterr().err == "construct-beam score: --input is needed\n"
