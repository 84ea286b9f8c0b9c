"""Estimates: the run's own calls and prompts, added up; a large input by a sample."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline.sample
from pipeline.estimate import (
    ATTACHMENT_TOKENS,
    MESSAGE_TOKENS,
    Calls,
    Estimate,
    estimate_run,
    hours,
    reply_tokens,
)
from pipeline.prices import read_prices
from pipeline.run import build, prepare_run
from pipeline.settings import EstimateFlags, ScoreFlags
from schemas.errors import UsageError
from scoring.prompt import PromptLayout, data_block, render
from scoring.templates import builtin_templates
from tests.support.builders import record
from tests.support.scripted import scripted_server, target
from verifier.prices import builtin_prices
from verifier.request import Dialect, RequestWriter, first_dialect
from verifier.settings import VerifierSettings
from verifier.token_count import about_tokens

MODEL = "openai:gpt-4.1-mini"
TEMPLATES = builtin_templates()
SETTINGS = VerifierSettings(target=MODEL)


def row(number: int, fields: int = 2, words: int = 20) -> dict[str, Any]:
    output = {f"field_{i}": f"{number}.{i}" for i in range(fields)}
    text = f"Invoice {number} " + "total amount due " * words
    return {"id": f"r{number}", "document": text, "output": json.dumps(output)}


def write_parquet(path: Path, rows: Iterable[dict[str, Any]], group: int = 1000) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=group)
    return path


def write_lines(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    lines = (r if isinstance(r, str) else json.dumps(r) for r in rows)
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def estimated(path: Path | str, **flags: Any) -> Estimate:
    return estimate_run(EstimateFlags(**{"input": str(path), "verifier": MODEL, **flags}))


def test_calls_are_those_of_the_record(tmp_path: Path) -> None:
    """Five calls a record; field-level templates ask in chunks; broken rows are dead letters."""
    rows = [row(1), row(2, fields=7), {**row(3), "output": "no JSON"}, {**row(4), "document": None}]
    estimate = estimated(write_parquet(tmp_path / "in.parquet", rows), max_fields_per_call=3)
    assert (estimate.records, estimate.dead_letters) == (2, 2)
    assert estimate.calls == 5 + 1 + 4 * 3
    assert (estimate.exact, estimate.read) == (True, 4)


def test_equal_records_are_paid_for_once(tmp_path: Path) -> None:
    """With a cache, equal requests are sent once; without one, each time."""
    rows = [row(1), {**row(1), "id": "again"}, row(2)]
    path = write_parquet(tmp_path / "in.parquet", rows)
    for flags, calls in (({}, 10), ({"cache": "none"}, 15), ({"output": "gs://bucket/out"}, 15)):
        estimate = estimated(path, **flags)
        assert (estimate.calls, estimate.repeated) == (calls, 15 - calls)
        assert estimate.records == 3


@pytest.mark.parametrize("layout", list(PromptLayout))
def test_prompts_are_the_real_ones(layout: PromptLayout) -> None:
    """A call's prompt tokens are those of the messages that would be sent."""
    settings = VerifierSettings(target="http://host:1/v1#m", prompt_layout=layout)
    judged = record({"a": 1, "b": "x" * 50}, document="Total 40.00 EUR. " * 100)
    asked = Calls("m", TEMPLATES, settings).of(judged)
    assert asked is not None
    for template, (prompt, completion) in zip(TEMPLATES.templates, asked.tokens, strict=True):
        messages = render(template, data_block(judged), judged.fields, layout).messages
        text = sum(about_tokens(m["content"]) for m in messages)
        assert prompt == pytest.approx(text + MESSAGE_TOKENS, abs=4)
        assert completion == reply_tokens(template, 2)


