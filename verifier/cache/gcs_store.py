"""Replies as objects of a bucket, for workers that share neither a disk nor a Redis.

Google's client blocks, so threads call it: reads and writes have their own.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from google.api_core.exceptions import GoogleAPIError, NotFound, PreconditionFailed
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage.retry import DEFAULT_RETRY
from requests.adapters import HTTPAdapter

from schemas.errors import UsageError
from storage import gcs
from verifier.cache.backend import Held, Item, StoreError, StoreStats, stats_of, surplus
from verifier.cache.entry import microseconds
from verifier.cache.key import Key
from verifier.cache.spec import GcsSpec
from verifier.cache.workers import Workers

READERS = 16
WRITERS = 16
REQUEST_S = 10.0
_RETRY = DEFAULT_RETRY.with_delay(initial=0.2, maximum=2.0).with_timeout(REQUEST_S - 1.0)
_OPTIONS = {"retry": _RETRY, "timeout": REQUEST_S}


class GcsBackend:
    """An object for each entry, named by its key in hex; its age is that of the object."""

    lanes = READERS
    batch = 1
    write_batch = 4 * WRITERS

    def __init__(self, spec: GcsSpec) -> None:
        self._spec = spec
        self._bucket: Any = None
        self._reading = Workers("construct-beam-cache-read", READERS)
        self._writing = Workers("construct-beam-cache-write", WRITERS)

    async def open(self) -> None:
        """Look into the bucket. Raises UsageError."""
        try:
            with _failing():
                self._bucket = await self._reading.run(self._connect)
        except StoreError as error:
            await self.close()
            raise UsageError(
                f"--cache {self._spec} cannot be used ({error}); check the bucket's name and that "
                "the account may read and write its objects, or use --cache none"
            ) from error

    async def get_many(self, keys: Sequence[Key]) -> Mapping[Key, bytes]:
        """What is there of `keys`, a request each."""
        with _failing():
            values = await asyncio.gather(*(self._reading.run(self._get, key) for key in keys))
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}

    async def put_many(self, items: Sequence[Item]) -> None:
        """Write all of `items`, a request each."""
        with _failing():
            await asyncio.gather(*(self._writing.run(self._put, item) for item in items))

    async def stats(self) -> StoreStats:
        """Objects, their bytes, oldest and newest; lists all of them."""
        with _failing():
            return stats_of(await self._writing.run(self._held))

    async def prune(self, max_bytes: int | None, before: int | None) -> int:
        """Delete objects; lists all of them."""
        with _failing():
            doomed = surplus(await self._writing.run(self._held), max_bytes, before)
            await asyncio.gather(*(self._writing.run(self._drop, held.name) for held in doomed))
        return len(doomed)

    async def close(self) -> None:
        """End the threads."""
        self._reading.stop()
        self._writing.stop()

    def _connect(self) -> Any:
        client = gcs._client(os.getpid())
        # Its usual pool keeps ten connections and warns of each that it throws away.
        adapter = HTTPAdapter(pool_maxsize=READERS + WRITERS)
        client._http.mount("https://", adapter)
        bucket = client.bucket(self._spec.bucket)
        next(
            iter(client.list_blobs(bucket, prefix=self._spec.prefix, max_results=1, **_OPTIONS)), 0
        )
        return bucket

    def _get(self, key: Key) -> bytes | None:
        try:
            value: bytes = self._blob(key).download_as_bytes(**_OPTIONS)
        except NotFound:
            return None
        return value

    def _put(self, item: Item) -> None:
        generation = None if item.replaces else 0
        try:
            self._blob(item.key).upload_from_string(
                item.value, "application/octet-stream", if_generation_match=generation, **_OPTIONS
            )
        except PreconditionFailed:
            return  # Somebody else kept a reply first.

    def _drop(self, name: str) -> None:
        try:
            self._bucket.blob(name).delete(**_OPTIONS)
        except NotFound:
            return

    def _held(self) -> list[Held]:
        blobs = self._bucket.list_blobs(prefix=self._spec.prefix, **_OPTIONS)
        return [Held(microseconds(b.time_created), b.size, b.name) for b in blobs]

    def _blob(self, key: Key) -> Any:
        return self._bucket.blob(self._spec.prefix + key.hex())


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except (GoogleAPIError, GoogleAuthError, OSError) as error:
        raise StoreError(str(error) or type(error).__name__) from error
