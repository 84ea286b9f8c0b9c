"""The price table that --prices names, read once at submission: its contents travel."""

import storage
from schemas.errors import UsageError
from verifier.prices import Prices, builtin_prices, parse_prices, with_own


def read_prices(path: str | None) -> Prices:
    """The built-in prices, behind those in the file at `path`. Raises UsageError."""
    if path is None:
        return builtin_prices()
    try:
        text = storage.read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prices {path} cannot be read: {error}") from error
    return with_own(parse_prices(text, f"--prices {path}"))
