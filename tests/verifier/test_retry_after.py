"""When a provider wants a request again: every header, every form, and no value that breaks."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier.retry_after import retry_after, seconds_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0.25", 0.25),
        ("86400", 86400.0),
        ("9999999999", 9999999999.0),
        ("1e3", 1000.0),
        ("60s", 60.0),
        ("500ms", 0.5),
        ("1m30.5s", 90.5),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("2d", 172800.0),
        ("1h0m0s", 3600.0),
        ("850µs", 0.00085),
        ("850us", 0.00085),
        ("20 seconds", 20.0),
        ("1 minute 5 seconds", 65.0),
        ("2 hours", 7200.0),
        ("Thu, 01 Jan 2026 00:00:07 GMT", 7.0),
        ("Thursday, 01-Jan-26 00:00:07 GMT", 7.0),
        ("Thu Jan  1 00:00:07 2026", 7.0),
        ("Thu, 01 Jan 2026 01:00:07 +0100", 7.0),
        ("2026-01-01T00:00:07Z", 7.0),
        ("2026-01-01T01:00:07.5+01:00", 7.5),
        ("2026-01-01 00:00:07", 7.0),
        ("1767225607", 7.0),
        ("1767225607.5", 7.5),
        ("1767225607000", 7.0),
        ("0", None),
        ("0s", None),
        ("-3", None),
        ("-1m", None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("1e400", None),
        ("", None),
        ("soon", None),
        ("7 apples", None),
        ("5 months", None),
        ("1767225500", None),
        ("Wed, 31 Dec 2025 23:00:00 GMT", None),
        ("2025-12-31T23:00:00Z", None),
        ("Thu, 99 Jan 2026 00:00:00 GMT", None),
        ("Thu, 01 Jan 99999999999 00:00:00 GMT", None),
    ],
)
def test_a_wait_in_any_form(text: str, seconds: float | None) -> None:
    """Seconds, durations, dates and moments since 1970; what is past or no time is no wait."""
    found = seconds_of(text, NOW)
    assert found == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"RETRY-AFTER": " 7 "}, 7.0),
        ({"retry-after": "1m"}, 60.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "-5", "retry-after": "2"}, 2.0),
        ({"retry-after": "soon", "ratelimit-reset": "12"}, 12.0),
        ({"retry-after": "2", "x-ratelimit-reset-requests": "9s"}, 2.0),
        ({"X-RateLimit-Reset": "1767225605000", "X-RateLimit-Remaining": "0"}, 5.0),
        ({"X-RateLimit-Reset": "1767225605"}, 5.0),
        ({"X-RateLimit-Reset": "1767225500"}, None),
        ({"x-ratelimit-reset-requests": "1m30.5s", "x-ratelimit-remaining-requests": "0"}, 90.5),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "7"}, None),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "many"}, 1.0),
        ({"x-ratelimit-reset-tokens": "20ms", "x-ratelimit-reset-requests": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-tokens": "9s", "x-ratelimit-remaining-tokens": "-12"}, 9.0),
        (
            {
                "x-ratelimit-reset-requests": "24h0m0s",
                "x-ratelimit-remaining-requests": "99",
                "x-ratelimit-reset-tokens": "7.66s",
                "x-ratelimit-remaining-tokens": "0",
            },
            7.66,
        ),
        (
            {
                "x-ratelimit-reset-tokens-minute": "11.4",
                "x-ratelimit-remaining-tokens-minute": "0",
            },
            11.4,
        ),
        ({"ratelimitbysize-reset": "34", "ratelimitbysize-remaining": "0"}, 34.0),
        (
            {
                "anthropic-ratelimit-input-tokens-reset": "2026-01-01T00:00:12Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:50Z",
                "anthropic-ratelimit-requests-remaining": "49",
            },
            12.0,
        ),
        ({"RateLimit": '"default";r=0;t=12'}, 12.0),
        ({"RateLimit": '"default";r=3;t=12'}, None),
        ({"RateLimit": "limit=100, remaining=0, reset=12"}, 12.0),
        ({"RateLimit-Policy": '"default";q=100;w=60'}, None),
        ({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}, None),
    ],
)
def test_what_headers_ask_for(headers: dict[str, str], wait: float | None) -> None:
    """The most exact header first; of the limits, the longest among those that are used up."""
    assert retry_after(headers, NOW) == (None if wait is None else pytest.approx(wait))


def test_moments_are_measured_by_the_servers_clock() -> None:
    """A worker whose clock is an hour off waits no hour, and not in vain."""
    date = {"Date": "Thu, 01 Jan 2026 01:00:00 GMT"}
    assert retry_after({**date, "Retry-After": "Thu, 01 Jan 2026 01:00:07 GMT"}, NOW) == 7.0
    assert retry_after({**date, "X-RateLimit-Reset": "1767229205"}, NOW) == 5.0
    assert retry_after({"Date": "today", "Retry-After": "1767225607"}, NOW) == 7.0


@pytest.mark.parametrize(
    ("message", "wait"),
    [
        ("Limit 3, used 3. Please try again in 20s. Visit our pages.", 20.0),
        ("Please try again in 250ms.", 0.25),
        ("Please try again in 1h4m2.5s.", 3842.5),
        ("Please retry after 22 seconds.", 22.0),
        ("Please retry in 55.5s", 55.5),
        ("Please retry your request after 5 s", 5.0),
        ("Try again in about 1 minute", 60.0),
        ("please wait 12 seconds", 12.0),
        ("Please try again later", None),
        ("retry 5 more times", None),
        ("try again in 5 mondays", None),
        ("It took 20s", None),
        ("", None),
    ],
)
def test_what_words_ask_for(message: str, wait: float | None) -> None:
    """Where a gateway dropped the headers; they count first where they are."""
    assert retry_after({}, NOW, message) == (None if wait is None else pytest.approx(wait))
    assert retry_after({"Retry-After": "3"}, NOW, message) == 3.0


NAMES = ["retry-after", "retry-after-ms", "x-ratelimit-reset", "ratelimit", "date",
         "x-ratelimit-remaining", "anthropic-ratelimit-requests-reset"]  # fmt: skip
ODD = st.text(max_size=20) | st.integers().map(str) | st.floats().map(str) | st.datetimes().map(str)


@given(st.dictionaries(st.sampled_from(NAMES), ODD), st.text(max_size=60))
def test_no_wait_breaks_the_call(headers: dict[str, str], message: str) -> None:
    """Nothing raises; a wait is some time that ends."""
    wait = retry_after(headers, NOW, message)
    assert wait is None or 0 < wait < float("inf")


@pytest.mark.parametrize("unit", ["1m", "1 ", "again in 1", "ms", "1.0000000000"])
def test_long_nonsense_is_soon_read(unit: str) -> None:
    """Neither a header nor a message of any length holds up the loop."""
    assert retry_after({"Retry-After": unit * 50_000}, NOW, unit * 50_000) is None or unit == "1m"
