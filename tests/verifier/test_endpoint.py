"""Which endpoint a --verifier names, and what is sent there."""

import json
from typing import Any

import pytest

from schemas.errors import UsageError
from scoring.prompt import data_block, render
from tests.support.builders import TEMPLATES, record
from verifier.endpoint import parse_endpoint
from verifier.key_source import KeySource, google_tokens, variable
from verifier.request import Dialect, RequestWriter, Structure
from verifier.settings import VerifierSettings


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("http://host.example/v1#m", "http://host.example/v1/chat/completions"),
        ("http://host.example/v1/#m", "http://host.example/v1/chat/completions"),
        ("http://host.example/v1/chat/completions#m", "http://host.example/v1/chat/completions"),
        ("https://host.example#m", "https://host.example/v1/chat/completions"),
        ("https://host.example/#m", "https://host.example/v1/chat/completions"),
        ("https://res.example/openai/v1/#m", "https://res.example/openai/v1/chat/completions"),
        (
            "https://res.example/openai/deployments/judge?api-version=2024-10-21#m",
            "https://res.example/openai/deployments/judge/chat/completions?api-version=2024-10-21",
        ),
        ("openai:m", "https://api.openai.com/v1/chat/completions"),
        (
            "https://res.example/openai/deployments/judge/?api-version=2024-10-21#m",
            "https://res.example/openai/deployments/judge/chat/completions?api-version=2024-10-21",
        ),
        (
            "https://res.example/openai/deployments/judge/chat/completions?api-version=2024-10-21#m",
            "https://res.example/openai/deployments/judge/chat/completions?api-version=2024-10-21",
        ),
        (
            "https://res.openai.azure.com/openai/deployments/j?x=1&api-version=2024-10-21&y=%2F#m",
            "https://res.openai.azure.com/openai/deployments/j/chat/completions?x=1&api-version=2024-10-21&y=%2F",
        ),
        (
            "https://res.openai.azure.com#m",
            "https://res.openai.azure.com/openai/v1/chat/completions",
        ),
        (
            "https://res.openai.azure.com/openai/#m",
            "https://res.openai.azure.com/openai/v1/chat/completions",
        ),
        (
            "https://res.openai.azure.com/openai/v1#m",
            "https://res.openai.azure.com/openai/v1/chat/completions",
        ),
        (
            "https://res.services.ai.azure.com/models?api-version=2024-05-01-preview#m",
            "https://res.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview",
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai/#m",
            "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
        ),
        (
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi#m",
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
        ),
        (
            "https://res.openai.azure.com?api-version=2024-10-21#m",
            "https://res.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-10-21",
        ),
        (
            "azure:https://res.openai.azure.com/openai?api-version=preview#m",
            "https://res.openai.azure.com/openai/v1/chat/completions?api-version=preview",
        ),
        (
            "azure:https://res.openai.azure.com/openai/deployments/m/chat/completions?api-version=2025-01-01-preview",
            "https://res.openai.azure.com/openai/deployments/m/chat/completions?api-version=2025-01-01-preview",
        ),
        ("azure:https://gateway.example/llm#m", "https://gateway.example/llm/chat/completions"),
        (
            "gemini:m",
            "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
        ),
        ("ollama:m", "http://localhost:11434/v1/chat/completions"),
        ("Ollama: m", "http://localhost:11434/v1/chat/completions"),
        ("ollama:http://gpu.example:11434#m", "http://gpu.example:11434/v1/chat/completions"),
        ("vllm:m", "http://localhost:8000/v1/chat/completions"),
        ("vllm:https://gpu.example/judge/v1#m", "https://gpu.example/judge/v1/chat/completions"),
        ("openai:https://proxy.example/v1#m", "https://proxy.example/v1/chat/completions"),
        (
            "vertex:https://1.us-east1-2.prediction.vertexai.goog/v1/projects/2/locations/us-east1/endpoints/1#m",
            "https://1.us-east1-2.prediction.vertexai.goog/v1/projects/2/locations/us-east1/endpoints/1/chat/completions",
        ),
        (
            "vertex:p/us-central1#meta/m",
            "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/endpoints/openapi/chat/completions",
        ),
        ("http://[::1]:8000/v1#m", "http://[::1]:8000/v1/chat/completions"),
        ("HTTP://host.example:8000#m", "http://host.example:8000/v1/chat/completions"),
        (" http://host.example/v1#m\n", "http://host.example/v1/chat/completions"),
        ("http://host.example/v1/chat/completions/#m", "http://host.example/v1/chat/completions"),
        ("http://host.example/team/llm/v1#m", "http://host.example/team/llm/v1/chat/completions"),
    ],
)
def test_urls_are_joined(target: str, url: str) -> None:
    """Base URLs in every form; a query stays, a full URL is not doubled, a bare host means /v1."""
    endpoint = parse_endpoint(target)
    assert (endpoint.url, endpoint.model.removeprefix("meta/")) == (url, "m")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("gpt-4.1-mini", "not understood; use embedded, openai:"),
        ("openai:", "names no model, like openai:"),
        ("mistral:large", "not understood"),
        ("ftp://user:secret@host.example/v1#m", "not understood"),
        ("azure:judge", "names no URL; use azure:https://"),
        ("vertex:gemini", "not understood; use vertex:my-project"),
        ("vertex:p/l/x#m", "not understood"),
        ("vertex:p/l#", "not understood"),
        ("vertex:p/l.evil.example/#m", "not understood"),
        ("gemini:https://user:secret@host.example/v1#m", "credentials"),
        ("azure:https://host.example?api-key=secret#m", "credentials"),
        ("ollama:http://host.example", "name the model after a #"),
        ("http://host.example/v1", "name the model after a #"),
        ("https://user:secret@host.example/v1#m", "credentials"),
        ("https://secret@host.example/v1#m", "credentials"),
        ("https://user:secret@host.example/v1", "credentials"),
        ("https://host.example/v1?key=secret#m", "credentials"),
        ("https://host.example/v1?api-version=1&API-Key=secret#m", "credentials"),
        ("https://host.example/v1?access_token=secret", "credentials"),
        (
            "https://r.openai.azure.com/openai/deployments/j#m",
            r"needs a version; add \?api-version=",
        ),
        ("http:///v1#m", "no host"),
        ("http://host.example:99999/v1#m", "no valid URL"),
        ("http://host.example:secret/v1#m", "no valid URL"),
        ("http://[::1/v1#m", "no valid URL"),
        ("", "not understood"),
    ],
)
def test_bad_targets_are_refused(target: str, message: str) -> None:
    """The error says what to write instead, and repeats no secret."""
    with pytest.raises(UsageError, match=message) as error:
        parse_endpoint(target)
    assert "secret" not in str(error.value).replace("--api_key_secret", "")


