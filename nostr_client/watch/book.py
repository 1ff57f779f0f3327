"""The stored watches of one database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from nostr_client.claims import CLAIMS, ClaimBook
from nostr_client.count.remembering import asked_of
from nostr_client.store.database import Database
from nostr_client.store.schema import STORE
from nostr_client.watch import rows
from nostr_client.watch.history import Point
from nostr_client.watch.schema import WATCHES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from nostr_client.count.result import CountResult
    from nostr_client.merge import Claim
    from nostr_client.watch.definition import Watch


LARGEST: Final = 2**63 - 1
"""The largest number that a row takes; full registers tell of more, and no honest relay does."""


class WatchBook:
    """Watches with their history and, in the same file, their claims.

    The tables of `schema.WATCHES` and `claims.CLAIMS` must be there. Every method may raise
    StoreError and its kinds.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.claims = ClaimBook(database)

    @classmethod
    async def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """Open a store file, or ":memory:"; raises as `Database.open`."""
        migrations = [STORE, CLAIMS, WATCHES]
        return cls(await Database.open(path, read_only=read_only, migrations=migrations))

    async def close(self) -> None:
        """Close the database; for a book that was made by `open`."""
        await self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def add(self, watch: Watch) -> None:
        """Keep a new watch. Raises InvalidInput where its name is taken, or none for an agent."""
        await self.database.write(lambda conn: rows.add(conn, watch))

    async def remove(self, name: str) -> bool:
        """Remove a watch and its history; False if it is not there. Its claims stay."""
        return await self.database.write(lambda conn: rows.remove(conn, name))

    async def all(self) -> list[tuple[Watch, int | None]]:
        """All watches by name, each with the time when it was last asked (Unix seconds)."""
        return await self.database.read(rows.watches)

    async def get(self, name: str) -> tuple[Watch, int | None] | None:
        """One watch, or None."""
        found = await self.all()
        return next((pair for pair in found if pair[0].name == name), None)

    async def relays(self, name: str) -> tuple[str, ...] | None:
        """The relays that a watch was asked on last, as spelled; None where that is not known."""
        return await self.database.read(lambda conn: rows.relays(conn, name))

    async def record(
        self,
        name: str,
        at: float,
        result: CountResult,
        claims: Sequence[tuple[str, Claim]] = (),
    ) -> None:
        """Keep the number that a watch gave; where nobody said anything, that it was asked.

        `claims`, by their relays' URLs, are kept in the same piece.
        """
        await self.database.write(self.recording(name, at, result, claims))

    def recording(
        self,
        name: str,
        at: float,
        result: CountResult,
        claims: Sequence[tuple[str, Claim]] = (),
    ) -> Callable[[sqlite3.Connection], None]:
        """`record` as a function for a write of the caller's."""
        point = point_of(int(at), result)
        keep = self.claims.keeping(asked_of(result.query), claims) if claims else None
        asked = [claim.relay for claim in result.relays]

        def work(conn: sqlite3.Connection) -> None:
            if keep is not None:
                keep(conn)
            rows.asked(conn, name, int(at), point, query=result.query, relays=asked)

        return work

    async def history(self, name: str, *, since: int = 0, until: int | None = None) -> list[Point]:
        """The series of a watch from `since` to `until` (Unix seconds), oldest first."""
        return await self.database.read(lambda conn: rows.points(conn, name, since, until))


def point_of(at: int, result: CountResult) -> Point | None:
    """The point that a result is; None where the number is not known."""
    figure = result.merged.figure
    if figure is None:
        return None
    high = None if figure.high is None else min(figure.high, LARGEST)
    value, low = min(figure.value, LARGEST), min(figure.low, LARGEST)
    return Point.sample(at, value, low, high, exact=figure.exact, unit=str(result.unit))
