"""What tokens cost: the built-in price table, a user's own before it, and the cost of a call. Pure.

Prices are USD per million tokens, which is millionths of a dollar per token.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from schemas.errors import UsageError
from verifier.answer import Reply
from verifier.fault import Fault

BUILT_IN = "the built-in table"
LIKE = "{prompt: 0.40, cached_prompt: 0.10, completion: 1.60, batch_discount: 0.5}"

Usd = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[Decimal, Field(ge=0, le=1, allow_inf_nan=False)]

_BYTES_A_TOKEN, _COMPLETION_TOKENS, _LEARNS = 4, 200, 0.1
"""What a call is taken to need until others tell, and how fast it is learned from them."""

_SNAPSHOT = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3})$")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rates(_Frozen):
    """Prices of one model's tokens, USD per million; cached ones are like others unless set."""

    prompt: Usd
    completion: Usd
    cached_prompt: Usd | None = None

    def micro_usd(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> Decimal:
        """Millionths of a dollar, exactly; cached tokens are part of the prompt's."""
        cached = min(cached_tokens, prompt_tokens)
        cached_price = self.prompt if self.cached_prompt is None else self.cached_prompt
        return (
            (prompt_tokens - cached) * self.prompt
            + cached * cached_price
            + completion_tokens * self.completion
        )


class LongPrompt(Rates):
    """The prices of a whole call whose prompt has more than `above` tokens."""

    above: Annotated[int, Field(ge=1)]


class ModelPrice(Rates):
    """The prices of a model; `batch_discount` is the share that a batch mode takes off."""

    long_prompt: LongPrompt | None = None
    batch_discount: Share | None = None

    def usd(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> float:
        """What one call costs: the float nearest to the exact amount."""
        long = self.long_prompt
        rates = long if long is not None and prompt_tokens > long.above else self
        micro = rates.micro_usd(prompt_tokens, cached_tokens, completion_tokens)
        return float(micro.scaleb(-6))


class PriceTable(_Frozen):
    """Prices by model: `provider:model` or a bare model, `*` for any characters."""

    models: Annotated[dict[str, ModelPrice], Field(min_length=1)]
    as_of: date | None = None
    source: str = ""

    @field_validator("models")
    @classmethod
    def _fold(cls, models: dict[str, ModelPrice]) -> dict[str, ModelPrice]:
        return {key.strip().casefold(): price for key, price in models.items()}

    def key_for(self, names: Sequence[str]) -> str | None:
        """The longest key that fits one of `names`; of equally long ones, that without a `*`."""
        fitting = [name for name in names if name in self.models]
        fitting += [k for k in self.models if "*" in k and any(_fits(k, name) for name in names)]
        return max(fitting, key=lambda k: (len(k.replace("*", "")), "*" not in k), default=None)


class Found(NamedTuple):
    """A model's price, and in which table and under which key it stands."""

    price: ModelPrice
    table: PriceTable
    key: str


class Prices(_Frozen):
    """Tables of prices; the first that knows a model counts."""

    tables: tuple[PriceTable, ...]

    def find(self, provider: str | None, model: str) -> Found | None:
        """The price of `model` at `provider`, None where it is not known."""
        names = tuple(_names(provider, model))
        for table in self.tables:
            key = table.key_for(names)
            if key is not None:
                return Found(table.models[key], table, key)
        return None


class CallCosts:
    """What calls of one endpoint cost; `asked` is the model that requests name.

    The model that answered is priced; where it has no price, the one that was asked.
    """

    def __init__(self, prices: Prices, provider: str | None, asked: str) -> None:
        self._prices = prices
        self._provider = provider
        self._asked = asked
        self._known: dict[str | None, ModelPrice | None] = {}
        self._off_by = 1.0

    def price(self, answered: str | None = None) -> ModelPrice | None:
        """The price of a call that `answered` answered, None where it is not known."""
        if answered not in self._known:
            models = (answered, self._asked) if answered else (self._asked,)
            found = (self._prices.find(self._provider, model) for model in models)
            self._known[answered] = next((f.price for f in found if f is not None), None)
        return self._known[answered]

    def cost_usd(
        self,
        answered: str | None,
        prompt_tokens: int,
        cached_tokens: int,
        completion_tokens: int,
    ) -> float | None:
        """The cost of a call, None where it is not known: no price, or no tokens counted."""
        price = self.price(answered)
        if price is None or not (prompt_tokens or completion_tokens):
            return None
        return price.usd(prompt_tokens, cached_tokens, completion_tokens)

    def of_answer(self, answer: Reply | Fault) -> float | None:
        """What an answer cost, None where it is not known; an error without tokens is free."""
        model = answer.model if isinstance(answer, Reply) else None
        cost = self.cost_usd(
            model, answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens
        )
        free = cost is None and isinstance(answer, Fault) and not answer.prompt_tokens
        return 0.0 if free else cost

    def expected_usd(self, size: int) -> float:
        """What a call with a body of `size` bytes will cost, as far as earlier ones tell."""
        return self._off_by * self._guess_usd(size)

    def learn(self, size: int, cost_usd: float) -> None:
        """A call with a body of `size` bytes came to so much."""
        guess = self._guess_usd(size)
        if guess:
            self._off_by += _LEARNS * (cost_usd / guess - self._off_by)

    def _guess_usd(self, size: int) -> float:
        price = self.price()
        return 0.0 if price is None else price.usd(size // _BYTES_A_TOKEN, 0, _COMPLETION_TOKENS)


@lru_cache(maxsize=1)
def builtin_prices() -> Prices:
    """The prices that come with the package."""
    text = (resources.files("verifier") / "prices.yaml").read_text("utf-8")
    return Prices(tables=(parse_prices(text, BUILT_IN),))


def with_own(table: PriceTable) -> Prices:
    """`table` first, then the built-in prices."""
    return Prices(tables=(table, *builtin_prices().tables))


def parse_prices(text: str, source: str) -> PriceTable:
    """The price table in the YAML `text`; `source` names it in errors.

    Raises UsageError that names the model and the field at fault.
    """
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{source} is not YAML: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("models"), dict):
        raise UsageError(f"{source} must hold `models:` with prices by model, like MODEL: {LIKE}")
    try:
        return PriceTable.model_validate({**data, "source": source})
    except ValidationError as error:
        problems = "; ".join(_explain(item) for item in error.errors())
        raise UsageError(
            f"{source}: {problems}. Prices are USD per million tokens, like {LIKE}"
        ) from error


def _explain(item: Mapping[str, Any]) -> str:
    where = [str(part) for part in item["loc"] if part != "[key]"]
    if where[:1] == ["models"] and len(where) > 1:
        where = [f"model {where[1]!r}", ".".join(where[2:])]
    return f"{', '.join(filter(None, where))}: {item['msg']}"


def _names(provider: str | None, model: str) -> Iterator[str]:
    """What a key may call the model: without a path before it, without its snapshot's date."""
    model = model.strip().casefold()
    for name in dict.fromkeys((model, model.rpartition("/")[2])):
        for form in dict.fromkeys((name, _SNAPSHOT.sub("", name))):
            yield form
            if provider is not None:
                yield f"{provider}:{form}"


@lru_cache(maxsize=1000)
def _pattern(key: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, key.split("*"))), re.DOTALL)


def _fits(key: str, name: str) -> bool:
    return _pattern(key).fullmatch(name) is not None
