"""What an error answer says and calls for: pure functions, and never an exception."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.reasons import FailureReason as R
from verifier.answer import Reply, read_answer
from verifier.error_body import error_of, plain_text, status_within
from verifier.fault import DETAIL_LENGTH, Action, Fault

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def fault_of(status: int, body: Any, **headers: str) -> Fault:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    fault = read_answer(status, sent, raw, NOW)
    assert isinstance(fault, Fault)
    return fault


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


RETRY_IN_20 = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "20.5s"}]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, error("No credit left", code="insufficient_quota")),
        (429, error("No credit left", type="insufficient_quota")),
        (
            429,
            error("You exceeded your current quota, please check your plan and billing details."),
        ),
        (403, error("Billing is not active for this project")),
        (402, error("Insufficient Balance", code="invalid_request_error")),
        (402, b""),
        (200, error("More credits are required", code=402)),
    ],
)
def test_spent_quota_stops_the_run(status: int, body: Any) -> None:
    """However the provider words it: waiting brings no credit back."""
    fault = fault_of(status, body)
    assert (fault.action, fault.reason) == (Action.STOP, R.QUOTA_EXHAUSTED)


@pytest.mark.parametrize(
    ("body", "wait"),
    [
        (
            error(
                "Rate limit reached on requests per min. Add a payment method to raise it: visit account/billing.",
                type="requests",
                code="rate_limit_exceeded",
            ),
            None,
        ),
        (
            error("Rate limit reached. Please add a payment method to your account.", code=None),
            None,
        ),
        (
            [
                error(
                    "You exceeded your current quota, check plan and billing.", details=RETRY_IN_20
                )
            ],
            20.5,
        ),
        (
            error("Resource has been exhausted (e.g. check quota).", status="RESOURCE_EXHAUSTED"),
            None,
        ),
    ],
)
def test_a_rate_limit_that_mentions_billing_is_a_rate_limit(body: Any, wait: float | None) -> None:
    """More money is only the remedy that the provider offers; the limit passes by itself."""
    fault = fault_of(429, body)
    assert (fault.action, fault.reason, fault.wait) == (Action.RETRY, R.RATE_LIMITED, wait)


def test_an_explicit_wait_does_not_make_spent_quota_a_rate_limit() -> None:
    """insufficient_quota is what it says, whatever else the answer holds."""
    fault = fault_of(
        429, error("no credit", code="insufficient_quota", details=RETRY_IN_20), Retry_After="1"
    )
    assert fault.reason is R.QUOTA_EXHAUSTED


def test_a_filtered_prompt_names_its_category() -> None:
    """The detail says what the filter saw, and leaves out what it let pass."""
    result = {
        "jailbreak": {"filtered": True, "detected": True},
        "violence": {"filtered": False, "severity": "safe"},
        "custom_blocklists": [],
    }
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": result}
    fault = fault_of(400, error("It was filtered", code="content_filter", innererror=inner))
    assert fault.reason is R.CONTENT_FILTER
    assert "(jailbreak)" in fault.detail
    assert "violence" not in fault.detail


@pytest.mark.parametrize("inner", [None, "x", {}, {"content_filter_result": None}])
def test_a_filter_without_categories_is_a_filter(inner: Any) -> None:
    """What is missing from the details changes nothing."""
    fault = fault_of(400, error("It was filtered", code="content_filter", innererror=inner))
    assert (fault.action, fault.reason) == (Action.GIVE_UP, R.CONTENT_FILTER)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"error": {"message": "m", "code": 429}}, ("m", "429")),
        ({"error": {"message": "m", "type": "t", "code": "c"}}, ("m", "c t")),
        ({"error": "m"}, ("m", "")),
        ({"error": "m", "code": 503}, ("m", "503")),
        ({"message": "m", "code": 400, "object": "error"}, ("m", "400")),
        ({"detail": "m"}, ("m", "")),
        ({"error": {"message": None, "code": None}}, ("", "")),
    ],
)
def test_errors_come_in_many_forms(data: dict[str, Any], expected: tuple[str, str]) -> None:
    """An object, a text, or keys of their own."""
    found = error_of(data)
    assert found is not None
    assert (found.message, found.code) == expected


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"choices": []},
        {"choices": [], "error": None},
        {"choices": [], "error": {}},
        {"choices": [], "error": ""},
        {"choices": [], "message": "x"},
    ],
)
def test_a_completion_is_no_error(data: dict[str, Any] | None) -> None:
    """Also when it carries an empty error."""
    assert error_of(data) is None


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (429, 429),
        ("401", 401),
        ("rate_limit 429", 429),
        (200, None),
        ("x", None),
        (None, None),
        (600, None),
        ("²", None),
        ("9" * 5000, None),
    ],
)
def test_the_true_status_of_an_error_in_200(code: Any, status: int | None) -> None:
    """A code that is a status of an error; else it says none."""
    error = error_of({"error": {"message": "m", "code": code}})
    assert error is not None
    assert status_within(error) == status


@pytest.mark.parametrize(
    ("status", "action"), [(404, Action.STOP), (405, Action.STOP), (307, Action.STOP)]
)
def test_an_error_page_of_a_wrong_url(status: int, action: Action) -> None:
    """HTML instead of JSON: the run stops, and its text stands in the detail without markup."""
    page = b"<html><head><title>Not here</title></head>\n<body><h1>Gone</h1></body></html>"
    fault = fault_of(status, page)
    assert (fault.action, fault.reason) == (action, R.BAD_REQUEST)
    assert fault.detail == f"HTTP {status}: Not here Gone"


def test_plain_text_is_cut_and_always_text() -> None:
    """Whatever bytes a proxy sends."""
    assert plain_text(b"<p>\xff\xfe a\n\n b</p>") == "\ufffd\ufffd a b"
    assert len(fault_of(502, b"x" * 10_000).detail) <= DETAIL_LENGTH


@pytest.mark.parametrize(
    "text",
    [
        "Thu, 01 Jan 99999999999 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 -9999",
        "Thu, 99 Jan 2026 00:00:00 GMT",
        "١٢",
        "1e5000",
        "9" * 6000,
        "\x00",
    ],
)
def test_no_retry_after_breaks_the_call(text: str) -> None:
    """A date that no calendar has is no date."""
    fault = fault_of(429, {}, Retry_After=text)
    assert fault.action is Action.RETRY


KEYS = ["error", "message", "code", "type", "param", "status", "choices", "detail", "innererror",
        "metadata", "headers", "details", "retryDelay", "usage", "content", "refusal",
        "finish_reason", "tool_calls", "function", "arguments", "content_filter_result"]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["Retry-After", "retry-after-ms", "X-RateLimit-Reset", "x-ratelimit-remaining"]
    ),
    st.text(max_size=12) | st.integers().map(str) | st.floats().map(str),
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([200, 204, 301, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 529]),
    HEADERS,
    VALUES.map(lambda v: json.dumps(v).encode()) | st.binary(max_size=40),
)
def test_every_answer_is_a_reply_or_a_fault(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    """Nothing that a server sends raises; a fault always says what to do and why."""
    answer = read_answer(status, headers, body, NOW)
    assert isinstance(answer, Reply | Fault)
    if isinstance(answer, Reply):
        assert answer.text.strip()
        return
    assert len(answer.detail) <= DETAIL_LENGTH
    assert answer.wait is None or answer.wait > 0
    assert (answer.action is Action.ADAPT) == (answer.parameter is not None)
