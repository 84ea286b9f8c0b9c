"""How many requests may be in flight: grows while calls succeed, halves when the server is full."""


class Concurrency:
    """An adaptive limit below the one that was set. Pure: time is told to it, in seconds."""

    RESTART = 8
    """Where it starts again after an outage."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._allowed = float(limit)
        self._halved = 0.0

    @property
    def allowed(self) -> int:
        """How many requests may be in flight now, at least 1."""
        return max(1, min(self.limit, int(self._allowed)))

    def succeeded(self) -> None:
        """A call was answered: room for one more, so it doubles with each round of answers."""
        if self._allowed < self.limit:
            self._allowed += 1

    def overloaded(self, started: float, now: float) -> None:
        """A call sent at `started` was turned away as one too many.

        Calls of one round count once: those sent before the last halving say nothing new.
        """
        if started >= self._halved:
            self._allowed = max(1.0, self.allowed / 2)
            self._halved = now

    def restart(self) -> None:
        """The endpoint is back after an outage: begin with few."""
        self._allowed = min(self._allowed, float(self.RESTART))
