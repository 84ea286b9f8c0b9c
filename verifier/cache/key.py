"""The key under which a reply is kept: a hash of everything that was sent."""

from hashlib import blake2b

KEY_BYTES = 20

Key = bytes
"""`KEY_BYTES` bytes."""


class RequestKeys:
    """Keys of requests to one endpoint URL.

    The URL and the exact bytes of the body count; headers do not, so no API key is in a key.
    """

    def __init__(self, url: str) -> None:
        # No URL holds a NUL: where it ends and the body begins is never in doubt.
        self._begun = blake2b(url.encode() + b"\0", digest_size=KEY_BYTES)

    def key(self, body: bytes) -> Key:
        """The key of a request with this body."""
        hasher = self._begun.copy()
        hasher.update(body)
        return hasher.digest()
