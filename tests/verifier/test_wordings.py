"""One fault, many wordings: what each provider's error is taken for, and what it is not."""

import json
from typing import Any

import pytest

from schemas.reasons import FailureReason as R
from tests.support.answers import read, said
from verifier.fault import Action


def google(message: str, status: str, *details: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"error": {"code": 400, "message": message, "status": status, "details": details}}]


def passed_on(raw: str, code: int = 400) -> dict[str, Any]:
    return said("Provider returned error", code=code, metadata={"raw": raw, "provider_name": "P"})


OVERFLOW: dict[str, tuple[int, Any]] = {
    "openai": (400, said("the window holds 8192 tokens", code="context_length_exceeded")),
    "openai_no_code": (400, said("This model's maximum context length is 9 tokens, not 10.")),
    "openai_new": (400, said("Your input exceeds the context window of this model.")),
    "openai_string": (400, said("'messages[1].content': string too long", code="string_above_max_length")),
    "openai_per_minute": (429, said("Request too large for m on tokens per min (TPM): Limit 9, Requested 10.", code="rate_limit_exceeded")),
    "azure": (400, {"error": {"code": "context_length_exceeded", "message": "Too long"}}),
    "anthropic": (400, said("prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error")),
    "anthropic_with_reply": (400, said("input length and `max_tokens` exceed context limit: 19 + 2 > 20")),
    "anthropic_bytes": (413, said("Request exceeds the maximum size", type="request_too_large")),
    "bedrock": (400, {"message": "Input is too long for requested model."}),
    "gemini": (400, google("The input token count (12) exceeds the maximum number of tokens allowed (10).", "INVALID_ARGUMENT")),
    "vertex": (400, google("Unable to submit request: the input token count is 12 but model only supports up to 10.", "INVALID_ARGUMENT")),
    "vertex_limit": (400, google("Input tokens exceed the configured limit of 10 tokens.", "INVALID_ARGUMENT")),
    "vertex_bytes": (400, google("Request payload size exceeds the limit: 20 bytes.", "INVALID_ARGUMENT")),
    "mistral": (400, {"object": "error", "message": "Prompt contains 40 tokens, too large for model with 32 maximum context length", "code": 3051}),
    "groq": (400, said("Please reduce the length of the messages or completion.", code="context_length_exceeded")),
    "groq_per_minute": (413, said("Request too large for model m on tokens per minute, reduce your message size", code="rate_limit_exceeded")),
    "together": (400, said("The input (40 tokens) is longer than the model's context length (32 tokens).")),
    "deepseek": (400, said("This model's maximum context length is 9 tokens. However, you requested 12 tokens", code="invalid_request_error")),
    "openrouter": (400, said("This endpoint's maximum context length is 9 tokens. However, you requested about 12.", code=400)),
    "openrouter_raw": (400, passed_on('{"error": {"message": "too many tokens in all", "code": "context_length_exceeded"}}')),
    "openrouter_plain": (400, passed_on("prompt is too long for it")),
    "litellm": (400, said("litellm.ContextWindowExceededError: BadRequestError: it said no", code="400")),
    "litellm_500": (500, said("litellm.APIError: the prompt is too long: 12 tokens > 10 maximum")),
    "vllm": (400, {"object": "error", "message": "This model's maximum context length is 9 tokens. However, you requested 12 tokens (10 in the messages, 2 in the completion).", "type": "BadRequestError", "param": None, "code": 400}),
    "vllm_prompt": (400, {"object": "error", "message": "The decoder prompt (length 12) is longer than the maximum model length of 9.", "code": 400}),
    "vllm_reply": (400, {"object": "error", "message": "'max_tokens' or 'max_completion_tokens' is too large: 5. This model's maximum context length is 9 tokens and your request has 8 input tokens", "param": "max_tokens", "code": 400}),
    "llama_cpp": (400, said("the request exceeds the available context size (9 tokens), try increasing it", type="exceed_context_size_error")),
    "llama_cpp_batch": (500, said("input is too large to process. increase the physical batch size", type="server_error")),
    "llama_cpp_python": (500, said("Requested tokens (12) exceed context window of 9")),
    "lm_studio": (400, {"error": "The prompt is greater than the context length of 9 tokens"}),
    "ollama": (400, said("prompt too long; exceeded max context length by 3 tokens")),
    "ollama_input": (400, said("the input length exceeds the context length", type="invalid_request_error")),
    "tgi": (422, {"error": "Input validation error: `inputs` must have less than 9 tokens. Given: 12", "error_type": "validation"}),
    "tgi_sum": (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 9. Given: 8 and 2", "error_type": "validation"}),
    "sglang": (400, {"object": "error", "message": "The input (12 tokens) is longer than the model's context length (9 tokens).", "code": 400}),
    "sglang_allowed": (400, {"object": "error", "message": "Input length (12 tokens) exceeds the maximum allowed length (9 tokens).", "code": 400}),
    "xai": (400, {"code": "invalid", "error": "This model's maximum prompt length is 9 but the request contains 12 tokens."}),
    "moonshot": (400, said("Your request exceeded model token limit: 9", type="invalid_request_error")),
    "dashscope": (400, said("Range of input length should be [1, 9]", code="invalid_parameter_error")),
    "github": (413, said("Request body too large for m. Max size: 9 tokens.", code="tokens_limit_reached")),
    "fireworks": (400, said("The prompt is too long: 12, model maximum context length: 9")),
    "cohere": (400, {"message": "too many tokens: the prompt has more than 9"}),
    "nginx": (413, {}),
    "under_200": (200, said("the prompt is too long", code=400)),
    "under_200_no_status": (200, said("prompt is too long: 12 tokens > 10 maximum", type="invalid_request_error")),
}  # fmt: skip


@pytest.mark.parametrize("case", OVERFLOW)
def test_context_overflow(case: str) -> None:
    """About this record alone: not sent again, no neighbour held up, the reason named."""
    fault = read(*OVERFLOW[case])
    assert (fault.action, fault.reason) == (Action.GIVE_UP, R.CONTEXT_LENGTH_EXCEEDED)


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "20s"}
PER_DAY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
PER_MINUTE = {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}
SEE_BILLING = "You exceeded your current quota, please check your plan and billing details."

