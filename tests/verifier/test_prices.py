"""The price table: which price a model has, what a call costs, and what is wrong with a user's file."""

from decimal import Decimal

import pytest
from pydantic import BaseModel, ConfigDict

from schemas.errors import UsageError
from tests.support.builders import pickled
from verifier.prices import (
    BUILT_IN,
    CallCosts,
    Prices,
    builtin_prices,
    parse_prices,
    with_own,
)
from verifier.providers import provider_of

OWN = parse_prices(
    """
    as_of: 2026-11-30
    models:
      openai:gpt-4.1-mini: {prompt: 1, completion: 2}
      gpt-4o-*: {prompt: 3, completion: 4}
      Qwen2.5-7B: {prompt: 0.05, cached_prompt: 0.01, completion: 0.07}
      llama3.1:8b: {prompt: 0, completion: 0}
      azure:*: {prompt: 9, completion: 9}
    """,
    "--prices own.yaml",
)


class Settings(BaseModel):
    """Settings that prices travel in."""

    model_config = ConfigDict(frozen=True)

    prices: Prices


def price_of(prices: Prices, target: str, model: str) -> Decimal | None:
    found = prices.find(provider_of(target), model)
    return None if found is None else found.price.prompt


@pytest.mark.parametrize(
    ("target", "provider"),
    [
        ("openai:gpt-4.1-mini", "openai"),
        ("Gemini:gemini-2.5-flash", "gemini"),
        ("ollama:llama3.1:8b", "ollama"),
        ("embedded", None),
        ("https://api.openai.com/v1#gpt-4.1", "openai"),
        ("https://generativelanguage.googleapis.com/v1beta/openai#gemini-2.5-pro", "gemini"),
        ("https://us-central1-aiplatform.googleapis.com/v1/x#google/gemini-2.5-pro", "vertex"),
        ("https://aiplatform.googleapis.com/v1/x#google/gemini-2.5-pro", "vertex"),
        ("https://mine.openai.azure.com#judge", "azure"),
        ("https://notapi.openai.com.evil.example/v1#gpt-4.1", None),
        ("https://eu.api.openai.com/v1#gpt-4.1", None),
        ("http://localhost:8000/v1#gpt-4.1", None),
        ("http://[::1/v1#gpt-4.1", None),
    ],
)
def test_provider_of_a_target(target: str, provider: str | None) -> None:
    """Known providers are known by their prefix or host; whoever runs a server sets its price."""
    assert provider_of(target) == provider


@pytest.mark.parametrize(
    ("target", "model", "prompt"),
    [
        ("openai:x", "gpt-4.1-mini", "0.40"),
        ("openai:x", "gpt-4.1-mini-2025-04-14", "0.40"),
        ("openai:x", "GPT-4.1-mini", "0.40"),
        ("openai:x", "gpt-4.1", "2.00"),
        ("openai:x", "gpt-4o-2024-08-06", "2.50"),
        ("openai:x", "gpt-4o-2024-05-13", "5.00"),
        ("openai:x", "gpt-4o-audio-preview", None),
        ("openai:x", "gpt-4.1-mini-turbo", None),
        ("openai:x", "ft:gpt-4.1-mini-2025-04-14:mine::id", None),
        ("openai:x", "gpt-99", None),
        ("gemini:x", "models/gemini-2.5-flash", "0.30"),
        ("gemini:x", "gemini-2.0-flash-001", "0.10"),
        ("vertex:x", "google/gemini-2.5-pro", "1.25"),
        ("gemini:x", "gemini-2.5-flash-preview-05-20", None),
        ("http://host:1/v1#x", "gpt-4.1-mini", None),
        ("openai:x", "gemini-2.5-flash", None),
    ],
)
def test_built_in_price_of_a_model(target: str, model: str, prompt: str | None) -> None:
    """Snapshots are priced like their base; variants, and servers of one's own, have no price."""
    expected = None if prompt is None else Decimal(prompt)
    assert price_of(builtin_prices(), target, model) == expected


@pytest.mark.parametrize(
    ("target", "model", "prompt"),
    [
        ("openai:x", "gpt-4.1-mini-2025-04-14", "1"),
        ("openai:x", "gpt-4.1", "2.00"),
        ("openai:x", "gpt-4o-mini", "3"),
        ("http://host:1/v1#x", "gpt-4o-mini", "3"),
        ("http://host:1/v1#x", "qwen/qwen2.5-7b", "0.05"),
        ("vllm:x", "Qwen2.5-7B", "0.05"),
        ("ollama:x", "llama3.1:8b", "0"),
        ("azure:x", "anything", "9"),
        ("azure:x", "gpt-4o-mini", "3"),
        ("http://host:1/v1#x", "gpt-4.1-mini", None),
    ],
)
def test_own_prices_come_first(target: str, model: str, prompt: str | None) -> None:
    """A user's table is asked before the built-in one, whatever key fits there."""
    expected = None if prompt is None else Decimal(prompt)
    assert price_of(with_own(OWN), target, model) == expected


def test_longest_key_wins() -> None:
    """Of several keys that fit, the longest counts; without a * before one with it."""
    table = parse_prices(
        """
        models:
          "*": {prompt: 1, completion: 1}
          gpt*: {prompt: 2, completion: 1}
          gpt-5*: {prompt: 3, completion: 1}
          gpt-5: {prompt: 4, completion: 1}
          openai:gpt-5: {prompt: 5, completion: 1}
        """,
        "t",
    )
    prices = Prices(tables=(table,))
    cases = {"other": 1, "gpt-4": 2, "gpt-5-mini": 3, "gpt-5-2025-08-07": 4}
    assert {model: price_of(prices, "http://h/v1#x", model) for model in cases} == cases
    assert price_of(prices, "openai:x", "gpt-5") == 5


