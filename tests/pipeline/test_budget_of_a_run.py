"""A run with a budget: never more than it, nothing lost, and what it cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.run import check_budget, check_shares
from pipeline.settings import VerifierFlags
from schemas.errors import UsageError
from tests.pipeline.test_run import read, run, write
from tests.support.scripted import (
    MODEL,
    Asked,
    Plan,
    Says,
    raw_server,
    says_error,
    says_good,
)
from verifier.prices import builtin_prices

COLUMNS = {"document": "ACME, 40 EUR", "output": '{"vendor": "ACME", "total": 40}'}


def records(path: Path, count: int) -> Path:
    return write(path, [{"id": f"r{i}", **COLUMNS, "document": f"ACME {i}"} for i in range(count)])


def counting(prompt: int, completion: int, finish: str = "stop") -> Plan:
    """Good answers that took so many tokens."""

    def plan(asked: Asked) -> Says:
        body = says_good(asked.body).body
        body["choices"][0]["finish_reason"] = finish
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        return Says(body={**body, "usage": usage})

    return plan


def priced(folder: Path, **price: float) -> str:
    path = folder / "prices.yaml"
    path.write_text(f"models: {{{MODEL}: {json.dumps(price)}}}")
    return str(path)


def test_a_run_never_sends_more_and_places_all(tmp_path: Path) -> None:
    """Two records of five calls fit into twelve; the others are for a person, and cost nothing. A
    second run with more pays only for those."""
    source, cache = records(tmp_path / "in.parquet", 6), f"file:{tmp_path}/cache"
    with raw_server() as server:
        first = run(source, tmp_path / "one", verifier=server.target, cache=cache, max_calls=12)
        sent = len(server.asked)
        again = run(source, tmp_path / "two", verifier=server.target, cache=cache, max_calls=20)
        assert len(server.asked) == 30
        whole = run(source, tmp_path / "three", verifier=server.target, cache="none")
    assert sent == first["calls"] == 10
    assert first["placed"] == {"auto_accept": 2, "human_review": 4, "dead_letter": 0}
    assert first["review_reasons"]["budget_exhausted"] == 4
    assert again["placed"] == whole["placed"] == {
        "auto_accept": 6, "human_review": 0, "dead_letter": 0
    }  # fmt: skip
    scores = [
        {r["id"]: r["trustworthiness_score"] for r in read(tmp_path / name, "auto_accept")}
        for name in ("two", "three")
    ]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("hedge", [False, True])
def test_retries_and_duplicates_count(tmp_path: Path, hedge: bool) -> None:
    """Half of the requests fail: their repetitions are calls, too, and all records are placed."""

    def plan(asked: Asked) -> Says | None:
        return says_error(500, "oops") if asked.number % 2 else None

    source = records(tmp_path / "in.parquet", 30)
    with raw_server(plan) as server:
        summary = run(
            source,
            tmp_path / "out",
            verifier=server.target,
            cache="none",
            max_calls=101,
            hedge=hedge,
            max_concurrency=8,
        )
        assert summary["calls"] == len(server.asked) <= 101
        assert len(server.asked) > 90
    assert sum(summary["placed"].values()) == 30
    assert summary["placed"]["dead_letter"] == 0
    assert summary["review_reasons"]["budget_exhausted"] > 0


def test_dollars_are_counted_and_kept_to(tmp_path: Path) -> None:
    """A call costs 1,000 × $2 + 100 × $10 a million = $0.003, a record $0.015; $0.05 are three
    records, one after the other."""
    source = records(tmp_path / "in.parquet", 8)
    with raw_server(counting(1000, 100)) as server:
        summary = run(
            source,
            tmp_path / "out",
            verifier=server.target,
            cache="none",
            prices=priced(tmp_path, prompt=2, completion=10),
            max_cost_usd=0.05,
            max_records_in_flight=1,
        )
        assert len(server.asked) == 15
    assert summary["cost_usd"] == pytest.approx(0.045)
    assert summary["records_of_unknown_cost"] == 0
    assert summary["review_reasons"]["budget_exhausted"] == 5
    costs = [row["usage"]["cost_usd"] for row in read(tmp_path / "out", "auto_accept")]
    assert costs == pytest.approx([0.015] * 3)


def test_what_was_refused_or_cut_off_was_paid_for(tmp_path: Path) -> None:
    """A reply that is cut off is asked for once more, with more room: both are counted."""
    source = records(tmp_path / "in.parquet", 1)
    prices = priced(tmp_path, prompt=1, completion=1)
    with raw_server(counting(100, 20, "length")) as server:
        run(
            source,
            tmp_path / "out",
            verifier=server.target,
            cache="none",
            prices=prices,
            verdicts=str(tmp_path / "log"),
        )
        assert len(server.asked) == 10
    for verdict in read(tmp_path, "log"):
        assert verdict["reason"] == "truncated"
        assert (verdict["prompt_tokens"], verdict["completion_tokens"]) == (200, 40)
        assert verdict["cost_usd"] == pytest.approx(240e-6)


def test_a_kept_reply_costs_nothing(tmp_path: Path) -> None:
    """The first run pays, the second does not; neither is unknown."""
    source, cache = records(tmp_path / "in.parquet", 2), f"file:{tmp_path}/cache"
    prices = priced(tmp_path, prompt=1, completion=1)
    with raw_server(counting(100, 20)) as server:
        given: dict[str, Any] = {"verifier": server.target, "cache": cache, "prices": prices}
        first = run(source, tmp_path / "one", **given)
        again = run(source, tmp_path / "two", **given)
    assert first["cost_usd"] == pytest.approx(10 * 120e-6)
    assert again["cost_usd"] == 0.0


def test_without_a_price_the_cost_is_unknown(tmp_path: Path) -> None:
    """Not zero."""
    source = records(tmp_path / "in.parquet", 2)
    with raw_server(counting(100, 20)) as server:
        summary = run(source, tmp_path / "out", verifier=server.target, cache="none")
    assert summary["cost_usd"] is None
    assert summary["records_of_unknown_cost"] == 2


def test_a_budget_that_nobody_can_keep_is_refused() -> None:
    """Dollars without a price, a period without a budget, no time, and no calls for a process."""
    flags = {"verifier": "http://a.example/v1#mine"}
    with pytest.raises(UsageError, match=r"no price is known for mine.*--prices"):
        check_budget(VerifierFlags(**flags, max_cost_usd=1), builtin_prices(), "mine")
    with pytest.raises(UsageError, match="--max_calls holds over all processes"):
        check_shares(VerifierFlags(**flags, max_calls=1), local=False)
    for wrong, words in (
        ({"budget_period": "1d"}, "--budget_period needs"),
        ({"budget_period": "0d", "max_calls": 5}, "too short"),
        ({"budget_period": "soon", "max_calls": 5}, "--budget_period 'soon'"),
        ({"verifier_processes": 9, "max_calls": 5}, "cannot be shared by 9"),
    ):
        with pytest.raises(UsageError, match=words):
            VerifierFlags(**flags, **wrong).verifier_settings()