EMPTY_ACCOUNT: dict[str, tuple[int, Any]] = {
    "openai": (429, said(SEE_BILLING, type="insufficient_quota", code="insufficient_quota")),
    "openai_hard_limit": (400, said("Billing hard limit has been reached", code="billing_hard_limit_reached")),
    "openai_inactive": (429, said("Your account is not active", code="billing_not_active")),
    "azure": (403, said("Billing is not active for this subscription")),
    "anthropic": (400, said("Your credit balance is too low to use this API.", type="invalid_request_error")),
    "gemini_per_day": (429, google(SEE_BILLING, "RESOURCE_EXHAUSTED", RETRY_INFO, PER_DAY)),
    "gemini_none_at_all": (429, said("Quota exceeded for metric: m, limit: 0. Please retry in 5s.")),
    "gemini_billing": (403, google("This needs an account", "PERMISSION_DENIED", {"reason": "BILLING_DISABLED"})),
    "deepseek": (402, said("Insufficient Balance")),
    "zhipu": (429, said("Insufficient balance, please recharge.", code="1113")),
    "openrouter": (402, said("This request requires more credits, or fewer max_tokens.", code=402)),
    "openrouter_key": (403, said("Key limit exceeded (total limit).", code=403)),
    "litellm": (400, said("Budget has been exceeded! Current cost: 2.0, Max budget: 1.0", type="budget_exceeded")),
    "xai": (429, {"code": "exhausted", "error": "Your team has used all available credits"}),
    "groq": (400, said("Organization has reached its monthly spend limit", code="blocked_api_access")),
    "together": (402, said("Credit limit exceeded")),
    "fireworks": (412, said("Account x is currently suspended: spending limit")),
    "moonshot": (429, said("Check your plan", type="exceeded_current_quota_error")),
    "dashscope": (400, said("Access denied, see your standing", code="Arrearage")),
    "hugging_face": (402, {"error": "You have exceeded your monthly included credits"}),
    "under_200": (200, said("no credit", code="insufficient_quota")),
}  # fmt: skip


@pytest.mark.parametrize("case", EMPTY_ACCOUNT)
def test_an_empty_account_stops_the_run(case: str) -> None:
    """Waiting brings no credit back: one clear error instead of a failure of each record."""
    fault = read(*EMPTY_ACCOUNT[case])
    assert (fault.action, fault.reason) == (Action.STOP, R.QUOTA_EXHAUSTED)


