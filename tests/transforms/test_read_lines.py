"""JSON lines in every form: plain, compressed, in ranges, logged exchanges, dead letters."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to

from schemas.columns import parse_columns
from schemas.dead_letter import DeadLetter, Stage
from schemas.errors import UsageError
from schemas.json_rows import parse_carry
from schemas.reasons import FailureReason as R
from schemas.record import Record
from schemas.source import InputFormat, Source
from transforms import read_lines
from transforms.plan import plan_input
from transforms.read import ReadRecords
from transforms.read_lines import byte_ranges, lines_of
from transforms.read_lines import read_lines as read

GOOD = {"id": "a", "document": "d", "output": {"x": 1}}
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def plan(path: Path, given: InputFormat | None = None, **wanted: Any) -> Any:
    return plan_input(str(path), Source(pa.schema([]), **wanted), given)


def results(path: Path, given: InputFormat | None = None, **wanted: Any) -> list[Any]:
    planned = plan(path, given, **wanted)
    found = [r for span in byte_ranges(str(path)) for r in read(span, planned.source)]
    return sorted(found, key=lambda r: isinstance(r, DeadLetter))


def write(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(texts) + b"\n")
    return path


def row(record: Record) -> dict[str, Any]:
    assert record.row is not None
    return {k: v for k, v in record.row.slice().to_pylist()[0].items() if v is not None}


def test_lines_become_records_and_keep_what_else_they_hold(tmp_path: Path) -> None:
    """The record's keys as text, all others in one JSON object."""
    line = {**GOOD, "page": 3, "tags": ["t"], "ground_truth": {"x": 2}}
    (record,) = results(write(tmp_path / "a.jsonl", line))
    assert (record.id, record.document, record.output) == ("a", "d", {"x": 1})
    assert row(record) == {
        "id": "a",
        "document": "d",
        "output": '{"x":1}',
        "ground_truth": '{"x":2}',
        "extra": '{"page":3,"tags":["t"]}',
    }


@pytest.mark.parametrize(
    ("line", "reason", "words"),
    [
        (b"{", R.INVALID_JSON, "not JSON"),
        (b"null", R.INVALID_RECORD, "no JSON object but NoneType"),
        (b"[]", R.INVALID_RECORD, "no JSON object but list"),
        (b"\xff\xfe{", R.INVALID_UTF8, "not UTF-8"),
        (b'{"id": 7, "document": "d"}', R.EMPTY_OUTPUT, "output is null"),
        (b'{"document": 5, "output": [1]}', R.INVALID_RECORD, "document must be text"),
        (b'{"a": NaN}', R.INVALID_JSON, "NaN"),
        (b"[" * 5000, R.INVALID_JSON, ""),
    ],
)
def test_bad_lines_are_dead_letters_byte_for_byte(
    tmp_path: Path, line: bytes, reason: R, words: str
) -> None:
    """Between good neighbours, with the file's name and the id where it has one."""
    first, last, dead = results(write(tmp_path / "a.jsonl", GOOD, line, GOOD))
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(dead, DeadLetter)
    assert (dead.payload, dead.reason, dead.source) == (line, reason, str(tmp_path / "a.jsonl"))
    assert words in dead.message
    assert dead.id == ("7" if b'"id"' in line else None)


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_compressed_files(tmp_path: Path, ending: str) -> None:
    """By their names; a BOM, blank lines and a missing last line end do not matter."""
    data = b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n\n  \n" + json.dumps(GOOD).encode()
    path = tmp_path / f"a.jsonl{ending}"
    packed = {"": data, ".gz": gzip.compress(data), ".zst": pa.compress(data, "zstd", asbytes=True)}
    path.write_bytes(packed[ending])
    found = results(path)
    assert [r.id for r in found] == ["a", "a"]


