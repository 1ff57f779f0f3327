"""Group writes of many watches into one transaction: writes during a commit share the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from nostr_client.store.file.database import Database

    Work = Callable[[sqlite3.Connection], None]


class _Batch:
    """Writes of one transaction; `written` is set once it was tried."""

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.written: asyncio.Task[None] | None = None

    def run(self, conn: sqlite3.Connection) -> None:
        for work in self.works:
            work(conn)


class Recorder:
    """Runs small writes of one database in groups: a round ends for many watches at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next = _Batch()
        self._turn = asyncio.Lock()

    async def write(self, work: Work) -> None:
        """Return once `work` is committed. Raises StoreError; then nothing of its batch is stored.

        If cancelled, the work is committed all the same.
        """
        batch = self._next
        batch.works.append(work)
        async with self._turn:
            if batch.written is None:
                self._next = _Batch()
                await self._commit(batch)
        assert batch.written is not None
        batch.written.result()

    async def _commit(self, batch: _Batch) -> None:
        """Write a batch to its end: others wait for it."""
        batch.written = asyncio.ensure_future(self._database.write(batch.run))
        try:
            await asyncio.wait([batch.written])
        except asyncio.CancelledError:
            await asyncio.wait([batch.written])
            raise