def test_reply_schemas_count_where_providers_count_them() -> None:
    """OpenAI's prompts hold the reply schema; a local server makes a grammar of it."""
    judged = record({"a": 1, "b": 2})
    hosted = Calls("m", TEMPLATES, SETTINGS).of(judged)
    local = Calls("m", TEMPLATES, VerifierSettings(target="http://h:1/v1#m")).of(judged)
    assert hosted is not None
    assert local is not None
    writer = RequestWriter("m", TEMPLATES.templates)
    for template, more, less in zip(TEMPLATES.templates, hosted.tokens, local.tokens, strict=True):
        message = writer.data_message(data_block(judged), judged.fields)
        body = orjson.loads(writer.body(template, judged.fields, message, Dialect()))
        schema = body.get("response_format")
        tokens = about_tokens(json.dumps(schema, separators=(",", ":"))) if schema else 0
        assert more[0] - less[0] == pytest.approx(tokens, abs=1.5)


def test_no_schema_is_sent_with_a_shared_prefix() -> None:
    """There OpenAI is asked for plain JSON objects."""
    layout = PromptLayout.SHARED_PREFIX
    assert first_dialect("api.openai.com", layout) != Dialect()
    judged = record({f"field_{i}": i for i in range(40)})
    hosted = Calls("m", TEMPLATES, SETTINGS.model_copy(update={"prompt_layout": layout}))
    standard = Calls("m", TEMPLATES, SETTINGS)
    fewer, more = hosted.of(judged), standard.of(judged)
    assert fewer is not None
    assert more is not None
    assert sum(p for p, _ in fewer.tokens) < 0.7 * sum(p for p, _ in more.tokens)


def test_attachments_are_counted_not_their_bytes(tmp_path: Path) -> None:
    """An image counts as many tokens as is assumed, not as its base64 text has."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    content = [{"type": "text", "text": "Total 40"}, image]
    rows = [{"messages": [{"role": "user", "content": content}], "output": {"a": 1}}]
    estimate = estimated(write_lines(tmp_path / "in.jsonl", rows))
    assert estimate.attachments == 5
    assert 5 * ATTACHMENT_TOKENS < estimate.prompt_tokens < 5 * (ATTACHMENT_TOKENS + 1000)


def test_cost_is_that_of_all_calls(tmp_path: Path) -> None:
    """Dollars are those of the tokens; batch mode takes its discount off."""
    path = write_parquet(tmp_path / "in.parquet", [row(i) for i in range(10)])
    estimate = estimated(path)
    expected = (0.4 * estimate.prompt_tokens + 1.6 * estimate.completion_tokens) / 1e6
    assert estimate.cost_usd == pytest.approx(expected)
    assert estimate.batch_usd == pytest.approx(expected / 2)
    unknown = estimated(path, verifier="http://host:1/v1#gpt-4.1-mini")
    assert (unknown.cost_usd, unknown.batch_usd) == (None, None)


def test_own_prices(tmp_path: Path) -> None:
    """A file of one's own prices a server of one's own, and comes before the built-in table."""
    path = write_parquet(tmp_path / "in.parquet", [row(1)])
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {mine: {prompt: 10, completion: 0}}", "utf-8")
    estimate = estimated(path, verifier="http://host:1/v1#mine", prices=str(prices))
    assert estimate.cost_usd == pytest.approx(estimate.prompt_tokens / 1e5)
    assert estimate.batch_usd is None
    assert read_prices(None) == builtin_prices()
    with pytest.raises(UsageError, match=r"--prices nowhere\.yaml cannot be read"):
        read_prices("nowhere.yaml")


@pytest.mark.parametrize(
    ("limits", "by", "expected"),
    [
        ({"max_concurrency": 10}, "concurrency", 1000 * 3.5 / 10 / 3600),
        ({"max_concurrency": 10, "verifier_processes": 4}, "concurrency", 1000 * 3.5 / 40 / 3600),
        ({"max_concurrency": 64, "max_records_in_flight": 2}, "concurrency", 350 / 3600),
        ({"requests_per_minute": 50}, "requests", 20 / 60),
        ({"tokens_per_minute": 11_000}, "tokens", 200 / 60),
    ],
)
def test_hours_at_the_limits(limits: dict[str, Any], by: str, expected: float) -> None:
    """Each limit makes a run take its time; the strictest counts."""
    estimate = Estimate("m", None, records=200, calls=1000)
    estimate.prompt_tokens, estimate.completion_tokens = 2_000_000, 200_000
    took = hours(estimate, VerifierSettings(target=MODEL, **limits))
    assert getattr(took, by) == pytest.approx(expected)
    assert took.all == max(took.concurrency, took.requests or 0, took.tokens or 0)
    assert "requests_per_minute" in limits or took.requests is None


def exchange(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A line of a batch request file, and that of its result."""
    messages = [{"role": "user", "content": f"Invoice {number}, total {number}.00"}]
    reply = {"choices": [{"message": {"content": json.dumps({"total": number})}}]}
    return (
        {"custom_id": f"c{number}", "body": {"model": "m", "messages": messages}},
        {"custom_id": f"c{number}", "response": {"status_code": 200, "body": reply}},
    )


