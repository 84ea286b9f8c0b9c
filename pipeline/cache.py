"""Which reply cache a run uses: the one that was named, or a file beside the output."""

import logging
from typing import TypeVar

from pipeline.settings import VerifierFlags
from schemas.errors import UsageError
from verifier.cache.spec import FileSpec, parse_spec
from verifier.endpoint import EMBEDDED

NO_CACHE = "none"
_log = logging.getLogger(__name__)

F = TypeVar("F", bound=VerifierFlags)


def with_cache(flags: F, output: str, *, local: bool) -> F:
    """`flags` with the cache settled; `local` says whether all workers are on this machine.

    A local run with a real verifier keeps replies in `OUTPUT.cache` unless another cache, or
    `none`, is named. Raises UsageError for one that does not work, or that workers cannot share.
    """
    if flags.verifier == EMBEDDED:
        return flags.model_copy(update={"cache": NO_CACHE})
    spec = None if flags.cache is None else parse_spec(flags.cache)
    if isinstance(spec, FileSpec) and not local:
        raise UsageError(
            f"--cache {flags.cache}: workers on other machines do not share this disk; use "
            "redis://HOST or gs://BUCKET/PREFIX, or none"
        )
    if flags.cache is not None:
        return flags
    if local and "://" not in output:
        return flags.model_copy(update={"cache": f"file:{output.rstrip('/')}.cache"})
    _log.warning(
        "no reply cache: whatever a retried bundle or a second run asks is paid for again; "
        "name one with --cache redis://HOST or gs://BUCKET/PREFIX, or say --cache none"
    )
    return flags.model_copy(update={"cache": NO_CACHE})
