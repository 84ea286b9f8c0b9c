"""Which chat-completions endpoint `--verifier` names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from schemas.errors import UsageError
from scoring.routing import LITERAL_EVIDENCE

EMBEDDED = "embedded"
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY_ENV = "OPENAI_API_KEY"
EXAMPLES = "embedded, openai:gpt-4.1-mini or http://host:8000/v1#model"
_PATH = "/chat/completions"
_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_API_VERSION = "api-version"
_KEY_PARAMETERS = {
    "access_token", "api-key", "api_key", "apikey", "key", "subscription-key", "token",
}  # fmt: skip

_KEY, _BEARER, _AZURE_KEY = "Authorization", "Bearer ", "api-key"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A chat-completions URL, the model to ask there, and the name of the key's variable.

    `url` is empty for the embedded verifier, whose port is known only once it runs.
    """

    url: str
    model: str
    api_key_env: str | None

    @property
    def embedded(self) -> bool:
        """Whether this is the verifier without an LLM inside the process."""
        return not self.url

    def headers(self) -> dict[str, str]:
        """The request headers, the key read from the environment now.

        Raises UsageError when the variable is not set, or holds what no header can carry.
        """
        headers = {"Content-Type": "application/json"}
        if self.api_key_env is None:
            return headers
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise UsageError(
                f"the environment variable {self.api_key_env} is not set: put the verifier's "
                "API key there, or name another with --api_key_env"
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"the environment variable {self.api_key_env} holds a line break or another "
                "character that no API key has: copy the key again"
            )
        if _is_azure(urlsplit(self.url).hostname):
            return headers | {_AZURE_KEY: key}
        return headers | {_KEY: f"{_BEARER}{key}"}

    @staticmethod
    def key_in(headers: Mapping[str, str]) -> str:
        """The API key in what `headers` gave, empty when there is none."""
        return headers.get(_AZURE_KEY) or headers.get(_KEY, "").removeprefix(_BEARER)


def parse_endpoint(target: str, api_key_env: str | None = None) -> Endpoint:
    """The endpoint that `--verifier TARGET` names. Raises UsageError.

    A URL is taken up to its base path or in full; the query stays. A bare host means `/v1`, on
    Azure `/openai/v1`.
    """
    target = target.strip()
    if target == EMBEDDED:
        return Endpoint("", LITERAL_EVIDENCE, None)
    if target.startswith("openai:"):
        model = target.removeprefix("openai:")
        if not model:
            raise UsageError(f"--verifier {target} names no model, like openai:gpt-4.1-mini")
        return Endpoint(OPENAI_URL + _PATH, model, api_key_env or OPENAI_KEY_ENV)
    if target.lower().startswith(("http://", "https://")):
        return _from_url(target, api_key_env)
    raise UsageError(f"--verifier {target!r} is not understood; use {EXAMPLES}")


def _from_url(target: str, api_key_env: str | None) -> Endpoint:
    parts = _split(target)
    names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.username or parts.password or names & _KEY_PARAMETERS:
        raise UsageError("--verifier: a URL with credentials in it is refused; use --api_key_env")
    if not parts.hostname:
        raise UsageError(f"--verifier {target}: the URL has no host")
    if not parts.fragment:
        raise UsageError(f"--verifier {target}: name the model after a #, like {target}#my-model")
    path = _join(parts.path, _is_azure(parts.hostname))
    if _is_azure(parts.hostname) and "/deployments/" in path and _API_VERSION not in names:
        raise UsageError(
            f"--verifier {target}: a deployment on Azure needs a version; "
            f"add ?{_API_VERSION}=2024-10-21 before the #"
        )
    return Endpoint(
        urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), parts.fragment, api_key_env
    )


def _is_azure(host: str | None) -> bool:
    return (host or "").endswith(_AZURE)


def _split(target: str) -> SplitResult:
    """The parts of a URL; one that cannot be parsed may hold credentials and is not repeated."""
    try:
        parts = urlsplit(target)
        _ = parts.port
    except ValueError:
        raise UsageError(f"--verifier: this is no valid URL; use one like {EXAMPLES}") from None
    return parts


def _join(path: str, azure: bool) -> str:
    """The path of chat completions below a base path, which is not joined to it twice."""
    path = path.rstrip("/")
    if azure and path in {"", "/openai"}:
        path = "/openai/v1"
    path = path or "/v1"
    return path if path.endswith(_PATH) else path + _PATH