@pytest.mark.parametrize("size", [1, 7, 20, 21, 22, 1000])
def test_ranges_hold_every_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Wherever the cuts fall: within a line, at its end, behind it."""
    monkeypatch.setattr(read_lines, "RANGE_BYTES", size)
    lines = [b"%d-%s" % (i, b"x" * (i % 23)) for i in range(40)]
    path = write(tmp_path / "a.jsonl", *lines)
    spans = list(byte_ranges(str(path)))
    assert [line for span in spans for line in lines_of(span)] == lines
    assert size > 500 or len(spans) > 1


def test_columns_of_other_names(tmp_path: Path) -> None:
    """Renamed to ours; those already ours stay."""
    line = {"no": 1, "text": "d", "got": {"x": 1}, "id": "inner"}
    (record,) = results(
        write(tmp_path / "a.jsonl", line),
        renames=parse_columns("document=text, output=got, old_id=id, id=no"),
    )
    assert (record.id, record.document) == ("1", "d")
    assert json.loads(row(record)["extra"]) == {"old_id": "inner"}


@pytest.mark.parametrize("text", ["document", "=x", "document=", "a=x,a=y", "a=x,b=x"])
def test_wrong_renames_are_refused(text: str) -> None:
    """ours=theirs, each once."""
    with pytest.raises(UsageError, match="--columns"):
        parse_columns(text)


def test_carried_keys_have_types(tmp_path: Path) -> None:
    """A value that does not fit makes a dead letter; what is not named is not carried."""
    carry = parse_carry("n:int64,when:timestamp,day:date,j:json,s:string,f:float64,b:bool")
    good = {
        "n": 2**40,
        "when": "2024-03-01T10:00:00Z",
        "day": "2024-03-01",
        "j": [1],
        "f": 0.5,
        "b": True,
    }
    first, *dead = results(
        write(
            tmp_path / "a.jsonl",
            {**GOOD, **good, "s": 5, "z": 1},
            {**GOOD, "n": "x"},
            {**GOOD, "n": 2**70},
        ),
        carry=carry,
    )
    values = row(first)
    assert (values["n"], str(values["day"]), values["j"], values["s"]) == (
        2**40,
        "2024-03-01",
        "[1]",
        "5",
    )
    assert values["when"].isoformat() == "2024-03-01T10:00:00+00:00"
    assert "z" not in values
    assert "extra" not in values
    assert [d.message.split(":")[0] for d in dead] == ["n is no int64", "n is no int64"]


@pytest.mark.parametrize("text", ["n", "n:int", "output:string", "n:int64,x"])
def test_wrong_carries_are_refused(text: str) -> None:
    """The types are listed; the record's own keys are carried anyway."""
    with pytest.raises(UsageError, match="--carry"):
        parse_carry(text)


# --- logged exchanges ---------------------------------------------------------------------------

