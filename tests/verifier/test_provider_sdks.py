"""What we send against what the providers' own SDKs send, and where.

The SDKs get our request as arguments and send it to the same server; nothing leaves this machine.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import ollama
import openai
import pytest
from google import genai
from google.auth.credentials import AnonymousCredentials
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from schemas.parse_record import parse_record
from schemas.record import Record
from scoring.prompt import PromptLayout, data_block
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import Asked, RawServer, raw_server
from verifier.endpoint import parse_endpoint
from verifier.engine import close_engine
from verifier.request import LIMIT_KEYS, Dialect, RequestWriter, Structure
from verifier.scorer import Scorer
from verifier.settings import VerifierSettings

PLAIN = {"document": "Total 40.00", "output": {"total": "40.00", "naïve field": None}}
IMAGE = {
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Total 40.00"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ],
        }
    ],
    "output": {"total": "40.00"},
}
PARAMETERS: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)


@pytest.fixture(autouse=True)
def _own_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "the-key")
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    yield
    close_engine()


def bodies(one: Record, dialect: Dialect, layout: PromptLayout) -> list[dict[str, Any]]:
    """The requests of all templates on a record."""
    writer = RequestWriter("m", TEMPLATES.templates, layout)
    data = writer.data_message(data_block(one), one.fields)
    return [
        dict(json.loads(writer.body(template, one.fields, data, dialect)))
        for template in TEMPLATES.templates
    ]


def checked(value: Any) -> Any:
    """`value` with all its parts validated: Pydantic puts that off where a type is Iterable."""
    if isinstance(value, Mapping):
        return {k: checked(v) for k, v in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Iterator | list | tuple):
        return value
    return [checked(v) for v in value]


@pytest.mark.parametrize("layout", list(PromptLayout))
@pytest.mark.parametrize("structure", list(Structure))
@pytest.mark.parametrize("values", [PLAIN, IMAGE])
def test_bodies_are_what_openai_s_types_say(
    values: dict[str, Any], structure: Structure, layout: PromptLayout
) -> None:
    """Every parameter is one of chat completions and has its type, and nothing of it is changed."""
    kind = CompletionCreateParamsNonStreaming
    known = kind.__required_keys__ | kind.__optional_keys__
    for limit_key in (*LIMIT_KEYS, None):
        dialect = Dialect(structure=structure, limit_key=limit_key, aliases=True)
        for body in bodies(parse_record(values), dialect, layout):
            assert body.keys() <= known
            assert checked(PARAMETERS.validate_python(body)) == body


def test_a_wrong_body_is_noticed() -> None:
    """The check above sees into messages, parts and formats."""
    (body, *_) = bodies(parse_record(IMAGE), Dialect(), PromptLayout.STANDARD)
    body["messages"][1]["content"][1] = {"type": "image_url", "image_url": {"uri": "data:,"}}
    with pytest.raises(ValueError, match="url"):
        checked(PARAMETERS.validate_python(body))


def ours(server: RawServer, target: str) -> Asked:
    """The request that we send for a target."""
    settings = VerifierSettings(target=target.format(root=server.root))
    Scorer(settings).score_sync(record({"total": "40.00"}, document="Total 40.00"))
    return server.asked[0]


def openai_client(server: RawServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="the-key", max_retries=0)


def azure_client(server: RawServer) -> openai.OpenAI:
    return openai.AzureOpenAI(
        azure_endpoint=server.root, api_version="2024-10-21", api_key="the-key", max_retries=0
    )


def gemini_client(server: RawServer) -> openai.OpenAI:
    """As Gemini's documentation has it."""
    url = f"{server.root}/v1beta/openai/"
    return openai.OpenAI(base_url=url, api_key="the-key", max_retries=0)


