"""Which endpoint a --verifier names, and what is sent there."""

import json
from typing import Any

import pytest

from schemas.errors import UsageError
from scoring.prompt import data_block, render
from tests.support.builders import TEMPLATES, record
from verifier.endpoint import parse_endpoint
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
    assert (endpoint.url, endpoint.model) == (url, "m")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("gpt-4.1-mini", "not understood; use embedded, openai:"),
        ("openai:", "names no model"),
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
    assert "secret" not in str(error.value)


def test_the_key_is_read_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the Authorization header holds it; a missing variable is named."""
    endpoint = parse_endpoint("openai:m", "MY_KEY")
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(UsageError, match="MY_KEY is not set"):
        endpoint.headers()
    monkeypatch.setenv("MY_KEY", " sk-marker \n")
    assert endpoint.headers()["Authorization"] == "Bearer sk-marker"
    assert "sk-marker" not in repr(endpoint)
    assert "Authorization" not in parse_endpoint("http://h.example#m").headers()


@pytest.mark.parametrize(
    ("host", "header"),
    [
        ("res.openai.azure.com", "api-key"),
        ("res.cognitiveservices.azure.com", "api-key"),
        ("res.services.ai.azure.com", "api-key"),
        ("res.openai.azure.com.example", "Authorization"),
        ("azure.example", "Authorization"),
    ],
)
def test_azure_takes_the_key_in_a_header_of_its_own(
    host: str, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In that one alone: elsewhere it is the usual one."""
    monkeypatch.setenv("MY_KEY", "marker")
    headers = parse_endpoint(f"https://{host}/openai/v1#m", "MY_KEY").headers()
    assert [name for name, value in headers.items() if "marker" in value] == [header]


@pytest.mark.parametrize("key", ["sk-secret\nx", "sk-secret\x00", "sk-secret\N{EM DASH}x"])
def test_a_key_that_no_header_can_carry_is_refused(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line break or a typographic dash from copying: said before anything is sent."""
    monkeypatch.setattr("verifier.endpoint.os.environ", {"MY_KEY": key})
    with pytest.raises(UsageError, match="MY_KEY") as error:
        parse_endpoint("openai:m", "MY_KEY").headers()
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("target", "env", "expected"),
    [
        ("openai:m", None, "OPENAI_API_KEY"),
        ("openai:m", "MINE", "MINE"),
        ("http://h.example#m", None, None),
        ("http://h.example#m", "MINE", "MINE"),
        ("embedded", "MINE", None),
    ],
)
def test_which_variable_holds_the_key(target: str, env: str | None, expected: str | None) -> None:
    """OpenAI has a usual one; other servers need none; the embedded verifier never."""
    endpoint = parse_endpoint(target, env)
    assert endpoint.api_key_env == expected
    assert endpoint.embedded == (target == "embedded")


def test_a_model_name_may_hold_anything() -> None:
    """A path, a tag, another #: all after the first # is the model."""
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
