"""What a target leaves to the environment of whoever submits, and to which provider it belongs."""

import pytest

from schemas.errors import UsageError
from tests.support.builders import pickled
from verifier.endpoint import parse_endpoint
from verifier.providers import PROVIDERS, ollama_url, resolve
from verifier.settings import VerifierSettings

AZURE = {"AZURE_OPENAI_ENDPOINT": "https://res.openai.azure.com/"}
GOOGLE = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}


@pytest.mark.parametrize(
    ("target", "environ", "resolved"),
    [
        ("azure:judge", AZURE, "azure:https://res.openai.azure.com/#judge"),
        (
            "azure:judge",
            AZURE | {"OPENAI_API_VERSION": "2024-10-21"},
            "azure:https://res.openai.azure.com/?api-version=2024-10-21#judge",
        ),
        ("azure:https://other.example#j", AZURE, "azure:https://other.example#j"),
        ("vertex:gemini-2.5-flash", GOOGLE, "vertex:p/europe-west4#gemini-2.5-flash"),
        ("vertex:p2/global#m", GOOGLE, "vertex:p2/global#m"),
        ("ollama:llama3.1:8b", {}, "ollama:llama3.1:8b"),
        ("ollama:m", {"OLLAMA_HOST": "gpu:1234"}, "ollama:http://gpu:1234/v1#m"),
        (" openai:m ", AZURE | GOOGLE, "openai:m"),
        ("http://h.example/v1#m", AZURE | GOOGLE, "http://h.example/v1#m"),
        ("embedded", AZURE, "embedded"),
        ("nonsense", AZURE, "nonsense"),
        ("azure:", {}, "azure:"),
    ],
)
def test_targets_are_written_out(target: str, environ: dict[str, str], resolved: str) -> None:
    """With the variables that each provider's own clients read; once is enough."""
    assert resolve(target, environ) == resolved
    assert resolve(resolved, {}) == resolved


@pytest.mark.parametrize(
    ("target", "environ", "message"),
    [
        ("azure:judge", {}, "AZURE_OPENAI_ENDPOINT, or use azure:https://RESOURCE.*#judge"),
        ("azure:judge", {"AZURE_OPENAI_ENDPOINT": "res"}, "needs the resource's URL"),
        ("vertex:m", {}, "GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or use vertex:"),
        ("vertex:m", {"GOOGLE_CLOUD_PROJECT": "p"}, "GOOGLE_CLOUD_LOCATION"),
        ("ollama:m", {"OLLAMA_HOST": "user:secret@h"}, "OLLAMA_HOST: a URL with credentials"),
        ("ollama:m", {"OLLAMA_HOST": "h:port"}, "OLLAMA_HOST holds no host"),
    ],
)
def test_a_missing_variable_is_named(target: str, environ: dict[str, str], message: str) -> None:
    """With what to write instead, and no secret."""
    with pytest.raises(UsageError, match=message) as error:
        resolve(target, environ)
    assert "secret" not in str(error.value)


def test_settings_take_the_submission_s_environment_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker without the variables calls the same URL."""
    for name, value in AZURE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    settings = VerifierSettings(target="azure:judge")
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT")
    endpoint = pickled(settings).endpoint
    assert endpoint.url == "https://res.openai.azure.com/openai/v1/chat/completions"
    assert endpoint.model == "judge"


def test_each_example_is_understood() -> None:
    """Those that errors show."""
    for provider in PROVIDERS.values():
        assert parse_endpoint(provider.example).url.endswith("/chat/completions")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.0.0.7", "http://10.0.0.7:11434/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("https://h.example", "https://h.example/v1"),
        ("h.example/ollama/", "http://h.example:11434/ollama/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
    ],
)
def test_ollama_host(host: str, url: str) -> None:
    """Scheme and port may be missing; with a scheme its usual port counts."""
    assert ollama_url(host) == url