def test_the_key_is_in_one_header() -> None:
    """A bearer token, on Azure a header of its own; none without a key."""
    plain = {"Content-Type": "application/json"}
    for target, header in (
        ("openai:m", {"Authorization": "Bearer k"}),
        ("http://h.example#m", {"Authorization": "Bearer k"}),
        ("https://res.openai.azure.com#m", {"api-key": "k"}),
        ("https://res.cognitiveservices.azure.com#m", {"api-key": "k"}),
        ("https://res.services.ai.azure.com#m", {"api-key": "k"}),
        ("azure:https://gateway.example/base#m", {"api-key": "k"}),
        ("https://res.openai.azure.com.example#m", {"Authorization": "Bearer k"}),
        ("https://azure.example#m", {"Authorization": "Bearer k"}),
    ):
        endpoint = parse_endpoint(target)
        assert endpoint.headers("k") == plain | header
        assert endpoint.headers(None) == plain


MINE = variable("MINE")


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        ("openai:m", None, variable("OPENAI_API_KEY")),
        ("openai:m", MINE, MINE),
        ("openai:https://proxy.example/v1#m", None, variable("OPENAI_API_KEY")),
        ("https://api.openai.com/v1#m", None, None),
        ("gemini:m", None, variable("GEMINI_API_KEY")),
        ("azure:https://r.openai.azure.com#m", None, variable("AZURE_OPENAI_API_KEY")),
        ("vertex:p/global#m", None, google_tokens()),
        ("vertex:p/global#m", MINE, MINE),
        ("ollama:m", None, None),
        ("ollama:m", MINE, MINE),
        ("vllm:m", None, None),
        ("http://h.example#m", None, None),
        ("http://h.example#m", MINE, MINE),
        ("embedded", MINE, None),
    ],
)
def test_where_the_key_comes_from(
    target: str, given: KeySource | None, expected: KeySource | None
) -> None:
    """Hosted providers have a usual one; URLs and servers of your own need none."""
    endpoint = parse_endpoint(target, given)
    assert endpoint.key == expected
    assert endpoint.embedded == (target == "embedded")


