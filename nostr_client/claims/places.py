"""Where what is held of one relay for one query is kept: in memory, or in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from nostr_client.claims.memory import ListMemory
from nostr_client.claims.rows import held_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from nostr_client.claims.mark import Mark
    from nostr_client.claims.memory import Memory
    from nostr_client.claims.rows import Asked
    from nostr_client.store.database import Database

T = TypeVar("T")

MOST_GLANCES: Final = 20_000
"""Places whose mark is kept at hand: half a kilobyte each; beyond, all are looked up anew."""


class Place(Protocol):
    """Gives access to one memory, in one piece."""

    @property
    def seen(self) -> tuple[Mark, int] | None:
        """The mark and the number of events as they were last seen; None: look yourself."""
        ...

    async def use(self, work: Callable[[Memory], T]) -> T:
        """Run `work`; what it changed is kept whole when this returns, or not at all.

        Cancelling waits for a work that has begun. Raises StoreError and its kinds.
        """
        ...


class PlaceInMemory:
    """A memory that lasts as long as this object; `replaces` as for `ListMemory`."""

    def __init__(self, *, replaces: bool = False) -> None:
        self.memory = ListMemory(replaces=replaces)
        self.seen: tuple[Mark, int] | None = None

    async def use(self, work: Callable[[Memory], T]) -> T:
        return work(self.memory)


class PlaceInStore:
    """A memory in the store; each use is a transaction of its own.

    `glances`: what was last seen of each place, for all places of one book.
    """

    def __init__(
        self,
        database: Database,
        q: int,
        r: int,
        asked: Asked,
        glances: dict[tuple[int, int], tuple[Mark, int]],
    ) -> None:
        self._database = database
        self._q, self._r, self._asked = q, r, asked
        self._glances = glances

    @property
    def seen(self) -> tuple[Mark, int] | None:
        return self._glances.get((self._q, self._r))

    async def use(self, work: Callable[[Memory], T]) -> T:
        def run(conn: sqlite3.Connection) -> tuple[T, tuple[Mark, int]]:
            memory = held_rows(conn, self._q, self._r, self._asked)
            found = work(memory)
            memory.flush()
            return found, (memory.mark, memory.count(0, None))

        # The caller goes on with the objects that `work` touches in the writer's thread.
        found, glance = await self._database.write(run, unbroken=True)
        if len(self._glances) >= MOST_GLANCES:
            self._glances.clear()
        self._glances[self._q, self._r] = glance
        return found
