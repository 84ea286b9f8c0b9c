"""Sizes and ages as people write them."""

from datetime import timedelta

import pytest

from schemas.errors import UsageError
from verifier.cache.sizes import parse_age, parse_bytes, show_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1500", 1500), ("10GB", 10**10), ("500 mb", 5 * 10**8), ("1.5kB", 1500)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text, "--max_bytes") == size


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("45s", timedelta(seconds=45)),
        ("90m", timedelta(minutes=90)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("1.5 W", timedelta(days=10.5)),
    ],
)
def test_ages(text: str, age: timedelta) -> None:
    assert parse_age(text, "--max_age") == age


@pytest.mark.parametrize("text", ["", "ten", "-1GB", "10 G B", "10XB", "1e9", "٣"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match=r"--max_bytes .* is no size; use one like"):
        parse_bytes(text, "--max_bytes")


@pytest.mark.parametrize("text", ["", "30", "-1d", "d", "1y", "1d 2h", "9999999999999w"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(UsageError, match=r"--max_age .* is no age; use one like"):
        parse_age(text, "--max_age")


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (8_140_000, "8.1 MB"),
        (10**13, "10.0 TB"),
    ],
)
def test_sizes_are_shown(count: int, shown: str) -> None:
    assert show_bytes(count) == shown
