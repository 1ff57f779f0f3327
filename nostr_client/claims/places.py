"""Where what is held of one relay for one query is kept: in memory, or in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from nostr_client.claims.memory import ListMemory
from nostr_client.claims.rows import held_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from nostr_client.claims.memory import Memory
    from nostr_client.claims.rows import Asked
    from nostr_client.store.database import Database

T = TypeVar("T")


class Place(Protocol):
    """Gives access to one memory, in one piece."""

    async def use(self, work: Callable[[Memory], T]) -> T:
        """Run `work`; what it changed is kept whole when this returns, or not at all.

        Cancelling waits for a work that has begun. Raises StoreError and its kinds.
        """
        ...


class PlaceInMemory:
    """A memory that lasts as long as this object; `replaces` as for `ListMemory`."""

    def __init__(self, *, replaces: bool = False) -> None:
        self.memory = ListMemory(replaces=replaces)

    async def use(self, work: Callable[[Memory], T]) -> T:
        return work(self.memory)


class PlaceInStore:
    """A memory in the store; each use is a transaction of its own."""

    def __init__(self, database: Database, q: int, r: int, asked: Asked) -> None:
        self._database = database
        self._q, self._r, self._asked = q, r, asked

    async def use(self, work: Callable[[Memory], T]) -> T:
        def run(conn: sqlite3.Connection) -> T:
            return work(held_rows(conn, self._q, self._r, self._asked))

        # The caller goes on with the objects that `work` touches in the writer's thread.
        return await self._database.write(run, unbroken=True)
