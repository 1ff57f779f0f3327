"""The stored claims of one database, for counts with memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeVar

from nostr_client.count.claims import rows
from nostr_client.count.claims.changes import CHANGES, LEFT, RECEIVED, day_of, note_received
from nostr_client.count.claims.periods import PERIODS
from nostr_client.count.claims.rows import held_rows
from nostr_client.store.file.database import Database
from nostr_client.store.file.migrate import Schema, run_script
from nostr_client.store.schema import STORE

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from nostr_client.count.claims.changes import LiveEvent
    from nostr_client.count.claims.coverage import ReadCoverage
    from nostr_client.count.claims.memory import Memory
    from nostr_client.count.claims.rows import LastAsked, StoredAnswers, StoredQuery
    from nostr_client.count.merge import Claim


_TABLES: Final = """
CREATE TABLE claim_query (
    q INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    target TEXT,
    filters TEXT NOT NULL
) STRICT;
CREATE TABLE claim_relay (r INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE claim (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    method TEXT,
    count INTEGER,
    count_high INTEGER,
    approximate INTEGER,
    limited INTEGER,
    registers BLOB,
    events_read INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL,
    last_read INTEGER,
    asked_at REAL,
    answered_at REAL,
    latency_ms REAL,
    warnings TEXT NOT NULL,
    PRIMARY KEY (q, r, answered)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim_mark (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    last_read INTEGER,
    registers BLOB,
    mark TEXT NOT NULL,
    held INTEGER,
    PRIMARY KEY (q, r)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim_event (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    author BLOB NOT NULL,
    amount INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    label TEXT NOT NULL DEFAULT '',
    signer BLOB NOT NULL DEFAULT x'',
    receiver BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (q, r, created_at, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim_members (
    q INTEGER NOT NULL, r INTEGER NOT NULL, members BLOB NOT NULL, PRIMARY KEY (q, r)
) STRICT, WITHOUT ROWID
"""


CLAIMS: Final = Schema(
    "nostr_tally.claims",
    partial(run_script, script=_TABLES),
    also=(CHANGES, RECEIVED, LEFT, PERIODS),
)


T = TypeVar("T")

SMALL: Final = 300
"""Known events of a relay up to which its claim is read on the event loop, within a millisecond."""

MOST_GLANCES: Final = 20_000
"""Places whose mark is cached: half a kilobyte each; beyond this, the cache is cleared."""


class DurableMemory:
    """A memory in the store; each use is a transaction of its own.

    `glances`: the cached marks of all places of one book.
    """

    def __init__(
        self,
        database: Database,
        q: int,
        r: int,
        asked: StoredQuery,
        glances: dict[tuple[int, int], tuple[ReadCoverage, int]],
    ) -> None:
        self._database = database
        self._q, self._r, self._asked = q, r, asked
        self._glances = glances

    @property
    def seen(self) -> tuple[ReadCoverage, int] | None:
        return self._glances.get((self._q, self._r))

    async def use(self, work: Callable[[Memory], T]) -> T:
        def run(conn: sqlite3.Connection) -> tuple[T, tuple[ReadCoverage, int]]:
            memory = held_rows(conn, self._q, self._r, self._asked)
            found = work(memory)
            memory.flush()
            return found, (memory.mark, memory.count(0, None))

        # the caller continues with the objects that `work` touches in the writer's thread
        found, glance = await self._database.write(run, unbroken=True)
        if len(self._glances) >= MOST_GLANCES:
            self._glances.clear()
        self._glances[self._q, self._r] = glance
        return found


class ClaimBook:
    """Stores the claims of each query and relay; the tables of `schema.CLAIMS` must exist.

    Every method may raise StoreError and its kinds. URLs are normalised.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._numbers: dict[tuple[str, str], tuple[int, int]] = {}
        self._glances: dict[tuple[int, int], tuple[ReadCoverage, int]] = {}
        self._days: dict[tuple[str, str], int | None] = {}

    @classmethod
    async def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """Open a store file only for its claims, or ":memory:"; as `Database.open`."""
        migrations = [STORE, CLAIMS]
        return cls(await Database.open(path, read_only=read_only, migrations=migrations))

    async def close(self) -> None:
        """Close the database; for a book that `open` made."""
        await self.database.close()

    async def place(self, asked: StoredQuery, url: str) -> DurableMemory:
        """Return the place where readings of a relay for a query are stored."""
        known = self._numbers.get((asked.key, url))
        if known is None:
            known = await self.database.write(lambda conn: _numbers(conn, asked, url))
            self._numbers[asked.key, url] = known
        return DurableMemory(self.database, *known, asked, self._glances)

    async def remember(self, asked: StoredQuery, claims: Iterable[tuple[str, Claim]]) -> None:
        """Store claims, given with their relays' URLs; each replaces its relay's earlier one."""
        await self.database.write(self.keeping(asked, claims))

    def gone(self, asked: StoredQuery, url: str) -> int | None:
        """Return how many known events a relay has lost so far, as last read; None: not read."""
        numbers = self._numbers.get((asked.key, url))
        seen = None if numbers is None else self._glances.get(numbers)
        return None if seen is None else seen[0].gone

    def keeping(
        self,
        asked: StoredQuery,
        claims: Iterable[tuple[str, Claim]],
        received: Sequence[LiveEvent] = (),
    ) -> Callable[[sqlite3.Connection], None]:
        """Return `remember` as a function for a write of the caller's, with live events."""
        kept = list(claims)
        if not (kept or received):
            return lambda _: None
        numbers = [self._numbers.get((asked.key, url)) for url, _ in kept]
        old_day = {url for url, claim in kept if not self._begins_day((asked.key, url), claim)}

        def work(conn: sqlite3.Connection) -> None:
            q = next((one[0] for one in numbers if one), None) or rows.query_number(conn, asked)
            relays = [
                one[1] if one else rows.relay_number(conn, url)
                for one, (url, _) in zip(numbers, kept, strict=True)
            ]
            new_day = {r for r, (url, _) in zip(relays, kept, strict=True) if url not in old_day}
            claims = [(r, claim) for r, (_, claim) in zip(relays, kept, strict=True)]
            rows.remember(conn, q, claims, new_day)
            if received:
                came = [(rows.relay_number(conn, one.url), one) for one in received]
                note_received(conn, q, came, replaces=asked.replaces)

        return work

    def _begins_day(self, place: tuple[str, str], claim: Claim) -> bool:
        """Whether a claim is the first of its day at a place. A save that fails costs one removal
        of answers of long ago."""
        day = day_of(claim)
        if self._days.get(place) == day:
            return False
        if len(self._days) >= MOST_GLANCES:
            self._days.clear()
        self._days[place] = day
        return True

    async def recall(
        self, asked: StoredQuery, now: float, urls: Iterable[str] | None = None
    ) -> list[StoredAnswers]:
        """Return the relays' answers to a query, by URL; by default of all that were ever asked."""
        wanted = None if urls is None else list(urls)
        small = wanted is not None and len(wanted) == 1 and self._is_small(asked, wanted[0])
        return await self.database.read(
            lambda conn: rows.recall(conn, asked, wanted, int(now)), small=small
        )

    def _is_small(self, asked: StoredQuery, url: str) -> bool:
        """Whether few events of a relay are known."""
        numbers = self._numbers.get((asked.key, url))
        seen = None if numbers is None else self._glances.get(numbers)
        return seen is not None and seen[1] <= SMALL

    async def registers_of(
        self, asked: StoredQuery, since: float, most: int
    ) -> list[dict[str, bytes]]:
        """Return the registers of each relay in the newest other questions of the same name."""
        return await self.database.read(
            lambda conn: rows.registers_of(conn, asked.name, but=asked.key, since=since, most=most)
        )

    async def last_asked(self) -> dict[tuple[str, str], LastAsked]:
        """Return when each relay was last asked each question, by question key and URL."""
        return await self.database.read(rows.last_asked)

    async def forget(self, asked: StoredQuery) -> bool:
        """Remove a query with everything known about it; return False if it does not exist."""
        self._numbers = {k: v for k, v in self._numbers.items() if k[0] != asked.key}
        self._glances.clear()
        return await self.database.write(lambda conn: rows.forget(conn, asked))


def _numbers(conn: sqlite3.Connection, asked: StoredQuery, url: str) -> tuple[int, int]:
    return rows.query_number(conn, asked), rows.relay_number(conn, url)
