"""Replies that are paid for once: those in the cache, and those that another call waits for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from verifier.answer import Reply
from verifier.cache.entry import Entry, worth_keeping
from verifier.cache.flights import Flights
from verifier.cache.key import Key, RequestKeys
from verifier.cache.store import ReplyStore
from verifier.fault import Fault

if TYPE_CHECKING:
    from verifier.engine import Engine
    from verifier.settings import VerifierSettings


class SharedReplies:
    """The cache of one stage and the flights of its process."""

    def __init__(self, url: str, store: ReplyStore, flights: Flights) -> None:
        self.keys = RequestKeys(url)
        self.store = store
        self.flights = flights

    @classmethod
    def of(cls, engine: Engine, url: str, settings: VerifierSettings) -> SharedReplies | None:
        """What `settings` ask for, None without a cache; not for the loop's thread.

        Raises UsageError when the cache cannot be used.
        """
        store = engine.store(settings)
        return None if store is None else cls(url, store, engine.flights)


class Share:
    """One call's part in it: it leads, follows, or neither. For the engine's loop only.

    `take` is called with what another request was answered, `lead` when this one is to be sent
    after all.
    """

    __slots__ = ("_key", "_lead", "_shared", "_take")

    def __init__(
        self, shared: SharedReplies, take: Callable[[Entry], None], lead: Callable[[], None]
    ) -> None:
        self._shared = shared
        self._take = take
        self._lead = lead
        self._key: Key | None = None

    @property
    def follows(self) -> bool:
        """Whether it waits for what another request is answered; asked when not to be sent."""
        return self._key is not None

    async def needs_sending(self, body: bytes) -> bool:
        """Whether the request is to be sent now; else `take` or `lead` is called, now or later."""
        key = self._shared.keys.key(body)
        if key == self._key:
            return True
        self.leave()
        self._key = key
        if not self._shared.flights.join(key, self):
            return False
        entry = await self._shared.store.get(key)
        if entry is None:
            return self._key is not None
        self._shared.flights.land(key, self, entry)
        self._key = None
        self._take(entry)
        return False

    def keep(self, status: int, outcome: Reply | Fault, arrived_at: datetime | None) -> None:
        """Keep what the request was answered, and share it with those who follow."""
        if self._key is not None and worth_keeping(status, outcome):
            entry = Entry(outcome, arrived_at or datetime.now(UTC))
            self._shared.store.put(self._key, entry)
            self._shared.flights.land(self._key, self, entry)
            self._key = None

    def leave(self) -> None:
        """Neither lead nor follow any more."""
        key, self._key = self._key, None
        if key is not None:
            self._shared.flights.leave(key, self)

    def landed(self, entry: Entry) -> None:
        """The call that this one follows was answered."""
        self._key = None
        self._take(entry)

    def lead(self) -> None:
        """The call that this one follows got nothing to share."""
        self._key = None
        self._lead()
