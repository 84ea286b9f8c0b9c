"""How one stage calls its endpoint: URL, headers, deadlines, and the rules for faults."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import aiohttp
from yarl import URL

from verifier.answer import Reply
from verifier.backoff import retry_wait
from verifier.budget import Purse
from verifier.endpoint import Endpoint
from verifier.endpoint_state import EndpointState
from verifier.engine import Engine
from verifier.fault import Action, Fault
from verifier.patience import Patience
from verifier.prices import CallCosts, builtin_prices
from verifier.providers import provider_of
from verifier.request import Dialect, first_dialect
from verifier.settings import VerifierSettings
from verifier.shared_replies import SharedReplies

FORBIDDEN_RECORDS = 3
"""A 403 stops the run after this many records in a row: some providers answer it to one."""

LEAST_LEFT = 0.05
"""A retry is not begun with less than this share of the call's time left."""


SHORTEST_SECRET = 8
"""So many characters of a key at the end of a text that was cut off are taken for its beginning."""


def without_secret(text: str, secret: str) -> str:
    """`text` with `[key]` for `secret`, and for its beginning where `text` was cut off."""
    if not secret:
        return text
    text = text.replace(secret, "[key]")
    for length in range(len(secret) - 1, SHORTEST_SECRET - 1, -1):
        if text.endswith(secret[:length]):
            return f"{text[:-length]}[key]"
    return text


class Caller:
    """Sends chat completions to one endpoint. For the engine's loop only, but for making it.

    Raises UsageError when the API key is missing, KeyUnavailableError when it may come later.
    """

    def __init__(self, engine: Engine, endpoint: Endpoint, settings: VerifierSettings) -> None:
        self._engine = engine
        self._endpoint = endpoint
        self._settings = settings
        self._rng = random.Random()  # noqa: S311 - jitter
        self._url = URL(endpoint.url)
        self._key: str | None = None
        self._headers = endpoint.headers(None)
        self._first = first_dialect(self._url.host, settings.prompt_layout)
        # For connecting alone: the engine itself watches the answers.
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout)
        self._budget = None if settings.budget is None else engine.budget(settings.budget)
        prices = settings.prices or builtin_prices()
        self._costs = CallCosts(prices, provider_of(settings.target), endpoint.model)
        self.loop = engine.loop
        self.shared = SharedReplies.of(engine, endpoint.url, settings)
        self.state: EndpointState = engine.state(endpoint, settings)
        self.state.credential.load()
        self.patience = self.state.patience.setdefault(
            endpoint.model, Patience(hedged=settings.hedge)
        )

    @property
    def dialect(self) -> Dialect:
        """What the endpoint's model is known to understand."""
        return self.state.dialects.get(self._endpoint.model, self._first)

    def check(self, now: float) -> None:
        """Raise RunStoppedError when latched; a probe is sent with the key read again."""
        if self.state.check(now):
            self.state.credential.expire()

    def attempt_seconds(self, spent: float) -> float:
        """How long an attempt of a call may take that has spent `spent` seconds."""
        return min(self._settings.attempt_timeout, self._settings.call_timeout - spent)

    async def key(self) -> str | None:
        """The key to send now. Raises KeyUnavailableError, and UsageError when it is gone."""
        return await self.state.credential.value()

    async def has_other_key(self, refused: str | None) -> bool:
        """Whether another key than the refused one is there. Raises as `key` does."""
        return await self.state.credential.renewed(refused)

    async def post(self, body: bytes, key: str | None) -> tuple[int, Mapping[str, str], bytes]:
        """One request: status, headers and body of the answer.

        Raises TimeoutError when no connection is made in time, ClientError and OSError.
        """
        if key != self._key:
            self._key, self._headers = key, self._endpoint.headers(key)
        response = await self._engine.session.post(
            self._url,
            data=body,
            headers=self._headers,
            allow_redirects=False,
            timeout=self._timeout,
        )
        return response.status, response.headers, await response.read()

    def purse(self, calls: int) -> Purse | None:
        """What a record with so many calls may spend, None without a budget."""
        return None if self._budget is None else Purse(self._budget, calls)

    def expected_usd(self, size: int) -> float:
        """What a request of `size` bytes is expected to cost; 0 where no price is known."""
        return self._costs.expected_usd(size)

    def cost_usd(self, size: int, answer: Reply | Fault) -> float | None:
        """What an answer to a request of `size` bytes cost, None where it is not known."""
        cost = self._costs.of_answer(answer)
        if cost and self._budget is not None:
            self._costs.learn(size, cost)
        return cost

    def without_key(self, fault: Fault) -> Fault:
        """The fault without the API key, should the server have quoted it."""
        detail = fault.detail
        for secret in self.state.credential.secrets:
            detail = without_secret(detail, secret)
        return fault if detail == fault.detail else replace(fault, detail=detail)

    def fatal(self, fault: Fault, record_id: str) -> str | None:
        """The message that ends the run, if this fault does: then the endpoint is latched.

        A 403 is the run's fault only after several records: some providers answer it to one.
        """
        stops = fault.action is Action.STOP
        if fault.action is Action.FORBIDDEN:
            self.state.forbidden.add(record_id)
            stops = len(self.state.forbidden) >= FORBIDDEN_RECORDS
        if not stops:
            return None
        message = f"{self._endpoint.url} ({fault.reason.value}): {fault.detail}"
        self.state.latch(message, self.loop.time())
        return message

    def adapt(self, fault: Fault, sent: Dialect, fields: Sequence[str] = ()) -> bool:
        """Give up the refused parameter for this model; whether sending again makes sense."""
        if self.dialect != sent:
            return True
        smaller = sent.without(fault.parameter or "", fields)
        if smaller is None:
            return False
        self.state.dialects[self._endpoint.model] = smaller
        return True

    def wait_before_retry(self, fault: Fault, attempts: int, seconds: float) -> float | None:
        """Seconds to wait before another attempt, None when there is to be none."""
        if fault.action is not Action.RETRY or attempts >= self._settings.max_attempts:
            return None
        if fault.wait is not None and fault.wait > self._settings.max_retry_wait:
            return None
        wait = retry_wait(attempts, fault.wait, self._rng)
        left = self._settings.call_timeout - seconds - wait
        return wait if left > LEAST_LEFT * self._settings.call_timeout else None

    def retry_delay(self) -> float:
        """Seconds by which the retry budget puts a retry off."""
        return self.state.retry_budget.reserve(self.loop.time())
