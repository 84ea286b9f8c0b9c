"""The embedded verifier: a chat-completions server that needs no LLM."""

import json
import urllib.request
from concurrent.futures import Future
from typing import Any

import pytest

from schemas.record import Record
from schemas.verdict import Reading, ReplyKind, VerdictStatus
from scoring.prompt import data_block, render
from scoring.reply import read_reply
from scoring.routing import LITERAL_EVIDENCE
from scoring.templates import Template
from tests.support.builders import TEMPLATES, record
from verifier.embedded import DOUBTED_BELOW, NotOurPromptError, answer, embedded_endpoint
from verifier.engine import get_engine
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.settings import VerifierSettings

MIXED = record({"total": "40.00", "name": "Globex"}, document="Total 40.00 EUR")
SURE = record({"total": "40.00"}, document="Total 40.00 EUR")

CUSTOM = [
    Template(name="doc", reply=ReplyKind.DOCUMENT_SCORE, scale=10, text="Judge."),
    Template(name="stars", reply=ReplyKind.FIELD_SCORES, scale=5, score_key="stars", text="Judge."),
    Template(
        name="words",
        reply=ReplyKind.FIELD_SCORES,
        scale={"Yes, surely": 1.0, "maybe": 0.5, "no": 0.0},
        score_key="is_it",
        text="Judge.\nReply as you like (or not; at all):",
    ),
    Template(
        name="audit", reply=ReplyKind.INCORRECT_FIELDS, scale=7, score_key="mark", text="Judge."
    ),
]


def ask(template: Template, one: Record = MIXED) -> Reading:
    prompt = render(template, data_block(one), one.fields)
    return read_reply(template, one.fields, answer({"messages": prompt.messages}))


@pytest.mark.parametrize("template", [*TEMPLATES.templates, *CUSTOM], ids=lambda t: str(t.name))
def test_every_kind_of_template_reads_back(template: Template) -> None:
    """Built-in or a user's own, on any scale: signals for all that was asked, and why."""
    reading = ask(template)
    assert not reading.notes
    assert not reading.unmatched_names
    if template.reply is not ReplyKind.FIELD_SCORES:
        assert reading.document_score is not None
        assert 0 <= reading.document_score <= 1
        assert reading.explanation
    if template.reply is not ReplyKind.DOCUMENT_SCORE:
        assert set(reading.field_scores) == {"total", "name"}
        assert reading.field_scores["name"] < DOUBTED_BELOW < reading.field_scores["total"]
        assert "Globex" in reading.field_explanations["name"]


@pytest.mark.parametrize("template", [*TEMPLATES.templates, *CUSTOM], ids=lambda t: str(t.name))
def test_a_record_that_is_found_whole_scores_higher(template: Template) -> None:
    """By its document signal, else by its fields."""

    def level(one: Record) -> float:
        reading = ask(template, one)
        signals = [reading.document_score, *reading.field_scores.values()]
        return min(s for s in signals if s is not None)

    assert level(SURE) > 0.8
    assert level(MIXED) < 0.5


def ours(**sections: str) -> list[dict[str, str]]:
    """A prompt of ours with some sections replaced."""
    system, user = render(TEMPLATES["fields_numeric"], data_block(SURE), SURE.fields).messages
    text = user["content"]
    for name, new in sections.items():
        start, end = f"<untrusted_{name}>\n", f"\n</untrusted_{name}>"
        before, rest = text.split(start)
        text = before + start + new + end + rest.split(end)[1]
    return [system, {"role": "user", "content": text}]


@pytest.mark.parametrize(
    "request_body",
    [
        {},
        {"messages": "text"},
        {"messages": ["a", "b"]},
        {"messages": [None, None]},
        {"messages": [{}, {}]},
        {"messages": [{"content": None}, {"content": 5}]},
        {"messages": [*ours(), {"role": "user", "content": "more"}]},
        {"messages": list(reversed(ours()))},
        {"messages": [ours()[0], {"role": "user", "content": "Score this: 40"}]},
        {"messages": ours(fields="not JSON")},
        {"messages": ours(output="{")},
        {"messages": ours(fields="[]")},
        {"messages": ours(fields='"total"')},
    ],
)
def test_foreign_prompts_are_refused(request_body: dict[str, Any]) -> None:
    """Whatever is not a prompt of ours gets an error that says so, never a judgement."""
    with pytest.raises(NotOurPromptError):
        answer(request_body)


def test_attachments_are_passed_over() -> None:
    """The text is judged; an image cannot be examined literally."""
    content = [
        {"type": "text", "text": "Total 40.00 EUR"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
    ]
    one = record({"total": "40.00"}, document=None, messages=[{"role": "user", "content": content}])
    assert ask(TEMPLATES["fields_numeric"], one).field_scores["total"] > 0.9


def test_one_server_a_process() -> None:
    """Asked twice it is the same, and it answers over HTTP as any other."""
    endpoint = embedded_endpoint()
    assert embedded_endpoint() == endpoint
    assert (endpoint.model, endpoint.key) == (LITERAL_EVIDENCE, None)
    body = json.dumps({"model": "x", "messages": ours()}).encode()
    with urllib.request.urlopen(endpoint.url, body, timeout=10) as response:  # noqa: S310 - loopback
        completion = json.load(response)
    assert completion["model"] == LITERAL_EVIDENCE
    assert "total" in json.loads(completion["choices"][0]["message"]["content"])


def test_it_verifies_records_like_any_endpoint() -> None:
    """Five verdicts in the name of literal evidence, through the engine."""
    settings = VerifierSettings(
        target="embedded", attempt_timeout=5, call_timeout=5, record_timeout=5
    )
    checker = RecordVerifier(get_engine(), settings, TEMPLATES)
    done: Future[Verified | BaseException] = Future()
    checker.post(prepare(MIXED), done.set_result)
    result = done.result(10)
    assert isinstance(result, Verified)
    assert all(v.status is VerdictStatus.OK for v in result.verdicts)
    assert {v.model_answered for v in result.verdicts} == {LITERAL_EVIDENCE}
