"""Which cache `--cache` names."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from schemas.errors import UsageError

FORMS = "file:PATH, redis://HOST[:PORT][/DB], rediss://…, gs://BUCKET/PREFIX or none"
REDIS_PORT = 6379


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A SQLite file."""

    path: Path

    def __str__(self) -> str:
        return f"file:{self.path}"


@dataclass(frozen=True, slots=True)
class RedisSpec:
    """A Redis server and its numbered database."""

    host: str
    port: int
    database: int
    tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.database}"


@dataclass(frozen=True, slots=True)
class GcsSpec:
    """Objects of a bucket whose names begin with `prefix`, which is empty or ends in a slash."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.prefix}"


CacheSpec = FileSpec | RedisSpec | GcsSpec


def parse_spec(text: str) -> CacheSpec | None:
    """The cache that `--cache TEXT` names, None for `none`. Raises UsageError; opens nothing."""
    if text == "none":
        return None
    scheme, _, rest = text.partition(":")
    if scheme == "file":
        return _file(rest)
    if scheme in {"redis", "rediss"} and rest.startswith("//"):
        return _redis(text)
    if scheme == "gs" and rest.startswith("//"):
        return _gcs(rest.removeprefix("//"))
    shown = f" {text!r}" if "@" not in text else ""
    raise UsageError(f"--cache{shown} is not understood; use {FORMS}")


def _file(path: str) -> FileSpec:
    if path.startswith("//") and not path.startswith("///"):
        raise UsageError("--cache file://… names a host; use file:PATH, like file:cache.sqlite")
    if not path or path.endswith("/"):
        raise UsageError(f"--cache file:{path} names no file; use one like file:cache.sqlite")
    return FileSpec(Path(f"/{path.lstrip('/')}" if path.startswith("/") else path).expanduser())


def _redis(text: str) -> RedisSpec:
    parts, port = _split(text)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UsageError(
            "--cache: a Redis URL with credentials or parameters in it is refused; put the "
            "password into the environment variable REDIS_PASSWORD, or into another that "
            "--cache_password_env names, and use redis://HOST[:PORT][/DB]"
        )
    database = parts.path.strip("/") or "0"
    if not parts.hostname or not (database.isascii() and database.isdigit()):
        raise UsageError(
            f"--cache {text}: use redis://HOST[:PORT][/DB] with a number for DB, like "
            "redis://localhost:6379/0"
        )
    return RedisSpec(parts.hostname, port or REDIS_PORT, int(database), parts.scheme == "rediss")


def _split(text: str) -> tuple[SplitResult, int | None]:
    """The parts of a URL; one that cannot be parsed may hold credentials and is not repeated."""
    try:
        parts = urlsplit(text)
        return parts, parts.port
    except ValueError:
        raise UsageError(
            "--cache: this is no valid Redis URL; use one like redis://localhost:6379/0"
        ) from None


def _gcs(rest: str) -> GcsSpec:
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    if not bucket or not prefix:
        raise UsageError(
            f"--cache gs://{rest}: name a bucket and a prefix of the cache's own, like "
            "gs://my-bucket/construct-beam-cache"
        )
    return GcsSpec(bucket, f"{prefix}/")
