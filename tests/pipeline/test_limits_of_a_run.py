"""What a run settles at submission: its reply cache, and who shares the figures per minute."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.cache import with_cache
from pipeline.run import check_shares
from pipeline.settings import ScoreFlags, VerifierFlags
from schemas.errors import UsageError
from tests.pipeline.test_run import RECORD, run, write
from tests.support.scripted import scripted_server, target


def flags(**values: Any) -> VerifierFlags:
    return VerifierFlags(**{"verifier": "http://a.example/v1#m", **values})


@pytest.mark.parametrize(
    ("given", "output", "local", "cache"),
    [
        ({}, "out", True, "file:out.cache"),
        ({}, "a/out/", True, "file:a/out.cache"),
        ({}, "gs://b/out", True, "none"),
        ({}, "gs://b/out", False, "none"),
        ({"cache": "none"}, "out", True, "none"),
        ({"cache": "file:x.sqlite"}, "out", True, "file:x.sqlite"),
        ({"cache": "redis://h"}, "out", False, "redis://h"),
        ({"cache": "gs://b/p"}, "out", False, "gs://b/p"),
        ({"verifier": "embedded"}, "out", True, "none"),
        ({"verifier": "embedded", "cache": "file:x"}, "out", True, "none"),
    ],
)
def test_the_cache_of_a_run(given: dict[str, Any], output: str, local: bool, cache: str) -> None:
    """The one that was named; else beside the output, for a local run with a real verifier."""
    assert with_cache(flags(**given), output, local=local).cache == cache


@pytest.mark.parametrize(
    ("cache", "local", "words"),
    [
        ("file:x", False, "do not share this disk"),
        ("memcached://h", True, "is not understood"),
        ("redis://:secret@h", True, "credentials"),
    ],
)
def test_caches_that_are_refused(cache: str, local: bool, words: str) -> None:
    """With the remedy, and without what may be a secret."""
    with pytest.raises(UsageError, match=words) as refused:
        with_cache(flags(cache=cache), "out", local=local)
    assert "--cache" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_going_without_a_cache_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """It says what it costs; naming none is a decision, and not warned of."""
    with_cache(flags(), "gs://b/out", local=False)
    assert "paid for again" in caplog.text
    caplog.clear()
    with_cache(flags(cache="none"), "gs://b/out", local=False)
    assert not caplog.text


def test_figures_per_minute_need_to_know_who_shares_them() -> None:
    """On other machines only; each process gets its part."""
    rate = flags(requests_per_minute=600)
    check_shares(rate, local=True)
    check_shares(flags(), local=False)
    with pytest.raises(UsageError, match="--verifier_processes"):
        check_shares(rate, local=False)
    shared = flags(requests_per_minute=600, tokens_per_minute=900, verifier_processes=3)
    check_shares(shared, local=False)
    settings = shared.verifier_settings()
    assert settings.share_of(settings.requests_per_minute) == 200
    assert rate.verifier_settings().share_of(600) == 600


def test_a_run_from_the_cache_counts_its_verdicts(tmp_path: Path) -> None:
    """Run once, and once more into another folder with the same cache: equal rows, no call."""
    source = write(tmp_path / "in.parquet", [{"id": "r", **RECORD}])
    cache = f"file:{tmp_path}/replies"
    with scripted_server() as (server, _):
        first = run(source, tmp_path / "one", verifier=target(server), cache=cache)
        again = run(source, tmp_path / "two", verifier=target(server), cache=cache)
        sent = server.stats.requests
    assert sent == first["calls"] == 5
    assert (first["verdicts_from_cache"], again["verdicts_from_cache"]) == (0, 5)
    assert (again["calls"], again["verdicts"], again["prompt_tokens"]) == (0, 5, 0)
    assert again["placed"] == first["placed"]


def test_sizes_and_ages_are_checked_at_submission(tmp_path: Path) -> None:
    """Before anything is read or sent."""
    source = write(tmp_path / "in.parquet", [{"id": "r", **RECORD}])
    for wrong in ({"cache_max_bytes": "much"}, {"cache_max_age": "old"}):
        with pytest.raises(UsageError, match=f"--{next(iter(wrong))}"):
            run(source, tmp_path / "out", verifier="http://127.0.0.1:9/v1#m", **wrong)
    assert ScoreFlags.model_fields["cache_max_bytes"].default == "10GB"
