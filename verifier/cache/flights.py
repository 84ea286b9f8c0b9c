"""Identical requests in flight are sent once: one call leads, the others follow it."""

from typing import Protocol

from verifier.cache.entry import Entry
from verifier.cache.key import Key


class Follower(Protocol):
    """A call that may have to wait for the outcome of another."""

    def landed(self, entry: Entry) -> None:
        """Take what the leader got as one's own."""
        ...

    def lead(self) -> None:
        """The leader got nothing that can be shared: send the request oneself."""
        ...


class Flights:
    """Who leads and who follows, by key. For the engine's loop only.

    A follower holds no worker: it does nothing until it is called back. A leader must `land` or
    `leave`; whoever gives up waiting leaves, too.
    """

    def __init__(self) -> None:
        self._flights: dict[Key, dict[Follower, None]] = {}

    def join(self, key: Key, call: Follower) -> bool:
        """Whether `call` leads and is to send the request; else it will be called back."""
        flight = self._flights.setdefault(key, {})
        flight[call] = None
        return _leader(flight) is call

    def land(self, key: Key, leader: Follower, entry: Entry) -> None:
        """End the flight of `leader`: all who follow get `entry`."""
        flight = self._flights.get(key)
        if flight and _leader(flight) is leader:
            del self._flights[key], flight[leader]
            for follower in flight:
                follower.landed(entry)

    def leave(self, key: Key, call: Follower) -> None:
        """Take `call` out; if it led, the first that follows takes over, and the rest follow it."""
        flight = self._flights.get(key, {})
        if call not in flight:
            return
        led = _leader(flight) is call
        del flight[call]
        if not flight:
            del self._flights[key]
        elif led:
            _leader(flight).lead()


def _leader(flight: dict[Follower, None]) -> Follower:
    return next(iter(flight))
