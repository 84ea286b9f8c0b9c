"""What `--cache` may be, and what it says when it is something else."""

from pathlib import Path

import pytest

from schemas.errors import UsageError
from verifier.cache.spec import CacheSpec, FileSpec, GcsSpec, RedisSpec, parse_spec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("none", None),
        ("file:cache.sqlite", FileSpec(Path("cache.sqlite"))),
        ("file:/data/cache.sqlite", FileSpec(Path("/data/cache.sqlite"))),
        ("file:///data/cache.sqlite", FileSpec(Path("/data/cache.sqlite"))),
        ("file:a b/é.db", FileSpec(Path("a b/é.db"))),
        ("file:~/cache.db", FileSpec(Path.home() / "cache.db")),
        ("redis://h", RedisSpec("h", 6379, 0, tls=False)),
        ("redis://h/", RedisSpec("h", 6379, 0, tls=False)),
        ("redis://h:7000/3", RedisSpec("h", 7000, 3, tls=False)),
        ("redis://[::1]:7000/3", RedisSpec("::1", 7000, 3, tls=False)),
        ("rediss://cache.example/1", RedisSpec("cache.example", 6379, 1, tls=True)),
        ("gs://bucket/prefix", GcsSpec("bucket", "prefix/")),
        ("gs://bucket/a/b/", GcsSpec("bucket", "a/b/")),
    ],
)
def test_good_specs(text: str, spec: CacheSpec | None) -> None:
    assert parse_spec(text) == spec
    if spec is not None:
        assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "file:PATH"),
        ("cache.sqlite", "file:PATH"),
        ("sqlite:cache.db", "file:PATH"),
        ("None", "file:PATH"),
        ("redis:h", "redis://HOST"),
        ("file:", "names no file"),
        ("file:folder/", "names no file"),
        ("file://host/cache.db", "names a host"),
        ("redis://", "redis://HOST"),
        ("redis://h/zero", "number for DB"),
        ("redis://h/0/1", "number for DB"),
        ("redis://h/²", "number for DB"),
        ("redis://h:port/0", "no valid Redis URL"),
        ("redis://h:99999/0", "no valid Redis URL"),
        ("gs://", "bucket and a prefix"),
        ("gs://bucket", "bucket and a prefix"),
        ("gs://bucket//", "bucket and a prefix"),
    ],
)
def test_bad_specs_name_the_flag_and_the_remedy(text: str, says: str) -> None:
    with pytest.raises(UsageError, match="--cache") as caught:
        parse_spec(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "redis://:hunter2@h/0",
        "redis://user:hunter2@h/0",
        "redis://hunter2@h/0",
        "rediss://h/0?password=hunter2",
        "redis://h/0#hunter2",
        "redis://:hunter2@h:port/0",
        "redis://[:hunter2@h/0",
        "reddis://:hunter2@h/0",
        "redis:user:hunter2@h",
    ],
)
def test_credentials_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="--cache") as caught:
        parse_spec(text)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in str(caught.value.__cause__)