LIMITED: dict[str, tuple[int, Any, float | None]] = {
    "openai_requests": (429, said("Rate limit reached for m on requests per min (RPM): Limit 3, Used 3. Please try again in 20s. Add a payment method in billing.", code="rate_limit_exceeded"), 20.0),
    "openai_tokens": (429, said("Rate limit reached on tokens per min (TPM): Limit 9. Please try again in 1m2.5s.", type="tokens", code="rate_limit_exceeded"), 62.5),
    "openai_ms": (429, said("Rate limit reached. Please try again in 250ms.", code="rate_limit_exceeded"), 0.25),
    "azure": (429, said("Requests have exceeded call rate limit of your current pricing tier. Please retry after 22 seconds.", code="429"), 22.0),
    "anthropic": (429, said("This request would exceed your rate limit", type="rate_limit_error"), None),
    "gemini": (429, google(SEE_BILLING, "RESOURCE_EXHAUSTED", RETRY_INFO, PER_MINUTE), 20.0),
    "gemini_in_words": (429, said(SEE_BILLING + " Please retry in 5.5s.", status="RESOURCE_EXHAUSTED"), 5.5),
    "gemini_object": (429, google(SEE_BILLING, "RESOURCE_EXHAUSTED", {"retryDelay": {"seconds": "7"}}), 7.0),
    "vertex": (429, google("Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED"), None),
    "mistral": (429, {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "code": "1300"}, None),
    "groq": (429, said("Rate limit reached on tokens per minute (TPM). Please try again in 7.66s. Need more? Upgrade at billing.", code="rate_limit_exceeded"), 7.66),
    "together": (429, said("You have reached the rate limit specific to this model", type="model_rate_limit"), None),
    "openrouter": (429, said("Provider returned error", code=429, metadata={"raw": "m is temporarily rate-limited, or add your own key and credits", "retry_after_seconds": 6}), 6.0),
    "litellm": (429, said("No deployments available for selected model, Try again in 60 seconds."), 60.0),
    "nested_json": (429, said(json.dumps({"error": {"message": SEE_BILLING, "details": [RETRY_INFO]}})), 20.0),
    "groq_flex": (498, said("Flex tier is full", code="capacity_exceeded"), None),
    "bedrock": (400, {"message": "Too many requests, please wait", "__type": "ThrottlingException"}, None),
    "sglang": (400, {"object": "error", "message": "The request queue is full.", "code": 400}, None),
    "under_200": (200, said("Slow down", code=429), None),
    "under_200_no_status": (200, said("Rate limit exceeded, retry in 3 seconds"), 3.0),
}  # fmt: skip


@pytest.mark.parametrize("case", LIMITED)
def test_a_rate_limit_passes(case: str) -> None:
    """It is waited out for as long as it says, in whatever place it says so."""
    status, body, wait = LIMITED[case]
    fault = read(status, body)
    assert (fault.action, fault.reason) == (Action.RETRY, R.RATE_LIMITED)
    assert fault.wait == wait
    assert fault.overload


OVERLOADED: dict[str, tuple[int, Any]] = {
    "openai": (503, said("Slow down", code="slow_down")),
    "openai_500": (500, said("That model is currently overloaded with other requests.")),
    "anthropic": (529, said("Overloaded", type="overloaded_error")),
    "gemini": (503, google("The model is overloaded. Please try again later.", "UNAVAILABLE")),
    "ollama": (503, said("server busy, please try again. maximum pending requests exceeded")),
    "cloudflare": (503, {}),
    "hugging_face": (503, {"error": "Model m is currently loading", "estimated_time": 20.0}),
    "under_200": (200, said("the model is overloaded, try later")),
}  # fmt: skip


@pytest.mark.parametrize("case", OVERLOADED)
def test_an_overloaded_server_is_given_time(case: str) -> None:
    """It is tried again, and known for what it is: too much load."""
    fault = read(*OVERLOADED[case])
    assert (fault.action, fault.reason, fault.overload) == (Action.RETRY, R.PROVIDER_ERROR, True)
    assert fault.wait == (20.0 if case == "hugging_face" else None)


@pytest.mark.parametrize("status", [408, 409, 421, 424, 425, 460, 499, 500, 502, 504, 520, 522])
def test_other_troubles_of_the_server_are_no_overload(status: int) -> None:
    """They pass, and are no reason to send less."""
    fault = read(status, said("an internal error"))
    assert (fault.action, fault.reason, fault.overload) == (Action.RETRY, R.PROVIDER_ERROR, False)


