"""What providers say, and what each of their wordings is about. Pure.

Every provider words the same fault in its own way, often under the same status. The patterns are
matched against an error's message and codes in lower case. An error hardly ever quotes a record,
but a refused reply schema may quote the names of its fields, which can be any words.
"""

import re


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.DOTALL)


CONTEXT = _any(
    r"context[ _-]?(?:\w{0,8}[ _-])?(?:length|window|size|limit)",
    r"(?:prompt|input|request|messages?|payload)s?(?: \w+){0,2} (?:is |are )?too[ _](?:long|large)",
    r"request_too_large|prompt_too_long|tokens_limit_reached",
    r"(?:prompt|input|request|payload).{0,60}"
    r"exceed(?:s|ed)? (?:the |model )?(?:max|limit|token|configured)",
    r"maximum (?:prompt|input|sequence|model|allowed) (?:length|size)",
    r"maximum number of (?:input )?tokens|max(?:imum)? (?:input )?tokens allowed",
    r"token count .{0,40}only supports",
    r"too many (?:input )?tokens|token limit exceeded|range of input length",
    r"must have less than \d+ tokens|inputs`? tokens \+ `?max_new_tokens",
    r"reduce (?:the length of|your message)|string too long|string_above_max_length",
    r"physical batch size",
)
"""The record does not fit into the model's window, or into what one request may hold."""

TOO_LARGE_FOR_RATE = _any(r"request too large")
"""One request needs more than a minute's allowance: waiting does not help."""

FILTER = _any(
    r"content[ _]?filter|content management policy|responsibleaipolicy|was filtered",
    r"content[ _]?policy|usage (?:polic|guidelines)|flagged|moderation|safety system",
    r"prohibited[ _]content|content exists risk|data_?inspection_?failed",
    r"inappropriate content|considered high risk|sensitive content",
    r"(?:blocked|intercepted|rejected) by (?:\w+ ){0,3}(?:filter|safety|armor|guardrail)",
)
"""A filter refused the prompt or the reply."""

QUOTA_SPENT = _any(
    r"insufficient_quota|billing_hard_limit|billing_not_active|billing_disabled|budget_exceeded",
    r"exceeded_current_quota|arrearage|freetieronly|perday|limit: 0\b",
    r"insufficient (?:account )?balance|credit balance is too low|requires more credits",
    r"(?:spend|spending|credit|key|budget) limit (?:was |has been )?(?:exceeded|reached)",
    r"budget has been exceeded|used all available credits|account (?:\w+ ){0,3}suspended",
    r"reached (?:its|your) (?:\w+ ){0,2}spend(?:ing)? limit|exceeded your monthly",
)
"""The account is empty: no rate limit is worded so."""

QUOTA_HINT = _any(r"exceeded your current quota|billing|credits?\b|payment|recharge")
"""The account may be empty; rate limits speak of money, too, as the remedy."""

RATE_LIMIT = _any(r"rate[ _-]?limit|too many requests|throttl|queue is full")
OVERLOADED = _any(
    r"overloaded|server (?:is )?busy|slow_down|at capacity|capacity exceeded",
    r"maximum pending requests|is (?:currently )?loading",
)

BAD_KEY = _any(
    r"api key (?:is |was )?(?:not valid|invalid|expired|reported)",
    r"(?:invalid|incorrect|expired)[ _]api[ _]?key",
    r"api_key_(?:invalid|service_blocked)|service_disabled|unsupported_country|account_deactivated",
    r"virtual network|firewall rules|public access is disabled",
)
"""Nothing will be answered with this key, or from here."""

NO_MODEL = _any(
    r"model_not_found|model_not_available|invalid_model|deploymentnotfound|decommissioned",
    r"(?:unknown|unsupported|invalid) model\b|not a valid model|access to (?:the )?model",
    r"\bmodels?[ /:].{0,120}(?:(?:does not|doesn't|not) exist|not found)",
)
"""The model is not there, for any record."""

FORMAT_SURE = _any(
    r"invalid schema for|invalid json schema in format|too many states|schema is too complex",
    r"failed to (?:\w+ ){0,2}grammar|grammar (?:error|is too large)|xgrammar",
    r"response_format\.type",
)
"""A refused reply schema, whatever else its message goes on to quote."""

_FORMAT = _any(
    r"response[ _]?formats?\b|response_?schema|output_(?:config|format)|structured[ _]outputs?",
    r"json_object|json_schema|json mode|guided[ _](?:json|decoding)|\bgrammar\b",
    r"additionalproperties|property keys should match",
    r"(?:unsupported|invalid|unrecognized) json schema|json schema .{0,40}not support",
)
_IN_THE_PROMPT = re.compile(
    r"schema (?:\w+ ){0,3}(?:in|of|inside|within|from) (?:your|the|this|a) "
    r"(?:prompt|message|input|content|document|text|conversation)"
)

_ROOM = _any(
    r"max_(?:completion_)?tokens\W.{0,40}"
    r"(?:too large|less than or equal|exceeds the max|greater than)"
)
_WITH_THE_PROMPT = _any(r"context (?:length|limit|size)|input tokens|input length")


def too_much_room(text: str) -> bool:
    """Whether more room was asked for the reply than the model has, whatever the prompt."""
    return _ROOM.search(text) is not None and not _WITH_THE_PROMPT.search(text)


NOT_VALIDATED = _any(r"json_validate_failed")
NO_ROOM = _any(r"max completion tokens reached")

NO_CAUSE = _any(r"request contains an invalid argument")
"""A refusal that names no cause."""

_INSTEAD = re.compile(r"use \W?max_(?:completion_)?tokens")
_PARAMETER = re.compile(r"max_(?:completion_)?tokens|temperature")


def parameter_in(text: str) -> str | None:
    """The parameter of ours that a refusal is about, None if none.

    A schema in the prompt, which came with a record, is none of ours.
    """
    if _FORMAT.search(_IN_THE_PROMPT.sub(" ", text)):
        return "response_format"
    found = _PARAMETER.search(_INSTEAD.sub(" ", text))
    return found[0] if found else None


_NAMED = {
    "response_format": "response_format", "generation_config.response_schema": "response_format",
    "text.format": "response_format", "temperature": "temperature", "max_tokens": "max_tokens",
    "max_completion_tokens": "max_completion_tokens",
}  # fmt: skip


def parameter_named(name: str) -> str | None:
    """The parameter of ours that an error's `param` means: `response_format.type` is one, too."""
    lowered = name.lower()
    found = (ours for theirs, ours in _NAMED.items() if lowered.startswith(theirs))
    return next(found, None)
