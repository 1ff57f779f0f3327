"""The stored claims of one database, for whoever counts with memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from nostr_client.claims import rows
from nostr_client.claims.places import PlaceInStore
from nostr_client.claims.schema import CLAIMS
from nostr_client.store.database import Database
from nostr_client.store.schema import STORE

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from nostr_client.claims.mark import Mark
    from nostr_client.claims.rows import Asked, LastAsked, Remembered
    from nostr_client.merge import Claim


class ClaimBook:
    """Keeps the claims of each query and relay; the tables of `schema.CLAIMS` must be there.

    Every method may raise StoreError and its kinds. URLs are normalised ones.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._numbers: dict[tuple[str, str], tuple[int, int]] = {}
        self._glances: dict[tuple[int, int], tuple[Mark, int]] = {}

    @classmethod
    async def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """Open a store file for its claims alone, or ":memory:"; as `Database.open`."""
        migrations = [STORE, CLAIMS]
        return cls(await Database.open(path, read_only=read_only, migrations=migrations))

    async def close(self) -> None:
        """Close the database; for a book that was made by `open`."""
        await self.database.close()

    async def place(self, asked: Asked, url: str) -> PlaceInStore:
        """Where what is read of a relay for a query is kept."""
        known = self._numbers.get((asked.key, url))
        if known is None:
            known = await self.database.write(lambda conn: _numbers(conn, asked, url))
            self._numbers[asked.key, url] = known
        return PlaceInStore(self.database, *known, asked, self._glances)

    async def remember(self, asked: Asked, claims: Iterable[tuple[str, Claim]]) -> None:
        """Keep claims, given with their relays' URLs; each replaces its relay's earlier one."""
        await self.database.write(self.keeping(asked, claims))

    def keeping(
        self, asked: Asked, claims: Iterable[tuple[str, Claim]]
    ) -> Callable[[sqlite3.Connection], None]:
        """`remember` as a function for a write of the caller's."""
        kept = list(claims)
        numbers = [self._numbers.get((asked.key, url)) for url, _ in kept]

        def work(conn: sqlite3.Connection) -> None:
            rows.remember(
                conn,
                (
                    (*(known or _numbers(conn, asked, url)), claim)
                    for known, (url, claim) in zip(numbers, kept, strict=True)
                ),
            )

        return work

    async def recall(
        self, asked: Asked, now: float, urls: Iterable[str] | None = None
    ) -> list[Remembered]:
        """What relays said about a query, by URL; all that were ever asked by default."""
        wanted = None if urls is None else list(urls)
        return await self.database.read(lambda conn: rows.recall(conn, asked, wanted, int(now)))

    async def last_asked(self) -> dict[tuple[str, str], LastAsked]:
        """When each relay was last asked each question, by the question's key and the URL."""
        return await self.database.read(rows.last_asked)

    async def forget(self, asked: Asked) -> bool:
        """Remove a query with everything known about it; False if it was not there."""
        self._numbers = {k: v for k, v in self._numbers.items() if k[0] != asked.key}
        self._glances.clear()
        return await self.database.write(lambda conn: rows.forget(conn, asked))


def _numbers(conn: sqlite3.Connection, asked: Asked, url: str) -> tuple[int, int]:
    return rows.query_number(conn, asked), rows.relay_number(conn, url)