BAD_KEY: dict[str, tuple[int, Any]] = {
    "openai": (401, said("Incorrect API key provided", code="invalid_api_key")),
    "openai_country": (403, said("Not here", code="unsupported_country_region_territory")),
    "azure": (401, said("Access denied due to invalid subscription key", code="401")),
    "azure_network": (403, said("Access denied due to Virtual Network/Firewall rules.", code="403")),
    "anthropic": (401, said("invalid x-api-key", type="authentication_error")),
    "gemini": (400, google("API key not valid. Please pass another.", "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"})),
    "gemini_expired": (400, google("API key expired. Renew it.", "INVALID_ARGUMENT")),
    "gemini_leaked": (403, google("Your API key was reported as leaked.", "PERMISSION_DENIED")),
    "vertex": (401, google("Expected OAuth 2 access token", "UNAUTHENTICATED")),
    "vertex_disabled": (403, google("Turn the API on", "PERMISSION_DENIED", {"reason": "SERVICE_DISABLED"})),
    "mistral": (401, {"message": "Unauthorized", "request_id": "r"}),
    "xai": (400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***"}),
    "openrouter": (200, said("No auth credentials found", code=401)),
    "litellm": (401, said("Authentication Error, no such token", type="auth_error", code="401")),
    "vllm": (401, {"error": "Unauthorized"}),
    "proxy": (407, {}),
    "under_200": (200, said("no", code="invalid_api_key")),
    "cloudflare": (401, {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]}),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_KEY)
def test_a_bad_key_stops_the_run(case: str) -> None:
    """Under whatever status it comes."""
    fault = read(*BAD_KEY[case])
    assert (fault.action, fault.reason) == (Action.STOP, R.AUTH)


NO_MODEL: dict[str, tuple[int, Any]] = {
    "openai": (404, said("The model `gpt-9.1` does not exist", code="model_not_found")),
    "openai_project": (403, said("Project p does not have access to model `m`", code="model_not_found")),
    "azure": (404, {"error": {"code": "DeploymentNotFound", "message": "The deployment is not there."}}),
    "anthropic": (404, said("model: m-9", type="not_found_error")),
    "gemini": (404, google("models/m-9 is not found for API version v1main", "NOT_FOUND")),
    "mistral": (400, {"object": "error", "message": "Invalid model: m-9", "type": "invalid_model", "code": "1500"}),
    "groq": (400, said("The model m has been decommissioned", code="model_decommissioned")),
    "deepseek": (400, said("Model Not Exist", code="invalid_request_error")),
    "openrouter": (400, said("m-9 is not a valid model ID", code=400)),
    "litellm": (400, said("/chat/completions: Invalid model name passed in model=m-9")),
    "vllm": (404, {"object": "error", "message": "The model `m` does not exist.", "code": 404}),
    "ollama": (404, said('model "m" not found, try pulling it first')),
    "together": (404, said("Unable to access model m", code="model_not_available")),
    "zhipu": (400, said("Unknown Model, please check it.", code="1211")),
    "gone": (410, said("This version was shut down")),
    "under_200": (200, said("The model m-9 does not exist", code=404)),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_MODEL)
def test_a_missing_model_stops_the_run(case: str) -> None:
    """It is missing for all records, whatever the status."""
    fault = read(*NO_MODEL[case])
    assert (fault.action, fault.reason) == (Action.STOP, R.BAD_REQUEST)


FILTERED: dict[str, tuple[int, Any]] = {
    "openai": (400, said("Invalid prompt: it was flagged", code="invalid_prompt")),
    "openai_policy": (400, said("Rejected by our safety system", code="content_policy_violation")),
    "azure": (400, said("The prompt triggered our content management policy", code="content_filter", param="prompt")),
    "azure_inner": (400, said("No.", innererror={"code": "ResponsibleAIPolicyViolation"}, code="content_filter")),
    "anthropic": (400, said("Output blocked by content filtering policy", type="invalid_request_error")),
    "gemini": (400, google("The prompt has prohibited content", "INVALID_ARGUMENT")),
    "vertex": (400, google("The prompt was blocked by Model Armor", "INVALID_ARGUMENT")),
    "deepseek": (400, said("Content Exists Risk", code="invalid_request_error")),
    "dashscope": (400, said("Input data may contain inappropriate content.", code="data_inspection_failed")),
    "moonshot": (400, said("It was considered high risk", type="content_filter")),
    "openrouter": (403, said("m requires moderation. Your input was flagged for violence", code=403)),
    "xai": (403, {"code": "forbidden", "error": "Content violates usage guidelines."}),
    "litellm": (400, said("litellm.ContentPolicyViolationError: it said no")),
    "under_200": (200, said("Your input was flagged", code=403)),
}  # fmt: skip


