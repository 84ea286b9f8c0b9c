"""The policy file: when a scored record may be accepted without a person looking at it."""

import hashlib
import json
from functools import cached_property
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from schemas.errors import UsageError

Score = Annotated[float, Field(ge=0, le=1)]
DEFAULT_FIELD_THRESHOLD = 0.8


class _Rules(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AcceptRules(_Rules):
    """What a record needs to be accepted; scores must be at least these."""

    document: Score = 0.85
    fields: dict[str, Score] = {"default": DEFAULT_FIELD_THRESHOLD}
    required: tuple[str, ...] = ()
    min_verdicts: Annotated[int, Field(ge=1)] | None = None

    def threshold(self, field: str) -> float:
        """The least score that `field` needs."""
        return self.fields.get(field, self.fields.get("default", DEFAULT_FIELD_THRESHOLD))

    def verdicts_needed(self, templates: int) -> int:
        """How many of `templates` must have given a verdict: 0.6 of them unless set."""
        return self.min_verdicts if self.min_verdicts is not None else -(-templates * 6 // 10)


class ReviewRules(_Rules):
    """What sends a record to a person although its scores suffice."""

    audit_rate: Annotated[float, Field(ge=0, le=1)] = 0.0
    audit_salt: str | None = None
    schema_violations: bool = True
    instruction_like_text: bool = True

    @model_validator(mode="after")
    def _salted(self) -> Self:
        if self.audit_rate > 0 and not self.audit_salt:
            raise ValueError(
                "review.audit_rate needs review.audit_salt: any secret text, "
                "so that nobody can predict which records are audited"
            )
        return self


class Policy(_Rules):
    """The routing rules, versioned by their content."""

    accept: AcceptRules = AcceptRules()
    review: ReviewRules = ReviewRules()

    @cached_property
    def version(self) -> str:
        """12 hex digits of the rules' hash; equal rules have equal versions."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def parse_policy(text: str, source: str) -> Policy:
    """The policy in the YAML `text`; `source` names it in errors.

    Raises UsageError that names the key and what is wrong with it.
    """
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{source} is not YAML: {error}") from error
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise UsageError(f"{source} must hold a mapping with the keys accept and review")
    try:
        return Policy.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"{source} is not a valid policy: {explain(error)}") from error


def explain(error: ValidationError) -> str:
    """Pydantic's findings on one line: `accept.document: Input should be …`."""
    return "; ".join(
        f"{'.'.join(map(str, item['loc'])) or 'it'}: {item['msg']}" for item in error.errors()
    )
