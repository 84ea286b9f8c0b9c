"""Settings are checked once, cannot change, travel well, and hold no secret."""

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from verifier.settings import RECORD_DEADLINE_CAP_S, KeepReplies, VerifierSettings


def test_the_defaults_are_valid_and_bounded() -> None:
    """A target is enough, and no default is endless."""
    settings = VerifierSettings(target="embedded")
    assert settings.attempt_timeout <= settings.call_timeout <= settings.record_timeout
    assert settings.record_timeout <= RECORD_DEADLINE_CAP_S < 240
    assert settings.keep_replies is KeepReplies.NONE


@pytest.mark.parametrize(
    "name",
    ["connect_timeout", "attempt_timeout", "call_timeout", "record_timeout", "max_retry_wait"],
)
@pytest.mark.parametrize("value", [None, 0, -1, float("nan")])
def test_no_limit_of_time_can_be_switched_off(name: str, value: Any) -> None:
    """None, 0 and what is no number are refused by name, not taken for "no limit"."""
    with pytest.raises(ValidationError, match=name):
        VerifierSettings(target="embedded", **{name: value})


@pytest.mark.parametrize(
    "name", ["max_concurrency", "max_records_in_flight", "max_attempts", "max_fields_per_call"]
)
@pytest.mark.parametrize("value", [None, 0, -1, 1.5])
def test_counts_start_at_one(name: str, value: Any) -> None:
    """Nothing works with no calls at all."""
    with pytest.raises(ValidationError, match=name):
        VerifierSettings(target="embedded", **{name: value})


@pytest.mark.parametrize("name", ["attempt_timeout", "call_timeout", "record_timeout"])
def test_an_endless_deadline_is_refused(name: str) -> None:
    """The record's deadline is capped, and the others are no longer than it."""
    with pytest.raises(ValidationError, match=r"record_timeout|deadlines must not shrink"):
        VerifierSettings(target="embedded", **{name: float("inf")})


def test_equal_deadlines_are_allowed() -> None:
    """One attempt that may take all the time there is."""
    VerifierSettings(target="embedded", attempt_timeout=5, call_timeout=5, record_timeout=5)


def test_an_unknown_setting_is_refused() -> None:
    """Misspelt settings do not vanish."""
    with pytest.raises(ValidationError, match="max_concurency"):
        VerifierSettings.model_validate({"target": "embedded", "max_concurency": 3})


def test_settings_cannot_be_changed() -> None:
    """They are shared by threads and bundles."""
    settings = VerifierSettings(target="embedded")
    with pytest.raises(ValidationError, match="frozen"):
        settings.max_attempts = 9  # type: ignore[misc]


def test_settings_travel_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the variable's name is in them."""
    monkeypatch.setenv("MARKER_KEY", "sk-marker-789")
    settings = VerifierSettings(target="openai:m", api_key_env="MARKER_KEY")
    data = pickle.dumps(settings)
    assert pickle.loads(data) == settings  # noqa: S301 - the bytes are our own
    assert b"sk-marker-789" not in data
    assert "sk-marker-789" not in repr(settings) + settings.model_dump_json()