def mixed(count: int) -> list[dict[str, Any] | str]:
    """Sorted by length, every tenth with many fields, every hundredth broken."""
    return [
        "no JSON"
        if i % 100 == 50
        else row(i, fields=60 if i % 10 == 0 else 2, words=1 + i * 60 // count)
        for i in range(count)
    ]


def parquet_of(rows: list[dict[str, Any] | str]) -> list[dict[str, Any]]:
    return [r if isinstance(r, dict) else {**row(0), "output": r} for r in rows]


@pytest.mark.parametrize("form", ["one.parquet", "two.parquet", "in.jsonl", "in.jsonl.gz"])
def test_a_sample_stands_for_the_whole(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large input a spread sample is read: calls come within 5 %, tokens within 10 %."""
    rows = mixed(4800)
    if form.endswith("parquet"):
        path = write_parquet(tmp_path / form, parquet_of(rows), 700 if "two" in form else 10_000)
    else:
        path = write_lines(tmp_path / form, rows)
    whole = estimated(path, cache="none")
    assert (whole.exact, whole.dead_letters, whole.records) == (True, 48, 4752)
    for name, value in (("SAMPLE_ROWS", 1500), ("SAMPLE_BYTES", 600_000), ("WINDOWS", 60)):
        monkeypatch.setattr(pipeline.sample, name, value)
    monkeypatch.setattr(pipeline.sample, "WINDOW_BYTES", 10_000)
    part = estimated(path, cache="none")
    assert not part.exact
    assert part.read < 0.6 * (whole.records + whole.dead_letters)
    assert part.calls == pytest.approx(whole.calls, rel=0.05)
    assert part.prompt_tokens == pytest.approx(whole.prompt_tokens, rel=0.1)
    assert part.records + part.dead_letters == pytest.approx(4800, rel=0.05)


def test_of_huge_parquet_a_part_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups are left out, and of a single one the end, but the figures are for all rows."""
    rows = [row(i) for i in range(4000)]
    for group in (100, 4000):
        path = write_parquet(tmp_path / f"{group}.parquet", rows, group)
        size = sum(g.size for g in pipeline.sample._groups(str(path)))
        monkeypatch.setattr(pipeline.sample, "SAMPLE_ROWS", 500)
        monkeypatch.setattr(pipeline.sample, "READ_BYTES", size // 4)
        groups = pipeline.sample._within(pipeline.sample._groups(str(path)), size // 4)
        assert sum(n for _, n in groups) == pytest.approx(1000, rel=0.1)
        estimate = estimated(path)
        assert estimate.read <= 500
        assert estimate.records == pytest.approx(4000)
        assert estimate.calls == pytest.approx(20_000)


@pytest.mark.parametrize("keep_every", [1, 4])
def test_batch_files_are_joined(
    keep_every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests and results in files of their own make records; what has no partner makes none."""
    pairs = [exchange(i) for i in range(400)]
    write_lines(tmp_path / "requests.jsonl", [request for request, _ in pairs])
    results = [result for _, result in reversed(pairs[:380])]
    write_lines(tmp_path / "results.jsonl", [*results, "no JSON"])
    if keep_every > 1:
        size = sum(path.stat().st_size for path in tmp_path.iterdir())
        monkeypatch.setattr(pipeline.sample, "SAMPLE_BYTES", size // (keep_every - 1) - 1)
    estimate = estimated(tmp_path, input_format="openai")
    assert estimate.exact is (keep_every == 1)
    if keep_every == 1:
        assert (estimate.records, estimate.calls, estimate.dead_letters) == (380, 1900, 21)
    else:
        assert estimate.read < 150
        assert estimate.records == pytest.approx(380, rel=0.2)


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize("sampled", [False, True])
def test_dead_letters_driven_again(
    suffix: str, sampled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The originals in dead letters are estimated like any record."""
    lines: list[dict[str, Any] | str] = [
        {"payload": json.dumps(row(i)), "payload_encoding": "utf-8", "reason": "timeout"}
        for i in range(90)
    ]
    lines += ["[]", '{"payload": "[]", "payload_encoding": "utf-8"}', '{"payload": 1}', "1"] * 3
    path = write_lines(tmp_path / f"in.{suffix}", lines)
    if sampled:
        monkeypatch.setattr(pipeline.sample, "SAMPLE_BYTES", 20_000)
        monkeypatch.setattr(pipeline.sample, "WINDOW_BYTES", 1000)
        monkeypatch.setattr(pipeline.sample, "WINDOWS", 25)
    estimate = estimated(path, input_format="dead_letter", cache="none")
    tolerance = 0.2 if sampled else 0.0
    assert estimate.exact is not sampled
    assert estimate.records == pytest.approx(90, rel=tolerance)
    assert estimate.calls == pytest.approx(5 * estimate.records)


def test_unreadable_files_are_dead_letters(tmp_path: Path) -> None:
    """As in a run: one for the file, or for what is missing of it."""
    write_parquet(tmp_path / "a.parquet", [row(1), row(2)])
    (tmp_path / "b.parquet").write_bytes(b"")
    whole = write_parquet(tmp_path / "c.parquet", [row(i) for i in range(100)]).read_bytes()
    (tmp_path / "c.parquet").write_bytes(whole[:10] + bytes(500) + whole[510:])
    estimate = estimated(tmp_path)
    assert (estimate.records, estimate.dead_letters) == (2, 2)
    packed = gzip.compress("".join(json.dumps(row(i)) + "\n" for i in range(900)).encode())
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    cut = estimated(tmp_path / "cut")
    assert cut.dead_letters == 1
    assert cut.calls == 5 * cut.records


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"input": "nowhere.parquet"}, "--input nowhere.parquet: no such file"),
        ({"columns": "document=nothing"}, "nothing"),
        ({"verifier": "gpt-4.1"}, "--verifier 'gpt-4.1' is not understood"),
        ({"templates": "nowhere"}, "--templates nowhere: no such folder"),
        ({"prices": "nowhere"}, "--prices nowhere cannot be read"),
    ],
)
def test_what_a_run_refuses_is_refused(flags: dict[str, str], says: str, tmp_path: Path) -> None:
    """Wrong flags are found before anything is sent."""
    path = write_parquet(tmp_path / "in.parquet", [row(1)])
    with pytest.raises(UsageError, match=says):
        estimated(path, **flags)


def test_estimate_and_run_agree(tmp_path: Path) -> None:
    """The run sends the calls that were estimated; prompt tokens are within 25 % of those counted.

    (The server counts four characters a token.)
    """
    rows = [*(row(i, fields=1 + i % 7) for i in range(30)), {**row(0), "output": "no JSON"}]
    path = write_parquet(tmp_path / "in.parquet", [*rows, *rows[:3]])
    with scripted_server() as (server, script):
        flags = {"verifier": target(server), "max_fields_per_call": 4}
        estimate = estimated(path, **flags)
        assert script.requests == []
        out = tmp_path / "out"
        run = prepare_run(ScoreFlags(input=str(path), output=str(out), **flags))
        with beam.Pipeline(runner="FnApiRunner") as graph:
            build(graph, run)
        sent = len(script.requests)
    summary = json.loads((out / "run.json").read_text("utf-8"))
    assert (estimate.records, estimate.dead_letters) == (33, 1)
    assert estimate.calls == sent == summary["calls"]
    assert estimate.repeated > 0
    assert estimate.prompt_tokens == pytest.approx(summary["prompt_tokens"], rel=0.25)