@pytest.mark.parametrize(
    ("target", "key", "refused"),
    [
        ("vertex:http://h.example/v1#m", None, True),
        ("vertex:https://h.example/v1#m", None, False),
        ("vertex:http://127.0.0.1:8000/v1#m", None, False),
        ("vertex:http://h.example/v1#m", MINE, False),
    ],
)
def test_a_google_token_is_not_sent_in_clear(
    target: str, key: KeySource | None, refused: bool
) -> None:
    """It opens more than the model; this machine may see it."""
    if not refused:
        assert parse_endpoint(target, key).model == "m"
        return
    with pytest.raises(UsageError, match="https only"):
        parse_endpoint(target, key)


def test_a_model_name_may_hold_anything() -> None:
    """A path, a tag, another #: all after the first # is the model, or after a provider's colon."""
    assert parse_endpoint("ollama:hf.co/org/model:Q4").model == "hf.co/org/model:Q4"
    assert parse_endpoint("vertex:p/global#gemini-2.5-pro").model == "google/gemini-2.5-pro"
    assert parse_endpoint("vertex:p/global#deepseek-ai/r1").model == "deepseek-ai/r1"
    endpoint = parse_endpoint("http://h.example/v1#org/model:7b#q4")
    assert (endpoint.url, endpoint.model) == (
        "http://h.example/v1/chat/completions",
        "org/model:7b#q4",
    )


ONE = record({"a": 1, "b": 2})
WRITER = RequestWriter("m", TEMPLATES.templates)


def body_of(name: str, dialect: Dialect) -> dict[str, Any]:
    data = WRITER.data_message(data_block(ONE), ONE.fields)
    return dict(json.loads(WRITER.body(TEMPLATES[name], ONE.fields, data, dialect)))


@pytest.mark.parametrize("name", TEMPLATES.names)
def test_the_schema_is_valid_in_strict_mode(name: str) -> None:
    """Every object lists all its properties as required and allows no others."""
    body = body_of(name, Dialect())
    rendered = render(TEMPLATES[name], data_block(ONE), ONE.fields)
    assert body["messages"] == rendered.messages
    assert (body["model"], body["temperature"]) == ("m", 0)
    assert body["max_tokens"] == rendered.completion_limit
    if name == "document_critique":
        assert "response_format" not in body
        return
    wanted = body["response_format"]["json_schema"]
    assert wanted["strict"] is True

    def check(schema: dict[str, object]) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict):
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(properties)
            for part in properties.values():
                check(part)
        items = schema.get("items")
        if isinstance(items, dict):
            check(items)

    check(wanted["schema"])


def test_a_dialect_loses_what_was_refused() -> None:
    """response_format steps down twice, max_tokens is renamed, then dropped, then nothing is left."""
    dialect: Dialect | None = Dialect()
    seen = []
    for parameter in (
        "response_format",
        "response_format",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
    ):
        assert dialect is not None
        dialect = dialect.without(parameter)
        seen.append(dialect)
    assert [d and d.structure for d in seen[:2]] == [Structure.JSON_OBJECT, Structure.NONE]
    assert seen[2] is not None
    assert seen[2].limit_key == "max_completion_tokens"
    assert dialect is not None
    body = body_of("fields_numeric", dialect)
    assert set(body) == {"model", "messages"}
    assert dialect.without("temperature") is None
    assert dialect.without("response_format") is None
    assert dialect.without("seed") is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"record_timeout": 240}, "record_timeout"),
        ({"attempt_timeout": 0}, "attempt_timeout"),
        ({"attempt_timeout": 200}, "deadlines must not shrink"),
        ({"call_timeout": 230}, "deadlines must not shrink"),
    ],
)
def test_settings_are_checked(settings: dict[str, float], message: str) -> None:
    """No limit of 0 or None, no deadline longer than the one around it."""
    with pytest.raises(ValueError, match=message):
        VerifierSettings(target="embedded", **settings)
