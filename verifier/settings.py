"""How verifiers are called: validated once, frozen, picklable, without a secret in it."""

import os
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scoring.prompt import PromptLayout
from verifier.budget import BudgetLimits
from verifier.endpoint import Endpoint, parse_endpoint
from verifier.key_source import chosen
from verifier.prices import Prices
from verifier.providers import resolve

MAX_BYTES = 10_000_000_000
"""How large a cache file may get."""

RECORD_DEADLINE_CAP_S = 239.0
"""Beam runners take a worker that says nothing for five minutes to be stuck."""


class OnOff(StrEnum):
    """A switch."""

    ON = "on"
    OFF = "off"


class KeepReplies(StrEnum):
    """What the verdict log keeps of a reply: nothing, all but its free text, or all."""

    NONE = "none"
    REDACTED = "redacted"
    FULL = "full"


Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
PerMinute = Annotated[float, Field(gt=0)]


class VerifierSettings(BaseModel):
    """Limits, deadlines (seconds) and retries of one verifier endpoint.

    `budget` is this process's own share; without `prices`, the built-in ones count.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    api_key_env: str | None = None
    api_key_secret: str | None = None
    max_concurrency: Count = 64
    max_records_in_flight: Count = 256
    connect_timeout: Seconds = 10.0
    attempt_timeout: Seconds = 60.0
    call_timeout: Seconds = 150.0
    record_timeout: Annotated[float, Field(gt=0, le=RECORD_DEADLINE_CAP_S)] = 220.0
    max_attempts: Count = 5
    max_retry_wait: Seconds = 30.0
    max_outage: Seconds = 300.0
    requests_per_minute: PerMinute | None = None
    tokens_per_minute: PerMinute | None = None
    verifier_processes: Count = 1
    adaptive_deadlines: OnOff = OnOff.ON
    hedge: bool = False
    cache: str | None = None
    cache_max_bytes: Count = MAX_BYTES
    cache_max_age: timedelta | None = None
    cache_password_env: str | None = None
    prompt_layout: PromptLayout = PromptLayout.STANDARD
    prefix_lead: bool = False
    budget: BudgetLimits | None = None
    prices: Prices | None = None
    max_fields_per_call: Count = 50
    keep_replies: KeepReplies = KeepReplies.NONE

    @field_validator("target")
    @classmethod
    def _resolved(cls, target: str) -> str:
        """Workers have another environment: what a target leaves to it is written out here."""
        return resolve(target, os.environ)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that is called. Raises UsageError."""
        return parse_endpoint(self.target, chosen(self.api_key_env, self.api_key_secret))

    @model_validator(mode="after")
    def _nested(self) -> Self:
        if not self.attempt_timeout <= self.call_timeout <= self.record_timeout:
            raise ValueError(
                "deadlines must not shrink: attempt_timeout <= call_timeout <= record_timeout"
            )
        if self.prefix_lead and self.prompt_layout is not PromptLayout.SHARED_PREFIX:
            raise ValueError("prefix_lead needs prompt_layout shared_prefix")
        chosen(self.api_key_env, self.api_key_secret)
        return self

    def share_of(self, per_minute: float | None) -> float | None:
        """This process's share of a figure that holds for all processes together."""
        return None if per_minute is None else per_minute / self.verifier_processes
