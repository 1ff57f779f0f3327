"""What one client stores: claims and events, in a file that it opens, or in an open object."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import METADATA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.count.claims import ClaimBook
    from nostr_client.store.base import EventStore
    from nostr_client.store.file.database import Database
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.sent import RepairAttempts


class ClientStore:
    """The store of one client: a path, an open store of events or book of claims, or nothing.

    `events` and `book` are None if there is no such store, and until `open` has opened the path.
    The caller of the client closes an open object; `close` closes what this object opened.
    """

    def __init__(
        self, given: EventStore | ClaimBook | str | Path | None, now: Callable[[], float]
    ) -> None:
        self.book: ClaimBook | None = None
        self.events: EventStore | None = None
        self._path = given if isinstance(given, (str, Path)) else None
        if given is not None and self._path is None:
            self._take(given)
        self._now = now
        self._opening = asyncio.Lock()
        self._owned: SqliteStore | None = None
        self._in_memory: ClaimBook | None = None
        self._syncs: SyncMemory | None = None
        self._repairs: RepairAttempts | None = None

    def _take(self, given: EventStore | ClaimBook | str | Path) -> None:
        from nostr_client.count.claims import ClaimBook

        if isinstance(given, ClaimBook):
            self.book = given
        elif not isinstance(given, (str, Path)):
            self.events = given

    @property
    def takes_events(self) -> bool:
        """Whether events can be stored, now or once the path is open."""
        return self._path is not None or self.events is not None

    @property
    def database(self) -> Database | None:
        """The file that this object opened."""
        return None if self._owned is None else self._owned.database

    async def open(self) -> bool:
        """Open the path; return True if this call opened it. Raises StoreError."""
        async with self._opening:
            if self._path is None or self._owned is not None:
                return False
            from nostr_client.count.claims import CLAIMS, ClaimBook
            from nostr_client.count.wallets.rows import WALLETS
            from nostr_client.store.sqlite import SqliteStore
            from nostr_client.sync.sent import REPAIRS
            from nostr_client.watch.repository import WATCHES

            sets = [CLAIMS, WATCHES, WALLETS, REPAIRS]
            self._owned = await SqliteStore.open(self._path, migrations=sets)
            self.events = self._owned
            self.book = ClaimBook(self._owned.database)
            return True

    async def book_in_memory(self) -> ClaimBook:
        """Return a book of claims that lasts as long as the client."""
        from nostr_client.count.claims import ClaimBook

        self._in_memory = await ClaimBook.open(":memory:")
        return self._in_memory

    async def profiles(self, people: Sequence[str]) -> list[Event]:
        """Return the stored profiles of people (hex)."""
        if self.events is None or not people:
            return []
        return await self.events.query([Filter(kinds=[METADATA], authors=people)])

    def syncs(self) -> SyncMemory:
        """Return what syncs remember between runs: in the store, else in memory."""
        from nostr_client.sync.memory import memory_of

        self._syncs = self._syncs or memory_of(self.events, self._now)
        return self._syncs

    def repairs(self) -> RepairAttempts:
        """Return how often relays accepted an event in repairs: in the file, else in memory."""
        from nostr_client.sync.sent import LocalAttempts, StoredAttempts

        if self._repairs is None:
            file = self.database
            self._repairs = LocalAttempts() if file is None else StoredAttempts(file)
        return self._repairs

    async def close(self) -> None:
        """Close what this object opened. The file takes no more writes."""
        for owned in (self._owned, self._in_memory):
            if owned is not None:
                await owned.close()
