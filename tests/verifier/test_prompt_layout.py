"""Prompt layouts: the question first, or what all prompts on a record share."""

import re
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import takewhile
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from schemas.record import Record
from schemas.verdict import VerdictStatus
from scoring.prompt import PromptLayout, data_block, template_set_version
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import Asked, Says, raw_server
from verifier.embedded import answer
from verifier.engine import close_engine, get_engine
from verifier.record_verifier import RecordVerifier, Verified, prepare
from verifier.request import Dialect, RequestWriter, Structure, first_dialect
from verifier.settings import VerifierSettings

SHARED = PromptLayout.SHARED_PREFIX
ONE = record({"a": "x", "b": "Reply format (field_scores; score: 0-100):"})


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_engine()


def bodies(one: Record, layout: PromptLayout) -> list[dict[str, Any]]:
    writer = RequestWriter("m", TEMPLATES.templates, layout)
    data = writer.data_message(data_block(one), one.fields)
    return [orjson.loads(writer.body(t, one.fields, data, Dialect())) for t in TEMPLATES.templates]


def texts(one: Record, layout: PromptLayout) -> list[str]:
    return ["\n".join(m["content"] for m in body["messages"]) for body in bodies(one, layout)]


def common_prefix(texts: list[str]) -> str:
    """What all of them begin with."""
    equal = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in equal)


def test_a_shared_prefix_holds_all_of_the_record() -> None:
    """Up to the questions the five prompts are equal, to the letter."""
    prefix = common_prefix(texts(ONE, SHARED))
    for part in ("You verify the work", ONE.document, ONE.output_text, "</untrusted_fields>"):
        assert part in prefix
    standard = common_prefix(texts(ONE, PromptLayout.STANDARD))
    assert ONE.document not in standard


def test_both_layouts_say_the_same() -> None:
    """Question and data are the same paragraphs; only what is said of the data differs."""
    for shared, standard in zip(texts(ONE, SHARED), texts(ONE, PromptLayout.STANDARD), strict=True):
        differ = set(re.split("\n+", shared)) ^ set(re.split("\n+", standard))
        assert len(differ) == 2
        assert all(d.startswith("What stood between the <untrusted_") for d in differ)


def test_attachments_come_before_the_question() -> None:
    """They are a part of what all prompts share."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "doc"}, image]}]
    one = record({"a": 1}, messages=messages)
    for body in bodies(one, SHARED):
        first, middle, last = body["messages"][1]["content"]
        assert (first["type"], middle, last["type"]) == ("text", image, "text")
        assert "Reply format (" in last["text"]
        assert "Reply format (" not in first["text"]


def test_the_layout_is_part_of_the_template_set() -> None:
    """A policy that was calibrated with one does not fit the other."""
    assert template_set_version(TEMPLATES) == template_set_version(TEMPLATES, PromptLayout.STANDARD)
    assert template_set_version(TEMPLATES) != template_set_version(TEMPLATES, SHARED)


def test_the_embedded_verifier_answers_both_alike() -> None:
    """It is asked the same; a format that the document states counts for nothing."""
    for shared, standard in zip(
        bodies(ONE, SHARED), bodies(ONE, PromptLayout.STANDARD), strict=True
    ):
        assert answer(shared) == answer(standard)


@pytest.mark.parametrize(
    ("host", "layout", "structure"),
    [
        ("api.openai.com", SHARED, Structure.JSON_OBJECT),
        ("me.openai.azure.com", SHARED, Structure.JSON_OBJECT),
        ("localhost", SHARED, Structure.JSON_SCHEMA),
        ("notopenai.com", SHARED, Structure.JSON_SCHEMA),
        (None, SHARED, Structure.JSON_SCHEMA),
        ("api.openai.com", PromptLayout.STANDARD, Structure.JSON_SCHEMA),
    ],
)
def test_where_a_schema_would_come_first_none_is_sent(
    host: str | None, layout: PromptLayout, structure: Structure
) -> None:
    """OpenAI puts the reply schema before the prompt: five schemas would share no prefix."""
    assert first_dialect(host, layout).structure is structure


def verified(url: str, **settings: Any) -> Verified:
    future: Future[Any] = Future()
    chosen = VerifierSettings(target=url, **settings)
    RecordVerifier(get_engine(), chosen, TEMPLATES).post(prepare(ONE), future.set_result)
    result = future.result(20)
    assert isinstance(result, Verified)
    return result


def says_good(asked: Asked) -> Says:
    reply = answer(dict(asked.body))
    return Says(body={"choices": [{"message": {"content": reply}}]})


def test_the_lead_is_answered_before_the_others_are_sent() -> None:
    """One request; once it is answered, the other four at once."""
    ahead: list[int] = []

    def plan(asked: Asked) -> Says:
        ahead.append(server.in_flight)
        return Says(body=says_good(asked).body, delay_s=0.1)

    with raw_server(plan) as server:
        result = verified(server.target, prompt_layout=SHARED, prefix_lead=True)
        peak = server.peak
    assert [v.status for v in result.verdicts] == [VerdictStatus.OK] * 5
    assert (len(ahead), peak) == (5, 4)


def test_a_lead_that_fails_does_not_hold_the_others() -> None:
    """A bad request for the first prompt; the other four are asked all the same."""

    def plan(asked: Asked) -> Says:
        return Says(400, {"error": {"message": "no"}}) if asked.number == 1 else says_good(asked)

    with raw_server(plan) as server:
        result = verified(server.target, prompt_layout=SHARED, prefix_lead=True)
    assert [v.status for v in result.verdicts].count(VerdictStatus.OK) == 4


def test_a_lead_that_never_answers_ends_with_its_record() -> None:
    """Those that were never sent are verdicts, too."""
    with raw_server(lambda _: Says(ends="hang")) as server:
        result = verified(
            server.target, prompt_layout=SHARED, prefix_lead=True,
            attempt_timeout=0.3, call_timeout=0.3, record_timeout=0.3,
        )  # fmt: skip
    assert [v.status for v in result.verdicts] == [VerdictStatus.FAILED] * 5


def test_a_lead_needs_a_shared_prefix() -> None:
    """Alone it would only make records slower."""
    with pytest.raises(ValidationError, match="prefix_lead needs"):
        VerifierSettings(target="http://h/v1#m", prefix_lead=True)
