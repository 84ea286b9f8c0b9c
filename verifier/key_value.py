"""An API key as it was read, and for how long it is good."""

import math
import os
from dataclasses import dataclass, field

from schemas.errors import ConstructBeamError, UsageError
from verifier.key_source import KeyKind, KeySource

SECRET_S = 900.0
"""A secret is read again after so many seconds: keys are rotated."""

BEFORE_END_S = 225.0
"""A token is renewed so many seconds before its end; Google's metadata server gives no new one
earlier."""


class KeyUnavailableError(ConstructBeamError, OSError):
    """A key cannot be read now, but perhaps later."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key or token. It is to be renewed `renew_s` seconds after it was read, and of no use after
    `valid_s`.
    """

    text: str = field(repr=False)
    renew_s: float = math.inf
    valid_s: float = math.inf


def read_key(source: KeySource) -> KeyValue:
    """The key, read now; blocks.

    Raises UsageError for what has to be mended, KeyUnavailableError for what may pass.
    """
    return _READERS[source.kind](source.name)


def _variable(name: str) -> KeyValue:
    text = os.environ.get(name, "").strip()
    if not text:
        raise UsageError(
            f"the environment variable {name} is not set: put the verifier's API key there, or "
            "name another with --api_key_env, or a secret with --api_key_secret"
        )
    return KeyValue(_checked(text, f"the environment variable {name}"))


def _secret(name: str) -> KeyValue:
    from verifier.google_keys import read_secret  # noqa: PLC0415 - only where it is used

    try:
        text = read_secret(name).decode().strip()
    except UnicodeDecodeError:
        raise UsageError(f"the secret {name} is no text: it is no API key") from None
    if not text:
        raise UsageError(f"the secret {name} is empty: add a version with the key")
    return KeyValue(_checked(text, f"the secret {name}"), renew_s=SECRET_S)


def _google(_name: str) -> KeyValue:
    from verifier.google_keys import read_token  # noqa: PLC0415 - only where it is used

    token, seconds = read_token()
    if seconds is None:
        return KeyValue(token)
    return KeyValue(token, renew_s=seconds - BEFORE_END_S, valid_s=seconds)


_READERS = {KeyKind.VARIABLE: _variable, KeyKind.MANAGER: _secret, KeyKind.GOOGLE: _google}


def _checked(text: str, where: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise UsageError(
            f"{where} holds a line break or another character that no API key has: copy the key "
            "again"
        )
    return text