@pytest.mark.parametrize(
    ("target", "client", "key_header"),
    [
        ("openai:{root}/v1#gpt-4.1-mini", openai_client, "Authorization"),
        ("azure:{root}?api-version=2024-10-21#judge", azure_client, "api-key"),
        ("gemini:{root}/v1beta/openai#gemini-2.5-flash", gemini_client, "Authorization"),
    ],
)
def test_a_request_is_the_sdk_s(
    target: str, client: Callable[[RawServer], openai.OpenAI], key_header: str
) -> None:
    """Path and query, body, content type, and the key's header: those that the SDK makes of the
    same parameters."""
    with raw_server() as server:
        our = ours(server, target)
        with client(server) as sdk:
            sdk.chat.completions.create(**our.body)
        theirs = server.asked[-1]
    assert our.path == theirs.path
    assert our.body == theirs.body
    for name in (key_header, "Content-Type"):
        assert our.headers[name] == {k.lower(): v for k, v in theirs.headers.items()}[name.lower()]


class Captured(httpx.MockTransport):
    """Keeps where a request would have gone; its answer is always the same."""

    def __init__(self, answer: Mapping[str, Any] | None = None) -> None:
        super().__init__(self._answer)
        self._json = answer or {}
        self.urls: list[httpx.URL] = []

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.urls.append(request.url)
        return httpx.Response(200, json=self._json)


@pytest.mark.parametrize("location", ["us-central1", "europe-west4", "global", "eu", "us"])
def test_vertex_is_where_google_s_sdk_finds_it(location: str) -> None:
    """The host of every kind of location, and project and location in the path."""
    captured = Captured()
    client = genai.Client(
        vertexai=True,
        project="my-project",
        location=location,
        credentials=_token(),
        http_options={"client_args": {"transport": captured}},
    )
    client.models.generate_content(model="gemini-2.5-flash", contents="x")
    ours = httpx.URL(parse_endpoint(f"vertex:my-project/{location}#gemini-2.5-flash").url)
    (theirs,) = captured.urls
    assert (ours.scheme, ours.host) == (theirs.scheme, theirs.host)
    place = f"/projects/my-project/locations/{location}/"
    assert place in ours.path
    assert place in theirs.path


def _token() -> AnonymousCredentials:
    credentials = AnonymousCredentials()
    credentials.token = "token"
    return credentials


def test_gemini_is_where_google_s_sdk_finds_it() -> None:
    """The host, and the version of the API."""
    captured = Captured()
    client = genai.Client(api_key="k", http_options={"client_args": {"transport": captured}})
    client.models.generate_content(model="gemini-2.5-flash", contents="x")
    ours = httpx.URL(parse_endpoint("gemini:gemini-2.5-flash").url)
    (theirs,) = captured.urls
    assert (ours.scheme, ours.host) == (theirs.scheme, theirs.host)
    assert ours.path.split("/")[1] == theirs.path.split("/")[1] == "v1beta"


def test_openai_is_where_its_sdk_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base URL without any setting."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with openai.OpenAI(api_key="k") as client:
        assert parse_endpoint("openai:m").url == f"{client.base_url}chat/completions"


@pytest.mark.parametrize(
    "host",
    [
        None, "gpu.example", "gpu.example:1234", ":1234", "http://gpu.example", "https://gpu.example",
        "https://gpu.example:8443/", "gpu.example/ollama", "https://h.example/a/b/", "[::1]",
        "[::1]:1234", "10.0.0.7",
    ],
)  # fmt: skip
def test_ollama_is_where_its_sdk_finds_it(
    host: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever form OLLAMA_HOST has."""
    if host is None:
        monkeypatch.delenv("OLLAMA_HOST", raising=False)
    else:
        monkeypatch.setenv("OLLAMA_HOST", host)
    captured = Captured({"models": []})
    ollama.Client(transport=captured).list()
    base = str(captured.urls[0]).removesuffix("/api/tags")
    if host is None:
        base = base.replace("127.0.0.1", "localhost")
    ours = httpx.URL(VerifierSettings(target="ollama:llama3.1:8b").endpoint.url)
    assert ours == httpx.URL(f"{base}/v1/chat/completions")
