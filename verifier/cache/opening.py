"""Opens the cache that `--cache` names."""

from datetime import timedelta

from verifier.cache.backend import Backend
from verifier.cache.file_store import FileBackend
from verifier.cache.spec import CacheSpec, FileSpec, RedisSpec, parse_spec
from verifier.cache.store import ReplyStore
from verifier.settings import MAX_BYTES


async def open_store(
    text: str,
    *,
    max_bytes: int = MAX_BYTES,
    max_age: timedelta | None = None,
    password_env: str | None = None,
    create: bool = True,
) -> ReplyStore | None:
    """The store that `--cache TEXT` names, ready for use on the running loop; None for `none`.

    `max_bytes` bounds a file, which is made unless `create` is false. Raises UsageError when the
    text is wrong, or the store cannot be used.
    """
    spec = parse_spec(text)
    if spec is None:
        return None
    backend = await _backend(spec, max_bytes, max_age, password_env, create=create)
    return ReplyStore(str(spec), backend, max_age)


async def _backend(
    spec: CacheSpec,
    max_bytes: int,
    max_age: timedelta | None,
    password_env: str | None,
    *,
    create: bool,
) -> Backend:
    """The backend, opened; each client library is loaded only where it is used."""
    if isinstance(spec, FileSpec):
        file = FileBackend(spec.path, max_bytes, max_age)
        await file.open(create=create)
        return file
    if isinstance(spec, RedisSpec):
        from verifier.cache.redis_store import RedisBackend  # noqa: PLC0415

        server = RedisBackend(spec, max_age, password_env)
        await server.open()
        return server
    from verifier.cache.gcs_store import GcsBackend  # noqa: PLC0415

    bucket = GcsBackend(spec)
    await bucket.open()
    return bucket
