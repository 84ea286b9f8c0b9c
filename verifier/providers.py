"""The providers that `--verifier` can name, and where each is reached. Pure.

A target is `PROVIDER:MODEL`, `PROVIDER:URL#MODEL`, `vertex:PROJECT/LOCATION#MODEL`, `URL#MODEL` or
`embedded`; docs/providers.md has the table.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from schemas.errors import UsageError

AUTHORIZATION, API_KEY = "Authorization", "api-key"

AZURE_ENDPOINT, AZURE_VERSION = "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"
GOOGLE_PROJECT, GOOGLE_LOCATION = "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"
OLLAMA_HOST, OLLAMA_PORT = "OLLAMA_HOST", 11434

_PLACE = re.compile(r"([a-z0-9][a-z0-9.:-]*)/([a-z0-9-]+)")
"""A Google project, which may belong to a domain (`example.com:name`), and a location."""


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known of a provider.

    `url` is the base URL of targets that name none; `key_env` the variable that holds the key where
    none is named, `google` that Google's tokens are used instead. `hosts` are its own: with
    `prefixed`, those below them, too.
    """

    name: str
    example: str
    url: str = ""
    key_env: str | None = None
    key_header: str = AUTHORIZATION
    google: bool = False
    hosts: tuple[str, ...] = ()
    prefixed: bool = False

    def owns(self, host: str) -> bool:
        """Whether a URL with this host is the provider's."""
        return any(
            host == own or (self.prefixed and host.endswith((f".{own}", f"-{own}")))
            for own in self.hosts
        )


OPENAI = Provider(
    "openai",
    "openai:gpt-4.1-mini",
    url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    hosts=("api.openai.com",),
)
AZURE = Provider(
    "azure",
    "azure:https://RESOURCE.openai.azure.com#DEPLOYMENT",
    key_env="AZURE_OPENAI_API_KEY",
    key_header=API_KEY,
    hosts=("openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"),
    prefixed=True,
)
GEMINI = Provider(
    "gemini",
    "gemini:gemini-2.5-flash",
    url="https://generativelanguage.googleapis.com/v1beta/openai",
    key_env="GEMINI_API_KEY",
    hosts=("generativelanguage.googleapis.com",),
)
VERTEX = Provider(
    "vertex",
    "vertex:my-project/europe-west4#gemini-2.5-flash",
    google=True,
    hosts=(
        "aiplatform.googleapis.com",
        "aiplatform.eu.rep.googleapis.com",
        "aiplatform.us.rep.googleapis.com",
    ),
    prefixed=True,
)
OLLAMA = Provider("ollama", "ollama:llama3.1:8b", url=f"http://localhost:{OLLAMA_PORT}/v1")
VLLM = Provider("vllm", "vllm:Qwen/Qwen2.5-7B-Instruct", url="http://localhost:8000/v1")

PROVIDERS = {p.name: p for p in (OPENAI, AZURE, GEMINI, VERTEX, OLLAMA, VLLM)}


class Target(NamedTuple):
    """A target in parts; `url` is empty where it names none, and may end in `#MODEL` otherwise."""

    provider: Provider | None
    url: str
    model: str


def split_target(target: str) -> Target | None:
    """The parts of a target that names a provider or a URL, None for any other text.

    The model of a URL stays behind its `#`. A URL is its host's provider's, where that is known.
    """
    if is_url(target):
        return Target(_provider_of_host(target), target, "")
    name, colon, rest = target.partition(":")
    provider = PROVIDERS.get(name.lower()) if colon else None
    if provider is None:
        return None
    rest = rest.strip()
    return Target(provider, rest, "") if is_url(rest) else Target(provider, "", rest)


def is_url(text: str) -> bool:
    """Whether a text begins as a URL does."""
    return text.lower().startswith(("http://", "https://"))


def provider_of(target: str) -> str | None:
    """The name of the provider that `--verifier TARGET` names, as price tables call it.

    None for a URL that is no known provider's: what runs there has no list price.
    """
    parts = split_target(target.strip())
    return None if parts is None or parts.provider is None else parts.provider.name


def _provider_of_host(url: str) -> Provider | None:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return None
    return next((p for p in PROVIDERS.values() if p.owns(host)), None)


def resolve(target: str, environ: Mapping[str, str]) -> str:
    """The target with URL or project written out, where it leaves that to `environ`.

    Workers have another environment than submission. Raises UsageError when a variable is missing.
    """
    target = target.strip()
    parts = split_target(target)
    if parts is None or parts.url or not parts.model or parts.provider is None:
        return target
    resolver = _RESOLVERS.get(parts.provider.name)
    return target if resolver is None else resolver(parts.model, environ)


def _azure(deployment: str, environ: Mapping[str, str]) -> str:
    endpoint = environ.get(AZURE_ENDPOINT, "").strip()
    if not is_url(endpoint):
        raise UsageError(
            f"--verifier azure:{deployment} needs the resource's URL: set {AZURE_ENDPOINT}, or use "
            f"azure:https://RESOURCE.openai.azure.com#{deployment}"
        )
    version = environ.get(AZURE_VERSION, "").strip()
    query = f"?api-version={version}" if version else ""
    return f"{AZURE.name}:{endpoint}{query}#{deployment}"


def _vertex(model: str, environ: Mapping[str, str]) -> str:
    if "#" in model:
        return f"{VERTEX.name}:{model}"
    place = [environ.get(name, "").strip() for name in (GOOGLE_PROJECT, GOOGLE_LOCATION)]
    if not all(place):
        raise UsageError(
            f"--verifier vertex:{model} needs a project and a location: set {GOOGLE_PROJECT} and "
            f"{GOOGLE_LOCATION}, or use vertex:PROJECT/LOCATION#{model}"
        )
    return f"{VERTEX.name}:{'/'.join(place)}#{model}"


def _ollama(model: str, environ: Mapping[str, str]) -> str:
    host = environ.get(OLLAMA_HOST, "").strip()
    return f"{OLLAMA.name}:{ollama_url(host)}#{model}" if host else f"{OLLAMA.name}:{model}"


_RESOLVERS = {AZURE.name: _azure, VERTEX.name: _vertex, OLLAMA.name: _ollama}


def ollama_url(host: str) -> str:
    """The base URL in OLLAMA_HOST, as Ollama's own clients read it: scheme and port are optional.

    Raises UsageError for what is no host.
    """
    with_scheme = "://" in host
    try:
        parts = urlsplit(host if with_scheme else f"http://{host}")
        port = parts.port or (None if with_scheme else OLLAMA_PORT)
        name = parts.hostname or "127.0.0.1"
    except ValueError:
        raise UsageError(f"{OLLAMA_HOST} holds no host, like 127.0.0.1:{OLLAMA_PORT}") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{OLLAMA_HOST}: a URL with credentials in it is refused")
    name = f"[{name}]" if ":" in name else name
    path = parts.path.strip("/")
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{f'/{path}' if path else ''}/v1"


def vertex_base(place_and_model: str) -> tuple[str, str]:
    """Base URL and model of `PROJECT/LOCATION#MODEL`; a model without a publisher is Google's own.

    Raises UsageError.
    """
    place, _, model = place_and_model.partition("#")
    match = _PLACE.fullmatch(place)
    if match is None or not model:
        raise UsageError(
            f"--verifier vertex:{place_and_model} is not understood; use {VERTEX.example}"
        )
    project, location = match.groups()
    base = f"{_vertex_host(location)}/v1/projects/{project}/locations/{location}/endpoints/openapi"
    return base, model if "/" in model else f"google/{model}"


def _vertex_host(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in {"eu", "us"}:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"