@pytest.mark.parametrize(
    ("model", "prompt", "cached", "completion", "usd"),
    [
        ("gpt-4.1-mini", 1_000_000, 0, 0, 0.40),
        ("gpt-4.1-mini", 0, 0, 1_000_000, 1.60),
        ("gpt-4.1-mini", 1_000_000, 1_000_000, 0, 0.10),
        ("gpt-4.1-mini", 1000, 300, 200, 0.00063),
        ("gpt-4.1-mini", 1, 0, 0, 0.0000004),
        ("gpt-4o-mini", 3, 0, 0, 0.00000045),
        ("gpt-5-nano", 7, 7, 1, 0.000000435),
        ("gpt-4.1-mini", 1000, 5000, 0, 0.0001),
        ("gpt-4o-2024-05-13", 1000, 1000, 0, 0.005),
        ("gpt-4.1", 10**12, 0, 10**12, 10_000_000.0),
    ],
)
def test_cost_of_a_call(model: str, prompt: int, cached: int, completion: int, usd: float) -> None:
    """The float nearest to the exact amount; cached tokens are those of the prompt, at most all."""
    costs = CallCosts(builtin_prices(), "openai", model)
    assert costs.cost_usd(None, prompt, cached, completion) == usd


def test_long_prompts_cost_more() -> None:
    """Beyond the limit the whole call has the higher prices."""
    costs = CallCosts(builtin_prices(), "gemini", "gemini-2.5-pro")
    assert costs.cost_usd(None, 200_000, 0, 1000) == 0.26
    assert costs.cost_usd(None, 200_001, 0, 1000) == 0.5150025
    assert costs.cost_usd(None, 400_000, 400_000, 0) == 0.1


@pytest.mark.parametrize(
    ("provider", "asked", "answered", "usd"),
    [
        ("openai", "gpt-4.1", "gpt-4.1-mini-2025-04-14", 0.0004),
        ("openai", "gpt-4.1", "gpt-unheard-of", 0.002),
        ("openai", "gpt-4.1", None, 0.002),
        ("openai", "gpt-4.1", "", 0.002),
        ("openai", "gpt-unheard-of", "gpt-unheard-of", None),
        (None, "gpt-4.1", "gpt-4.1", None),
    ],
)
def test_model_that_answered_is_priced(
    provider: str | None, asked: str, answered: str | None, usd: float | None
) -> None:
    """Where it has no price, the model that was asked; without either the cost is unknown, not 0."""
    assert CallCosts(builtin_prices(), provider, asked).cost_usd(answered, 1000, 0, 0) == usd


def test_uncounted_tokens_have_no_cost() -> None:
    """A server that counts no tokens leaves the cost unknown; a price of 0 is one."""
    prices = with_own(OWN)
    assert CallCosts(prices, "openai", "gpt-4.1").cost_usd(None, 0, 0, 0) is None
    assert CallCosts(prices, None, "llama3.1:8b").cost_usd(None, 0, 0, 0) is None
    assert CallCosts(prices, None, "llama3.1:8b").cost_usd(None, 10, 0, 5) == 0.0


def test_prices_travel() -> None:
    """Prices can be a field of frozen settings; they arrive as they were in another process."""

    settings = Settings(prices=with_own(OWN))
    assert pickled(settings) == settings
    assert Settings.model_validate_json(settings.model_dump_json()) == settings


def test_built_in_table_is_sound() -> None:
    """It is dated, and no cached or batch price is above the plain one."""
    (table,) = builtin_prices().tables
    assert table.as_of is not None
    assert table.source == BUILT_IN
    for key, price in table.models.items():
        assert ":" in key, "a bare name would price servers of one's own"
        assert price.prompt < price.completion
        assert price.cached_prompt is None or price.cached_prompt < price.prompt
        assert price.batch_discount == Decimal("0.5")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("models: {m: {prompt: 1}}", "model 'm', completion: Field required"),
        ("models: {m: {prompt: -1, completion: 1}}", "model 'm', prompt: Input should be greater"),
        ("models: {m: {prompt: '0,40', completion: 1}}", "model 'm', prompt: "),
        ("models: {m: {prompt: .nan, completion: 1}}", "model 'm', prompt: "),
        ("models: {m: {prompt: .inf, completion: 1}}", "model 'm', prompt: "),
        ("models: {m: {prompt: true, completion: 1}}", "model 'm', prompt: "),
        ("models: {m: {prompt: 1, completion: 1, input: 2}}", "model 'm', input: Extra inputs"),
        ("models: {m: {prompt: 1, completion: 1, batch_discount: 50}}", "model 'm', batch_disc"),
        (
            "models: {m: {prompt: 1, completion: 1, long_prompt: {prompt: 2, completion: 2}}}",
            "model 'm', long_prompt.above: Field required",
        ),
        ("models: {m: 0.4}", "model 'm': "),
        ("models: {4: {prompt: 1, completion: 1}}", "model '4': "),
        ("prices: {}\nmodels: {m: {prompt: 1, completion: 1}}", "prices: Extra inputs"),
        ("as_of: soon\nmodels: {m: {prompt: 1, completion: 1}}", "as_of: "),
        ("models: {}", "models: "),
        ("models:", "must hold `models:`"),
        ("- m", "must hold `models:`"),
        ("", "must hold `models:`"),
        ("models: [", "is not YAML"),
    ],
)
def test_errors_name_file_model_and_field(text: str, says: str) -> None:
    """A wrong file is refused with its name, the model, the field, and an example."""
    with pytest.raises(UsageError) as error:
        parse_prices(text, "--prices own.yaml")
    assert str(error.value).startswith("--prices own.yaml")
    assert says in str(error.value)
    assert "is not YAML" in says or "completion: 1.60" in str(error.value)
