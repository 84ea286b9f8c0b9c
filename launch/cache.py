"""Look after a reply cache.

stats says what it holds; prune drops what is older than --max_age, then the oldest replies until
at most --max_bytes are taken.
"""

import argparse
import sys
from collections.abc import Sequence

from launch.flags import flag_names, refuse_unknown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, and with which cache."""
    parser.add_argument("action", choices=["stats", "prune"])
    parser.add_argument(
        "--cache",
        required=True,
        help="file:PATH, redis://HOST[:PORT][/DB] or gs://BUCKET/PREFIX (needed)",
    )
    parser.add_argument("--max_bytes", help="for prune: keep at most so much, like 500MB or 10GB")
    parser.add_argument("--max_age", help="for prune: drop what is older, like 30d or 12h")
    parser.add_argument(
        "--cache_password_env",
        help="environment variable with the password of Redis (default: REDIS_PASSWORD)",
    )


def run(values: argparse.Namespace, unknown: Sequence[str]) -> int:
    """Do it and say what was done. Raises UsageError."""
    from verifier.cache.manage import prune, stats
    from verifier.cache.sizes import parse_age, parse_bytes

    refuse_unknown(unknown, flag_names(values.parser))
    password_env = values.cache_password_env
    if values.action == "stats":
        text = stats(values.cache, password_env=password_env)
    else:
        text = prune(
            values.cache,
            max_bytes=values.max_bytes and parse_bytes(values.max_bytes, "--max_bytes"),
            max_age=values.max_age and parse_age(values.max_age, "--max_age"),
            password_env=password_env,
        )
    sys.stdout.write(text + "\n")
    return 0
