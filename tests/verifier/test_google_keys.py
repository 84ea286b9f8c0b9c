"""Tokens and secrets from Google's own clients, against servers on loopback."""

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from schemas.errors import UsageError
from tests.support.google import FakeGoogle, fake_google, use
from verifier import google_keys
from verifier.key_source import google_tokens, secret
from verifier.key_value import BEFORE_END_S, SECRET_S, KeyUnavailableError, read_key

NAME = "projects/p/secrets/judge/versions/latest"


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeGoogle]:
    with fake_google() as running:
        use(running, monkeypatch, tmp_path)
        yield running
    google_keys._credentials.cache_clear()


def test_tokens_of_a_service_account(google: FakeGoogle) -> None:
    """Each read fetches a new one, which is renewed before its end."""
    first, second = read_key(google_tokens()), read_key(google_tokens())
    assert (first.text, second.text) == ("token-1", "token-2")
    assert 3500 < first.valid_s <= 3600
    assert first.renew_s == pytest.approx(first.valid_s - BEFORE_END_S)


def test_a_secret(google: FakeGoogle) -> None:
    """The payload of the named version, without the line break that files end in; read again now
    and then."""
    google.secrets[NAME] = b"sk-secret\n"
    key = read_key(secret(NAME))
    assert (key.text, key.renew_s) == ("sk-secret", SECRET_S)
    assert google.asked == [f"/v1/{NAME}:access?%24alt=json%3Benum-encoding%3Dint"]


@pytest.mark.parametrize("payload", [b"", b"\xff\xfe", b"two\nlines"])
def test_a_secret_that_is_no_key(google: FakeGoogle, payload: bytes) -> None:
    """Empty, binary, several lines: the error names the secret and not its content."""
    google.secrets[NAME] = payload
    with pytest.raises(UsageError, match=NAME) as error:
        read_key(secret(NAME))
    assert "two" not in str(error.value)


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, UsageError, "check the name, and that the account has the role"),
        (403, UsageError, "check the name, and that the account has the role"),
        (400, UsageError, "check the name, and that the account has the role"),
        (500, KeyUnavailableError, NAME),
    ],
)
def test_a_secret_that_cannot_be_read(
    google: FakeGoogle, status: int, error: type[Exception], words: str
) -> None:
    """What has to be mended is told from what may pass."""
    google.failing = repeat(status)
    with pytest.raises(error, match=words):
        read_key(secret(NAME))


@pytest.mark.parametrize(("status", "error"), [(400, UsageError), (503, KeyUnavailableError)])
def test_a_token_that_is_not_given(google: FakeGoogle, status: int, error: type[Exception]) -> None:
    """An account that was deleted stops the run; a token server that is down may come back."""
    google.failing = repeat(status)
    with pytest.raises(error, match="Google credentials"):
        read_key(google_tokens())


def test_no_account_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The remedy is named."""
    google_keys._credentials.cache_clear()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    with pytest.raises(UsageError, match="gcloud auth application-default login"):
        read_key(google_tokens())
