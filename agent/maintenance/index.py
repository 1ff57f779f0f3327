"""Updates, reads and exchanges the store's derived tables (`index.db`) in the agent.

A bulk rebuild in another process asks for a snapshot, builds a file, and has it adopted: the agent
alone writes the store, so it makes the exchange, while it goes on with its work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from agent.api import schema
from nostr_client.errors import InvalidInput, StoreError
from nostr_client.store.index import read as index_read

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.store.base import IndexStats
    from nostr_client.store.index.keeper import Index
    from nostr_client.store.sqlite import SqliteStore

STEP: Final = 20
"""Targets whose registers are read again in one transaction: some milliseconds each."""


class Indexing:
    """What the agent does with an index."""

    def __init__(self, store: SqliteStore, index: Index) -> None:
        self._store = store
        self.index = index
        self.exchange = asyncio.Lock()
        """Held while a file is adopted: the writer may then be busy for a minute."""

    async def stats(self) -> IndexStats:
        """The state of the derived tables."""
        return await self._store.database.read(index_read.stats)

    async def hottest(self, name: str | None, kind: int | None, limit: int) -> schema.HotTargets:
        """The targets with most events."""
        found = await self._store.database.read(
            lambda conn: index_read.hottest(conn, limit, name=name, kind=kind)
        )
        return schema.HotTargets(targets=tuple(found))

    async def tidy(self) -> int:
        """Read the registers again that removals made too high, in small steps; how many."""
        done = 0
        while (n := await self.index.refresh(STEP)) > 0:
            done += n
        return done

    async def snapshot(self) -> schema.IndexMark:
        """The mark at which a bulk rebuild begins."""
        mark = await self.index.snapshot()
        return schema.IndexMark(next_seq=mark.next_seq, removals=mark.removals)

    async def adopt(self, built: Path) -> IndexStats:
        """Take a file that was built in bulk as the next generation.

        Raises InvalidInput (not such a file), StoreError.
        """
        async with self.exchange:
            await asyncio.to_thread(_check, built)
            await self.index.adopt(built)
        return await self.stats()


def _check(built: Path) -> None:
    if not built.is_absolute() or "\0" in str(built):
        raise InvalidInput("path: an absolute path is expected")
    try:
        index_read.check_built(built)
    except StoreError as error:
        raise InvalidInput(f"path: {error}") from error
