"""Each provider end to end: what arrives at a server in its place, and keys that change."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import RunStoppedError, UsageError
from scoring.templates import TemplateSet
from tests.support.builders import TEMPLATES
from tests.support.google import FakeGoogle, fake_google, use
from tests.support.scripted import Asked, Says, raw_server, says_error
from verifier import backoff, google_keys
from verifier.credential import PAUSE_S
from verifier.engine import close_engine
from verifier.scorer import Scorer
from verifier.settings import VerifierSettings

ONE = TemplateSet(templates=(TEMPLATES["fields_numeric"],))
RECORD = {"document": "Total 40.00", "output": {"total": "40.00"}}
SECRET = "projects/p/secrets/judge/versions/latest"
IMAGE = "data:image/png;base64," + base64.b64encode(b"png").decode()


@pytest.fixture(autouse=True)
def _own_engine() -> Iterator[None]:
    yield
    close_engine()
    google_keys._credentials.cache_clear()


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeGoogle]:
    with fake_google() as running:
        use(running, monkeypatch, tmp_path)
        yield running


def scorer(target: str, **settings: Any) -> Scorer:
    return Scorer(VerifierSettings(target=target, **settings), templates=ONE)


def bearer(asked: Asked) -> str:
    return asked.headers["Authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize(
    ("target", "environ", "sent_to", "header"),
    [
        (
            "openai:{root}/v1#gpt-4.1-mini",
            {"OPENAI_API_KEY": "the-key"},
            ("/v1/chat/completions", "gpt-4.1-mini"),
            ("Authorization", "Bearer the-key"),
        ),
        (
            "azure:judge",
            {"AZURE_OPENAI_ENDPOINT": "{root}/", "AZURE_OPENAI_API_KEY": "the-key"},
            ("/openai/v1/chat/completions", "judge"),
            ("api-key", "the-key"),
        ),
        (
            "azure:judge",
            {
                "AZURE_OPENAI_ENDPOINT": "{root}",
                "OPENAI_API_VERSION": "2024-10-21",
                "AZURE_OPENAI_API_KEY": "the-key",
            },
            ("/openai/deployments/judge/chat/completions?api-version=2024-10-21", "judge"),
            ("api-key", "the-key"),
        ),
        (
            "gemini:{root}/v1beta/openai#gemini-2.5-flash",
            {"GEMINI_API_KEY": "the-key"},
            ("/v1beta/openai/chat/completions", "gemini-2.5-flash"),
            ("Authorization", "Bearer the-key"),
        ),
        (
            "vertex:{root}/v1/projects/p/locations/l/endpoints/openapi#google/gemini-2.5-flash",
            {},
            (
                "/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
                "google/gemini-2.5-flash",
            ),
            ("Authorization", "Bearer token-1"),
        ),
        (
            "ollama:llama3.1:8b",
            {"OLLAMA_HOST": "{root}"},
            ("/v1/chat/completions", "llama3.1:8b"),
            None,
        ),
        ("vllm:{root}/v1#Qwen/Qwen2.5-7B", {}, ("/v1/chat/completions", "Qwen/Qwen2.5-7B"), None),
    ],
)
@pytest.mark.usefixtures("google")
def test_what_arrives(
    target: str,
    environ: dict[str, str],
    sent_to: tuple[str, str],
    header: tuple[str, str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Path, model, and the key in one header; the record is scored."""
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    with raw_server() as server:
        for name, value in environ.items():
            monkeypatch.setenv(name, value.format(root=server.root))
        scored = scorer(target.format(root=server.root)).score_sync(RECORD)
        (asked,) = server.asked
    assert scored.trustworthiness_score is not None
    assert (asked.path, asked.body["model"]) == sent_to
    found = {n: v for n, v in asked.headers.items() if n.lower() in {"authorization", "api-key"}}
    assert found == ({} if header is None else dict([header]))


def test_images_arrive_as_they_are() -> None:
    """Content parts of the generator's request come to the verifier behind our text."""
    part = {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Total 40.00"}, part]}]
    with raw_server() as server:
        scorer(server.target).score_sync(messages=messages, output={"total": "40.00"})
        (asked,) = server.asked
    content = asked.body["messages"][1]["content"]
    assert content[0]["type"] == "text"
    assert content[1:] == [part]


def keys_that_are(valid: Callable[[], bytes], refusal: Says) -> Callable[[Asked], Says | None]:
    """A server that refuses all keys but one."""
    return lambda asked: None if bearer(asked) == valid().decode() else refusal


UNAUTHORIZED = says_error(401, "Incorrect API key provided", code="invalid_api_key")
GEMINI_REFUSES = Says(
    400,
    [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}],
)


@pytest.mark.parametrize("refusal", [UNAUTHORIZED, GEMINI_REFUSES])
def test_a_rotated_secret_costs_no_record(refusal: Says, google: FakeGoogle) -> None:
    """A key is refused in the middle of a run: its secret is read again, all stages of the process
    have the new one from then on, and records see nothing of it."""
    google.secrets[SECRET] = b"old"
    with raw_server(keys_that_are(lambda: google.secrets[SECRET], refusal)) as server:
        stages = [scorer(server.target, api_key_secret=SECRET) for _ in range(2)]
        stages[0].score_sync(RECORD)
        google.secrets[SECRET] = b"new"
        credential = stages[0]._verifier._caller.state.credential
        credential._tried_at -= PAUSE_S
        for stage in stages:
            usage = stage.score_sync(RECORD).usage
            assert usage.calls == 1
        assert [bearer(asked) for asked in server.asked] == ["old", "old", "new", "new"]
    assert len(google.asked) == 2


def test_a_secret_that_is_gone_stops_the_run(google: FakeGoogle) -> None:
    """Its key is refused, and there is no other: one error that names the secret, for all."""
    google.secrets[SECRET] = b"old"
    with raw_server(lambda _: UNAUTHORIZED) as server:
        judge = scorer(server.target, api_key_secret=SECRET)
        del google.secrets[SECRET]
        judge._verifier._caller.state.credential._tried_at -= PAUSE_S
        for _ in range(3):
            with pytest.raises(RunStoppedError, match=f"auth.*{SECRET} cannot be read"):
                judge.score_sync(RECORD)
        assert len(server.asked) == 1


def test_a_token_is_renewed_before_its_end(google: FakeGoogle) -> None:
    """Calls go on with the old one while the next is fetched."""
    with raw_server() as server:
        judge = scorer(f"vertex:{server.url}#m")
        judge.score_sync(RECORD)
        judge._verifier._caller.state.credential._renew_at = 0.0
        for _ in range(100):
            judge.score_sync(RECORD)
            if bearer(server.asked[-1]) == "token-2":
                break
        assert {bearer(asked) for asked in server.asked} == {"token-1", "token-2"}
    assert google.tokens == 2


def test_a_token_that_cannot_be_had_is_waited_for(
    google: FakeGoogle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token server is down for a while: calls are tried again, none is sent without a token."""
    monkeypatch.setattr(backoff, "BASE_S", 0.01)
    with raw_server() as server:
        judge = scorer(f"vertex:{server.url}#m")
        judge._verifier._caller.state.credential.expire()
        google.failing = iter([503] * 4)
        assert judge.score_sync(RECORD).trustworthiness_score is not None
        assert [bearer(asked) for asked in server.asked] == ["token-2"]


def test_a_missing_secret_is_said_at_once(google: FakeGoogle) -> None:
    """Before any record."""
    assert google.secrets == {}
    with pytest.raises(UsageError, match="Secret Manager Secret Accessor"):
        scorer("http://127.0.0.1:9/v1#m", api_key_secret=SECRET)
