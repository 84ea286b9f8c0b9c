"""What a single phrase of a provider's error decides, and what outweighs it."""

import pytest

from schemas.reasons import FailureReason as R
from tests.support.answers import read, said
from verifier.fault import Action

ALONE = {
    R.CONTEXT_LENGTH_EXCEEDED: """
        request_too_large / prompt_too_long / tokens_limit_reached / the input is too large
        over the maximum number of tokens / more than max tokens allowed / token limit exceeded
        reduce the length of it / reduce your message / string too long / string_above_max_length
        the physical batch size / maximum sequence length / context limit / contextwindow
        """,
    R.CONTENT_FILTER: """
        content management policy / ResponsibleAIPolicyViolation / it was filtered / content_policy
        awaiting moderation / our safety system / data_inspection_failed / inappropriate content
        considered high risk / sensitive content / content filter / usage policy / flagged
        blocked by a safety filter / intercepted by the guardrail / prohibited_content
        """,
    R.QUOTA_EXHAUSTED: """
        billing_not_active / billing_disabled / budget_exceeded / AllocationQuota.FreeTierOnly
        insufficient balance / insufficient account balance / requires more credits
        Budget has been exceeded / used all available credits / exceeded your monthly allowance
        credit limit reached / spending limit has been exceeded / reached its monthly spend limit
        """,
    R.RATE_LIMITED: """
        ThrottlingException / too many requests / rate limit / rate-limited / the queue is full
        """,
    R.PROVIDER_ERROR: """
        the server is busy / server busy / slow_down / we are at capacity / capacity exceeded
        maximum pending requests / it is loading / it is currently loading / overloaded
        """,
    R.AUTH: """
        API_KEY_SERVICE_BLOCKED / account_deactivated / behind a virtual network / firewall rules
        public access is disabled / invalid API key / api key was reported / API_KEY_INVALID
        """,
    R.BAD_REQUEST: """
        model_not_found / model_not_available / invalid_model / DeploymentNotFound / decommissioned
        no access to the model / unknown model / unsupported model / not a valid model
        """,
}  # fmt: skip
ACTIONS = {
    R.CONTEXT_LENGTH_EXCEEDED: Action.GIVE_UP,
    R.CONTENT_FILTER: Action.GIVE_UP,
    R.RATE_LIMITED: Action.RETRY,
    R.PROVIDER_ERROR: Action.RETRY,
}


def phrases(text: str) -> list[str]:
    return [
        phrase.strip() for line in text.split("\n") for phrase in line.split("/") if phrase.strip()
    ]


@pytest.mark.parametrize(
    ("reason", "phrase"), [(r, p) for r, text in ALONE.items() for p in phrases(text)]
)
def test_each_wording_suffices_alone(reason: R, phrase: str) -> None:
    """In the message or in the code, under a status that says nothing."""
    for body in (said(f"No: {phrase}."), said("No", code=phrase)):
        fault = read(400, body)
        assert (fault.action, fault.reason) == (ACTIONS.get(reason, Action.STOP), reason)


@pytest.mark.parametrize(
    "hint",
    [
        "You exceeded your current quota",
        "no credits left",
        "no credit",
        "a payment is due",
        "recharge it",
        "see billing",
    ],
)
def test_what_hints_at_an_empty_account_is_one_unless_it_passes(hint: str) -> None:
    """Under a rate limit's status, with neither its name nor a wait."""
    assert read(429, said(hint)).reason is R.QUOTA_EXHAUSTED
    assert read(429, said(f"rate limit: {hint}")).reason is R.RATE_LIMITED
    assert read(429, said(f"{hint}; retry in 5s")).reason is R.RATE_LIMITED
    assert read(429, said(hint), **{"Retry-After": "5"}).reason is R.RATE_LIMITED
    assert read(400, said(hint)).reason is R.BAD_REQUEST


FORMATS = """
    response format / response_format / output_format / output_config / structured outputs
    structured_output / json_object / json_schema / JSON mode / guided decoding / guided_json
    a grammar / additionalProperties / property keys should match / responseSchema
    unsupported JSON schema / invalid JSON schema / JSON schema is not supported / xgrammar
    """
ROOM = """
    max_tokens is too large / max_tokens exceeds the maximum / max_completion_tokens is greater than it
    max_tokens must be less than or equal to it / the requested max_tokens exceeds the maximum
    """


@pytest.mark.parametrize("phrase", phrases(FORMATS))
def test_each_name_of_the_reply_format(phrase: str) -> None:
    """It is about what we asked for, and about every request."""
    assert read(400, said(f"No: {phrase}.")).parameter == "response_format"


@pytest.mark.parametrize(
    "text",
    [
        "grammar error",
        "the grammar is too large",
        "xgrammar failed",
        "failed to build the grammar",
        "schema is too complex",
        "too many states",
        "invalid schema for it",
    ],
)
def test_a_refused_schema_may_come_as_the_servers_fault(text: str) -> None:
    """Local servers answer 500 to a schema that they cannot compile."""
    assert read(500, said(text)).parameter == "response_format"
    assert read(503, said(text)).action is Action.RETRY


@pytest.mark.parametrize("phrase", phrases(ROOM))
def test_room_that_the_model_does_not_have(phrase: str) -> None:
    """It is about the limit; with the prompt counted in, it is about the record."""
    assert str(read(400, said(f"No: {phrase}.")).parameter).startswith("max_")
    for within in (
        "with the context length",
        "with the context limit",
        "with 8 input tokens exceeded",
        "and the input length exceed the limit",
    ):
        both = read(400, said(f"No: {phrase}, prompt is too long {within}"))
        assert both.reason is R.CONTEXT_LENGTH_EXCEEDED


def test_the_parameter_to_use_instead_is_not_the_refused_one() -> None:
    for text in (
        "Use 'max_completion_tokens' instead of max_tokens",
        "use max_completion_tokens, not max_tokens",
    ):
        assert read(400, said(text)).parameter == "max_tokens"
    assert (
        read(400, said("Use max_tokens, not max_completion_tokens")).parameter
        == "max_completion_tokens"
    )
