"""Events that live watches hear and that are to be kept: into the store, in batches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from nostr_client.errors import StoreError, StoreFull

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.journal import Journal
    from nostr_client.keys import VerifiedEvent
    from nostr_client.store.sqlite import SqliteStore

MOST: Final = 5_000
"""Events that wait for the store; further ones are left to a sync, and counted."""

BATCH: Final = 500


class Hearing:
    """A bounded queue before the store; `heard` gets the id and the relay of each event in it."""

    def __init__(
        self, store: SqliteStore, journal: Journal, heard: Callable[[str, str], None]
    ) -> None:
        self.kept = 0
        self.dropped = 0
        self._store = store
        self._journal = journal
        self._heard = heard
        self._waiting: list[VerifiedEvent] = []
        self._some = asyncio.Event()

    def put(self, url: str, verified: VerifiedEvent) -> None:
        """Keep an event that `url` sent, soon."""
        if len(self._waiting) >= MOST:
            self.dropped += 1
            return
        self._heard(verified.event.id, url)
        self._waiting.append(verified)
        self._some.set()

    async def run(self) -> None:
        """Save what comes, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            await self.flush()

    async def flush(self) -> None:
        """Save what waits."""
        while batch := self._waiting[:BATCH]:
            del self._waiting[:BATCH]
            try:
                outcomes = await self._store.save(batch)
            except StoreError as error:
                self.dropped += len(batch)
                if not isinstance(error, StoreFull):  # the ticker reports a full disk, once
                    self._journal.error("not_kept", events=len(batch), why=str(error))
                continue
            self.kept += sum(one.stored for one in outcomes)