REQUEST = {
    "model": "gpt-x",
    "messages": [{"role": "user", "content": "d"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
}


def response(content: Any = '{"x": 1}', **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "finish_reason": more.pop("finish_reason", "stop"), "message": message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gpt-x-1",
        "choices": [choice],
    }


def test_a_logged_exchange(tmp_path: Path) -> None:
    """Request and response in one line: messages, schema, output, generator."""
    line = {"request": REQUEST, "response": response(), "tenant": "t1"}
    (record,) = results(write(tmp_path / "a.jsonl", line), InputFormat.OPENAI)
    assert (record.id, record.document, record.output) == ("chatcmpl-1", "d", {"x": 1})
    assert record.json_schema is not None
    assert record.json_schema.value == SCHEMA
    assert record.generator == "gpt-x-1"
    assert json.loads(row(record)["extra"]) == {"tenant": "t1"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (response(None, refusal="no"), R.REFUSAL),
        (response(None), R.EMPTY_OUTPUT),
        (response('{"x": 1', finish_reason="length"), R.TRUNCATED),
        (response("plain words"), R.INVALID_JSON),
        ({"choices": []}, R.INVALID_RECORD),
        ({"status_code": 429, "body": {"error": {"message": "slow"}}}, R.PROVIDER_ERROR),
    ],
)
def test_exchanges_without_an_output_are_dead_letters(
    tmp_path: Path, answer: Mapping[str, Any], reason: R
) -> None:
    """Each with what went wrong at the generator."""
    line = {"request": REQUEST, "response": answer}
    (dead,) = results(write(tmp_path / "a.jsonl", line), InputFormat.OPENAI)
    assert isinstance(dead, DeadLetter)
    assert dead.reason is reason


@pytest.mark.parametrize(
    "answer",
    [
        response([{"type": "text", "text": '{"x":'}, {"type": "text", "text": " 1}"}]),
        response(None, tool_calls=[{"function": {"name": "f", "arguments": '{"x": 1}'}}]),
    ],
)
def test_outputs_in_parts_and_tool_calls(tmp_path: Path, answer: Mapping[str, Any]) -> None:
    """Wherever the API puts the JSON."""
    line = {"request": REQUEST, "response": answer}
    (record,) = results(write(tmp_path / "a.jsonl", line), InputFormat.OPENAI)
    assert record.output == {"x": 1}


def test_batch_files_are_joined(tmp_path: Path) -> None:
    """Requests and results of the provider's batch files, in any order; what has no partner is kept."""

    def asked(key: str) -> dict[str, Any]:
        return {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": REQUEST}

    def answered(key: str, body: Any) -> dict[str, Any]:
        return {
            "id": "b",
            "custom_id": key,
            "response": {"status_code": 200, "body": body},
            "error": None,
        }

    write(tmp_path / "in.jsonl", asked("one"), asked("two"), asked("alone"))
    write(
        tmp_path / "out.jsonl",
        answered("two", response()),
        answered("one", response('{"x": 2}')),
        answered("lost", response()),
    )
    planned = plan(tmp_path, InputFormat.OPENAI)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        read_all = pipeline | beam.Create(planned.files) | ReadRecords(planned.source)
        records = read_all["records"] | "R" >> beam.Map(
            lambda r: (r.id, r.output["x"], row(r)["output"])
        )
        dead = read_all["dead_letters"] | "D" >> beam.Map(
            lambda d: (d.message, json.loads(d.payload)["custom_id"])
        )
        assert_that(records, equal_to([("one", 2, '{"x": 2}'), ("two", 1, '{"x": 1}')]), "records")
        expected = [
            ("1 requests and 0 responses have the id 'alone'", "alone"),
            ("0 requests and 1 responses have the id 'lost'", "lost"),
        ]
        assert_that(dead, equal_to(expected), "dead")


# --- dead letters, once more ----------------------------------------------------------------------


def test_dead_letters_are_driven_again(tmp_path: Path) -> None:
    """The original row is read as if it came now; whole files and other lines are refused."""
    letters = [
        DeadLetter("a", Stage.VERIFY, R.TIMEOUT, "m", json.dumps(GOOD).encode()),
        DeadLetter(None, Stage.READ, R.INVALID_UTF8, "m", b"\xff\xfe"),
        DeadLetter(None, Stage.READ, R.UNREADABLE_FILE, "m", b"/x.parquet"),
    ]
    path = write(tmp_path / "part-0.jsonl", *(d.to_json() for d in letters), {"no": "letter"})
    record, raw, whole, foreign = results(path, InputFormat.DEAD_LETTER)
    assert (record.id, record.output) == ("a", {"x": 1})
    assert (raw.reason, raw.payload) == (R.INVALID_UTF8, b"\xff\xfe")
    assert (whole.reason, "/x.parquet" in whole.message) == (R.UNREADABLE_FILE, True)
    assert foreign.reason is R.INVALID_RECORD


def test_formats_are_told_by_name_and_not_mixed(tmp_path: Path) -> None:
    """JSON and other files together are refused; typed carrying is for JSON."""
    write(tmp_path / "a.jsonl", GOOD)
    assert plan(tmp_path / "a.jsonl").source.format is InputFormat.JSONL
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(UsageError, match="JSON and other files together"):
        plan(tmp_path)
    with pytest.raises(UsageError, match="--carry is for JSON input"):
        plan(tmp_path / "b.parquet", carry=parse_carry("n:int64"))
