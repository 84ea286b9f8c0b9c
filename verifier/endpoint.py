"""Which chat-completions endpoint `--verifier` names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

from schemas.errors import UsageError
from scoring.routing import LITERAL_EVIDENCE
from verifier.key_source import KeyKind, KeySource, google_tokens, variable
from verifier.providers import (
    AUTHORIZATION,
    AZURE,
    VERTEX,
    Provider,
    Target,
    split_target,
    vertex_base,
)

EMBEDDED = "embedded"
EXAMPLES = (
    "embedded, openai:gpt-4.1-mini, azure:, gemini:, vertex:, ollama: or vllm: with a model, "
    "or http://host:8000/v1#model; see docs/providers.md"
)
_PATH = "/chat/completions"
_API_VERSION = "api-version"
_UNDATED = {"latest", "preview", "v1"}
"""Versions of Azure's undated API, which names the deployment in the body alone."""
_KEY_PARAMETERS = {
    "access_token", "api-key", "api_key", "apikey", "key", "subscription-key", "token",
}  # fmt: skip
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)")
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A chat-completions URL, the model to ask there, and where the key comes from.

    `url` is empty for the embedded verifier, whose port is known only once it runs.
    """

    url: str
    model: str
    key: KeySource | None = None
    key_header: str = AUTHORIZATION

    @property
    def embedded(self) -> bool:
        """Whether this is the verifier without an LLM inside the process."""
        return not self.url

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The request headers with a key."""
        headers = {"Content-Type": "application/json"}
        if key is None:
            return headers
        bearer = self.key_header == AUTHORIZATION
        return headers | {self.key_header: f"Bearer {key}" if bearer else key}


def parse_endpoint(target: str, key: KeySource | None = None) -> Endpoint:
    """The endpoint that `--verifier TARGET` names; `key` comes before the provider's usual one.

    A URL is taken up to its base path or in full; the query stays. A bare host means `/v1`, on
    Azure `/openai/v1`, or its deployment with a dated version. Raises UsageError.
    """
    target = target.strip()
    if target == EMBEDDED:
        return Endpoint("", LITERAL_EVIDENCE)
    parts = split_target(target)
    if parts is None:
        shown = f" {target!r}" if "@" not in target else ""
        raise UsageError(f"--verifier{shown} is not understood; use {EXAMPLES}")
    if parts.url:
        plain = parts.url == target
        return _from_url(parts, key if plain else key or _usual_key(parts.provider))
    return _hosted(target, parts, key)


def _hosted(target: str, parts: Target, key: KeySource | None) -> Endpoint:
    """The endpoint of a provider that is known by name alone."""
    provider = parts.provider
    if provider is None or not parts.model:
        example = "" if provider is None else f", like {provider.example}"
        raise UsageError(f"--verifier {target} names no model{example}")
    base, model = provider.url, parts.model
    if provider is VERTEX:
        base, model = vertex_base(model)
    if not base:
        raise UsageError(f"--verifier {target} names no URL; use {provider.example}")
    return Endpoint(base + _PATH, model, key or _usual_key(provider), provider.key_header)


def _usual_key(provider: Provider | None) -> KeySource | None:
    if provider is None:
        return None
    if provider.google:
        return google_tokens()
    return variable(provider.key_env) if provider.key_env else None


def _from_url(target: Target, key: KeySource | None) -> Endpoint:
    parts = _split(target.url)
    query = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.username or parts.password or query.keys() & _KEY_PARAMETERS:
        raise UsageError(
            "--verifier: a URL with credentials in it is refused; use --api_key_env or "
            "--api_key_secret"
        )
    if not parts.hostname:
        raise UsageError(f"--verifier {target.url}: the URL has no host")
    azure = target.provider is AZURE
    deployment = _DEPLOYMENT.search(parts.path) if azure else None
    model = parts.fragment or (unquote(deployment[1]) if deployment else "")
    if not model:
        raise UsageError(
            f"--verifier {target.url}: name the model after a #, like {target.url}#my-model"
        )
    if deployment and _API_VERSION not in query:
        raise UsageError(
            f"--verifier {target.url}: a deployment on Azure needs a version; "
            f"add ?{_API_VERSION}=2024-10-21 before the #"
        )
    if key is not None and key.kind is KeyKind.GOOGLE and not _is_safe(parts):
        raise UsageError(
            f"--verifier {target.url}: Google's tokens are sent over https only; name another key "
            "with --api_key_env"
        )
    path = _join(_azure_path(parts.path, query, model) if azure else parts.path)
    url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    header = AUTHORIZATION if target.provider is None else target.provider.key_header
    return Endpoint(url, model, key, header)


def _is_safe(parts: SplitResult) -> bool:
    return parts.scheme == "https" or parts.hostname in _LOOPBACK


def _split(url: str) -> SplitResult:
    """The parts of a URL; one that cannot be parsed may hold credentials and is not repeated."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UsageError(f"--verifier: this is no valid URL; use one like {EXAMPLES}") from None
    return parts


def _azure_path(path: str, query: Mapping[str, str], deployment: str) -> str:
    """The base path on Azure: a resource's URL alone means the undated API, unless dated."""
    path = path.rstrip("/")
    if path not in {"", "/openai"}:
        return path
    if query.get(_API_VERSION, "v1") in _UNDATED:
        return "/openai/v1"
    return f"/openai/deployments/{quote(deployment, safe='')}"


def _join(path: str) -> str:
    """The path of chat completions below a base path, which is not joined to it twice."""
    path = path.rstrip("/") or "/v1"
    return path if path.endswith(_PATH) else path + _PATH
