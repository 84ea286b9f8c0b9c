"""Names of keys: what is taken for one, and that a key itself is not."""

import re

import pytest

from schemas.errors import UsageError
from verifier.key_source import KeyKind, KeySource, chosen, location_of
from verifier.settings import VerifierSettings

SECRET = "projects/p/secrets/judge-key"


@pytest.mark.parametrize(
    ("env", "secret", "expected"),
    [
        (None, None, None),
        ("MY_KEY", None, KeySource(KeyKind.VARIABLE, "MY_KEY")),
        (None, f"{SECRET}/versions/3", KeySource(KeyKind.MANAGER, f"{SECRET}/versions/3")),
        (None, SECRET, KeySource(KeyKind.MANAGER, f"{SECRET}/versions/latest")),
    ],
)
def test_a_name_is_taken(env: str | None, secret: str | None, expected: KeySource | None) -> None:
    """A secret's latest version unless one is named."""
    assert chosen(env, secret) == expected


@pytest.mark.parametrize(
    ("env", "secret", "message"),
    [
        ("sk-marker-1", None, "--api_key_env takes the name"),
        ("", None, "--api_key_env takes the name"),
        ("1marker", None, "--api_key_env takes the name"),
        (None, "marker", "--api_key_secret takes a resource name"),
        (None, "projects/marker/secrets/s/versions/1/x", "--api_key_secret takes"),
        (None, "projects/marker/secrets/../s", "--api_key_secret takes"),
        ("MARKER_KEY", SECRET, "not both"),
    ],
)
def test_a_key_in_place_of_its_name_is_refused(
    env: str | None, secret: str | None, message: str
) -> None:
    """Before it gets into settings that travel, and without repeating it."""
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        VerifierSettings(target="openai:m", api_key_env=env, api_key_secret=secret)
    assert "marker" not in str(error.value)


def test_a_regional_secret_names_its_location() -> None:
    """It is read from an endpoint of its own."""
    name = "projects/p/locations/europe-west4/secrets/s/versions/1"
    assert chosen(None, name) == KeySource(KeyKind.MANAGER, name)
    assert location_of(name) == "europe-west4"
    assert location_of(f"{SECRET}/versions/1") is None
