"""Objects on Google Cloud Storage; STORAGE_EMULATOR_HOST is honoured."""

import os
import re
from functools import lru_cache
from typing import BinaryIO, cast

from google.api_core.exceptions import GoogleAPIError, NotFound
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.cloud import storage

CHUNK = 8 * 1024 * 1024
_MAGIC = re.compile(r"[*?\[]")


@lru_cache(maxsize=1)
def _client(_pid: int) -> storage.Client:
    """One client a process; an emulator needs no credentials."""
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        return storage.Client(project="emulated", credentials=AnonymousCredentials())
    return storage.Client()


def _bucket(path: str) -> tuple[storage.Bucket, str]:
    bucket, _, name = path.removeprefix("gs://").partition("/")
    try:
        return _client(os.getpid()).bucket(bucket), name
    except GoogleAuthError as error:
        raise OSError(f"{path}: {error}") from error


def expand(pattern: str) -> list[str]:
    """The objects that a path, a folder or a glob names, sorted; a plain path as it is."""
    bucket, name = _bucket(pattern)
    if name.endswith("/") or not name:
        name += "*"
    magic = _MAGIC.search(name)
    if magic is None:
        return [pattern]
    wanted = re.compile(_regex(name))
    try:
        blobs = [b.name for b in bucket.list_blobs(prefix=name[: magic.start()])]
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(f"{pattern}: {error}") from error
    return sorted(f"gs://{bucket.name}/{b}" for b in blobs if wanted.fullmatch(b))


def _regex(pattern: str) -> str:
    """A glob as a regular expression: `*` stops at a slash, `**` does not."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]*\])", pattern)
    known = {"*": "[^/]*", "?": "[^/]", "**": ".*", "**/": "(?:.*/)?"}
    return "".join(known.get(p, p if p.startswith("[") else re.escape(p)) for p in parts)


def exists(path: str) -> bool:
    """Whether there is an object at `path`."""
    bucket, name = _bucket(path)
    try:
        return bool(bucket.blob(name).exists())
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(f"{path}: {error}") from error


def open_input(path: str) -> BinaryIO:
    """The object at `path`, open for reading bytes. Raises OSError."""
    bucket, name = _bucket(path)
    try:
        blob = bucket.get_blob(name)
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(f"{path}: {error}") from error
    if blob is None:
        raise FileNotFoundError(f"{path}: no such object")
    return cast("BinaryIO", blob.open("rb", chunk_size=CHUNK))


def write_bytes(path: str, data: bytes) -> None:
    """Write an object at once. Raises OSError."""
    bucket, name = _bucket(path)
    try:
        bucket.blob(name).upload_from_string(data)
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(f"{path}: {error}") from error


def remove(path: str) -> None:
    """Delete the object at `path`, if there is one. Raises OSError."""
    bucket, name = _bucket(path)
    try:
        bucket.blob(name).delete()
    except NotFound:
        return
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(f"{path}: {error}") from error
