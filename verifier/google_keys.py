"""Keys and tokens from Google: Secret Manager, and the account that the process runs as.

Both block. Google's clients are loaded with this module.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

import google.auth
from google.api_core.exceptions import (
    BadRequest,
    Forbidden,
    GoogleAPIError,
    NotFound,
    Unauthorized,
)
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.auth.transport.requests import Request
from google.cloud import secretmanager

from schemas.errors import UsageError
from verifier.key_source import location_of
from verifier.key_value import KeyUnavailableError

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
REQUEST_S = 10.0
_WRONG = (BadRequest, Forbidden, NotFound, Unauthorized)


def read_secret(name: str) -> bytes:
    """The payload of a secret's version, by its resource name.

    Raises UsageError for what has to be mended, KeyUnavailableError for what may pass.
    """
    try:
        with _failing(f"--api_key_secret {name}"):
            answer = _secrets(location_of(name)).access_secret_version(name=name, timeout=REQUEST_S)
    except _WRONG as error:
        raise UsageError(
            f"--api_key_secret {name} cannot be read ({type(error).__name__}: {error}); check the "
            "name, and that the account has the role Secret Manager Secret Accessor"
        ) from error
    payload: bytes = answer.payload.data
    return payload


@lru_cache(maxsize=4)
def _secrets(location: str | None) -> Any:
    """A client; regional secrets have an endpoint of their own."""
    options = {"api_endpoint": f"secretmanager.{location}.rep.googleapis.com"} if location else None
    return secretmanager.SecretManagerServiceClient(transport="rest", client_options=options)


def read_token() -> tuple[str, float | None]:
    """A new access token, and the seconds for which it is valid, None for ever.

    Raises UsageError for what has to be mended, KeyUnavailableError for what may pass.
    """
    with _failing("Google credentials"):
        credentials = _credentials()
        credentials.refresh(partial(Request(), timeout=REQUEST_S))
    expiry: datetime | None = credentials.expiry
    if expiry is None:
        return str(credentials.token), None
    return str(credentials.token), (expiry.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds()


@lru_cache(maxsize=1)
def _credentials() -> Any:
    credentials, _project = google.auth.default(scopes=[SCOPE])
    return credentials


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Tell what has to be mended from what may pass."""
    try:
        yield
    except DefaultCredentialsError as error:
        raise UsageError(
            f"{what}: no Google account was found; run `gcloud auth application-default login`, or "
            f"set GOOGLE_APPLICATION_CREDENTIALS ({error})"
        ) from error
    except GoogleAuthError as error:
        if error.retryable or isinstance(error, TransportError):
            raise KeyUnavailableError(f"{what}: {error}") from error
        raise UsageError(f"{what}: Google refuses the account: {error}") from error
    except _WRONG:
        raise
    except (GoogleAPIError, OSError) as error:
        raise KeyUnavailableError(f"{what}: {type(error).__name__}: {error}") from error