@pytest.mark.parametrize("case", FILTERED)
def test_a_content_filter_concerns_one_record(case: str) -> None:
    """A person sees the record; nothing is sent again, and 403 counts against nobody."""
    fault = read(*FILTERED[case])
    assert (fault.action, fault.reason) == (Action.GIVE_UP, R.CONTENT_FILTER)


@pytest.mark.parametrize(
    "body",
    [
        said("Forbidden"),
        said("You do not have permission to do that"),
        {"message": "Access was blocked by the network's administrator"},
    ],
)
def test_any_other_403_may_be_the_keys_fault(body: Any) -> None:
    """It counts against the key, after several records."""
    assert read(403, body).action is Action.FORBIDDEN


REFUSED: dict[str, tuple[int, Any, str]] = {
    "openai_rename": (400, said("'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens", code="unsupported_parameter"), "max_tokens"),
    "openai_no_param": (400, said("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."), "max_tokens"),
    "openai_temperature": (400, said("'temperature' does not support 0, only 1", param="temperature", code="unsupported_value"), "temperature"),
    "openai_schema": (400, said("Invalid schema for response_format 'v': 'additionalProperties' is required", param="response_format"), "response_format"),
    "openai_no_json": (400, said("'messages' must contain the word 'json' to use 'response_format'", param="messages"), "response_format"),
    "openai_too_large": (400, said("max_tokens is too large: 5000. This model supports at most 4096 completion tokens", param="max_tokens"), "max_tokens"),
    "azure_version": (400, said("response_format value as json_schema is enabled only for later api versions", param="response_format"), "response_format"),
    "azure_model": (400, said("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.", param="response_format"), "response_format"),
    "anthropic_keys": (400, said("output_format.schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"), "response_format"),
    "anthropic_complex": (400, said("Schema is too complex for compilation."), "response_format"),
    "anthropic_temperature": (400, said("`temperature` is deprecated for this model."), "temperature"),
    "anthropic_max": (400, said("max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens"), "max_tokens"),
    "gemini_states": (400, google("The specified schema produces a constraint that has too many states for serving.", "INVALID_ARGUMENT"), "response_format"),
    "gemini_schema": (400, google("GenerateContentRequest.generation_config.response_schema.properties: should be non-empty", "INVALID_ARGUMENT"), "response_format"),
    "vertex_schema": (400, google("Unable to submit request because `responseSchema` has an unknown type.", "INVALID_ARGUMENT"), "response_format"),
    "mistral_extra": (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"], "msg": "Extra inputs are not permitted"}]}, "max_completion_tokens"),
    "mistral_format": (422, {"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text' or 'json_object'"}]}, "response_format"),
    "groq_format": (400, said("This model does not support response format `json_schema`."), "response_format"),
    "groq_max": (400, said("`max_tokens` must be less than or equal to `8192`, which is less than the `context_window`"), "max_tokens"),
    "deepseek_format": (400, said("This response_format type is unavailable now"), "response_format"),
    "deepseek_422": (422, said("Failed to deserialize the JSON body: response_format: unknown variant `json_schema`, expected one of `text`, `json_object`"), "response_format"),
    "deepseek_max": (400, said("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), "max_tokens"),
    "dashscope_max": (400, said("Range of max_tokens should be [1, 8192]"), "max_tokens"),
    "moonshot_temperature": (400, said("invalid temperature: only 1 is allowed for this model"), "temperature"),
    "openrouter_raw": (400, passed_on(json.dumps(said("no such value", param="temperature"))), "temperature"),
    "vllm_grammar": (400, {"object": "error", "message": "The provided JSON schema contains features not supported by xgrammar.", "code": 400}, "response_format"),
    "vllm_guided": (400, {"object": "error", "message": "Failed to compile guided decoding grammar", "code": 400}, "response_format"),
    "vllm_max": (400, {"object": "error", "message": "max_tokens=9000 cannot be greater than max_model_len=8192", "code": 400}, "max_tokens"),
    "llama_cpp": (400, said("Failed to parse grammar", type="invalid_request_error"), "response_format"),
    "llama_cpp_type": (400, said("response_format type must be one of \"text\" or \"json_object\", but got: json_schema"), "response_format"),
    "lm_studio": (400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}, "response_format"),
    "ollama": (500, said("invalid JSON schema in format", type="api_error"), "response_format"),
    "ollama_grammar": (500, said("failed to initialise grammar", type="api_error"), "response_format"),
    "tgi": (422, {"error": "Input validation error: grammar is not supported", "error_type": "validation"}, "response_format"),
    "sglang": (400, {"object": "error", "message": "Failed to compile json_schema grammar", "code": 400}, "response_format"),
    "not_implemented": (501, said("response_format.type is not implemented"), "response_format"),
    "unknown_field": (400, said("Unrecognized request argument supplied: max_completion_tokens"), "max_completion_tokens"),
    "under_200": (200, said("temperature is not supported by this model", code=400), "temperature"),
    "under_200_no_status": (200, said("This response_format type is unavailable now"), "response_format"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_parameter_is_named(case: str) -> None:
    """It is about every record's request, so that it is given up once and for all."""
    status, body, parameter = REFUSED[case]
    fault = read(status, body)
    assert (fault.action, fault.parameter, fault.unsure) == (Action.ADAPT, parameter, False)


@pytest.mark.parametrize(
    "name",
    ["temperature", "credit limit exceeded", "context length", "api key expired", "flagged",
     "unknown model", "insufficient_quota", "max_tokens", "request too large"],
)  # fmt: skip
def test_a_refused_schema_may_quote_fields_of_any_name(name: str) -> None:
    """Its message names the record's fields, which say nothing of key, account or model."""
    text = f"Invalid schema for response_format 'fields_numeric': In context=('properties', '{name}'), no."
    assert read(400, said(text, param="response_format")).parameter == "response_format"
    assert read(400, said(text)).parameter == "response_format"


@pytest.mark.parametrize(
    "text",
    [
        "bad request",
        "The json schema in your prompt could not be read",
        "messages[1]: there is an invalid JSON schema in your message",
        "the json_schema of the document is not supported",
        "We could not follow the schema inside the prompt",
        "Unable to process input image. Please retry.",
        "messages[1].content[2]: Invalid image data",
        "Invalid role: referee",
        "This schema of things is wrong",
    ],
)
def test_a_fault_of_one_record_teaches_nothing_about_the_endpoint(text: str) -> None:
    """A 400 that speaks of the record's content, or of a schema in it, is that record's alone."""
    for body in (said(text), google(text, "INVALID_ARGUMENT")):
        fault = read(400, body)
        assert (fault.action, fault.reason) == (Action.GIVE_UP, R.BAD_REQUEST)
        assert fault.parameter is None


def test_a_refusal_without_a_cause_is_a_guess() -> None:
    """The reply format is given up for this call, and for no other."""
    fault = read(400, google("Request contains an invalid argument.", "INVALID_ARGUMENT"))
    assert (fault.action, fault.parameter, fault.unsure) == (Action.ADAPT, "response_format", True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Failed to validate JSON. Please adjust your prompt.", R.UNPARSEABLE),
        ("max completion tokens reached before generating a valid document", R.TRUNCATED),
    ],
)
def test_a_reply_that_broke_its_form_is_one_calls_fault(text: str, reason: R) -> None:
    """The endpoint takes the format: the model did not keep to it, or ran out of room."""
    fault = read(400, said(text, code="json_validate_failed", failed_generation=""))
    assert (fault.action, fault.reason) == (Action.GIVE_UP, reason)


@pytest.mark.parametrize(
    "secret", ["sk-proj-abcdefgh12345678", "gsk_abcdefgh1234", "AIzaSyabcdefgh123", "Bearer abcdefgh123"]
)  # fmt: skip
def test_a_key_that_an_error_quotes_is_not_repeated(secret: str) -> None:
    """Details go to logs and dead letters."""
    fault = read(401, said(f"Incorrect API key provided: {secret}."))
    assert secret not in fault.detail
    assert fault.detail.startswith("HTTP 401: Incorrect API key provided: ")
