"""How long to wait before a retry: arithmetic, apart from sleeping."""

import random

BASE_S = 0.5
CAP_S = 20.0
JITTER = 0.25


def retry_wait(attempt: int, asked: float | None, rng: random.Random) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1).

    What the server asked for, spread upwards so that parallel calls do not return together;
    else exponential backoff with full jitter.
    """
    if asked is not None:
        return asked * (1 + JITTER * rng.random())
    return rng.uniform(0, min(CAP_S, BASE_S * 2 ** (attempt - 1)))
