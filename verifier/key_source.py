"""Where an API key comes from: its name, never the key itself. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum

from schemas.errors import UsageError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(
    r"projects/[^/\s]+(?:/locations/([a-z0-9-]+))?/secrets/[\w-]+(/versions/[\w-]+)?", re.ASCII
)


class KeyKind(StrEnum):
    """The places that keys come from."""

    VARIABLE = "environment variable"
    MANAGER = "Secret Manager"
    GOOGLE = "Google credentials"


@dataclass(frozen=True, slots=True)
class KeySource:
    """A place and a name there; `name` is empty for Google's credentials."""

    kind: KeyKind
    name: str = ""


def variable(name: str) -> KeySource:
    """The environment variable `name`. Raises UsageError for what is no name, and may be a key."""
    if _VARIABLE.fullmatch(name) is None:
        raise UsageError(
            "--api_key_env takes the name of an environment variable, like MY_API_KEY; if this is "
            "the key itself, put it into a variable"
        )
    return KeySource(KeyKind.VARIABLE, name)


def secret(name: str) -> KeySource:
    """The secret of that resource name, the latest version unless it names one.

    Raises UsageError.
    """
    match = _SECRET.fullmatch(name)
    if match is None:
        raise UsageError(
            "--api_key_secret takes a resource name of Secret Manager, like "
            "projects/PROJECT/secrets/SECRET/versions/latest"
        )
    return KeySource(KeyKind.MANAGER, name if match[2] else f"{name}/versions/latest")


def google_tokens() -> KeySource:
    """Short-lived tokens of the account that the process runs as."""
    return KeySource(KeyKind.GOOGLE)


def chosen(env: str | None, secret_name: str | None) -> KeySource | None:
    """What --api_key_env and --api_key_secret name, None for neither. Raises UsageError."""
    if env is not None and secret_name is not None:
        raise UsageError("use --api_key_env or --api_key_secret, not both")
    if secret_name is not None:
        return secret(secret_name)
    return None if env is None else variable(env)


def location_of(secret_name: str) -> str | None:
    """The location of a regional secret, None for a global one."""
    match = _SECRET.fullmatch(secret_name)
    return match[1] if match else None
