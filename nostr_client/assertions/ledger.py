"""Record what was published and which relay accepted it: two tables of a store.

An event is in the ledger before it is sent. After a crash everything that was sent is known, and
the next run sends the same signed event again, which relays recognise by its id.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs import kinds
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.keys import stored_event
from nostr_client.errors import InvalidInput
from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.store.file.database import Database

_TABLES: Final = """
CREATE TABLE assertion_signer (
    signer TEXT PRIMARY KEY, method TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE assertion (
    n INTEGER PRIMARY KEY,
    signer TEXT NOT NULL,
    kind INTEGER NOT NULL,
    subject TEXT NOT NULL,
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    is_retracted INTEGER NOT NULL,
    UNIQUE (signer, kind, subject)
) STRICT;
CREATE TABLE assertion_taken (
    n INTEGER NOT NULL, relay TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (n, relay)
) STRICT, WITHOUT ROWID
"""

ASSERTIONS: Final = Schema("nostr_tally.assertions", partial(run_script, script=_TABLES))

_PUT: Final = (
    "INSERT INTO assertion (signer, kind, subject, id, event, is_retracted)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET id = excluded.id,"
    " event = excluded.event, is_retracted = excluded.is_retracted"
)
# The + keeps SQLite from the index of signers, by which it would sort all cards for each batch.
_PENDING: Final = (
    "SELECT a.n, a.event FROM assertion a"
    " LEFT JOIN assertion_taken t ON t.n = a.n AND t.relay = ?2"
    " WHERE +a.signer = ?1 AND a.n > ?3 AND t.id IS NOT a.id ORDER BY a.n LIMIT ?4"
)
_SUBJECTS: Final = (
    "SELECT kind, subject FROM assertion WHERE signer = ?1 AND (kind, subject) > (?2, ?3)"
    " AND kind >= 30000 AND NOT is_retracted ORDER BY kind, subject LIMIT ?4"
)
_LEFT: Final = (
    "SELECT count(*) FROM assertion a LEFT JOIN assertion_taken t ON t.n = a.n AND t.relay = ?2"
    " WHERE a.signer = ?1 AND t.id IS NOT a.id"
)


_AT_ONCE: Final = 512
"""Subjects that are read at once."""


class Pending(NamedTuple):
    """A signed event that a relay has not accepted yet; `n` orders them."""

    n: int
    event: VerifiedEvent


class Ledger:
    """The ledger of one signing key (hex) in a store that has the schema ASSERTIONS.

    Every method may raise StoreError and its kinds, and is safe to cancel.
    """

    def __init__(self, database: Database, signer: str) -> None:
        self._database = database
        self.signer = signer

    async def claim(self, method: str) -> None:
        """Record the counting method of this key, if it has none yet."""
        sql = "INSERT INTO assertion_signer VALUES (?, ?) ON CONFLICT DO NOTHING"
        row = (self.signer, method)
        await self._database.write(lambda conn: conn.execute(sql, row).close())

    async def check(self, method: str) -> None:
        """Raise InvalidInput if this key used another counting method before.

        One key never changes what its numbers mean (NIP-85).
        """
        sql = "SELECT method FROM assertion_signer WHERE signer = ?"
        known = await self._database.read(
            lambda conn: conn.execute(sql, (self.signer,)).fetchone() or (method,)
        )
        if known[0] != method:
            raise InvalidInput(
                f"this key publishes cards with {known[0]}, and a key keeps its meaning: "
                f"use another key for cards with {method}"
            )

    async def published(self, subjects: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Event]:
        """Return the newest signed event of each of these subjects: a card, or its retraction (kind
        5)."""
        sql = "SELECT event FROM assertion WHERE signer = ? AND kind = ? AND subject = ?"

        def read(conn: sqlite3.Connection) -> dict[tuple[int, str], Event]:
            rows = ((one, conn.execute(sql, (self.signer, *one)).fetchone()) for one in subjects)
            return {one: parse_event(row[0]) for one, row in rows if row is not None}

        return await self._database.read(read)

    async def subjects(self) -> AsyncIterator[list[tuple[int, str]]]:
        """Yield every subject with a card that was not retracted, some at once, in order.

        Cards that are retracted meanwhile do no harm.
        """
        after = (0, "")
        while some := await self._database.read(partial(self._subjects_after, after=after)):
            yield some
            after = some[-1]

    def _subjects_after(
        self, conn: sqlite3.Connection, after: tuple[int, str]
    ) -> list[tuple[int, str]]:
        found = conn.execute(_SUBJECTS, (self.signer, *after, _AT_ONCE))
        return [(kind, subject) for kind, subject in found]

    async def put(self, signed: Iterable[tuple[int, str, VerifiedEvent]]) -> None:
        """Record signed events, each for a kind and subject, before they are sent."""
        rows = [
            (self.signer, kind, subject, e.id, e.to_json(), e.kind == kinds.DELETION)
            for kind, subject, e in ((kind, subject, one.event) for kind, subject, one in signed)
        ]
        await self._database.write(lambda conn: conn.executemany(_PUT, rows).close())

    async def pending(self, relay: str, after: int, most: int) -> list[Pending]:
        """Return the next events that a relay (normalised URL) has not accepted, in the order of
        `n`."""
        row = (self.signer, relay, after, most)
        return await self._database.read(
            lambda conn: [
                Pending(n, stored_event(parse_event(text)))
                for n, text in conn.execute(_PENDING, row)
            ]
        )

    async def has_signed(self, least_kind: int = 0) -> bool:
        """Return whether this key signed anything for this store; 30382: a card."""
        sql = "SELECT EXISTS (SELECT 1 FROM assertion WHERE signer = ? AND kind >= ?)"
        row = (self.signer, least_kind)
        return await self._database.read(lambda conn: bool(conn.execute(sql, row).fetchone()[0]))

    async def left(self, relay: str) -> int:
        """Return the number of events that a relay (normalised URL) has not accepted."""
        row = (self.signer, relay)
        return await self._database.read(lambda conn: int(conn.execute(_LEFT, row).fetchone()[0]))

    async def taken(self, relay: str, events: Iterable[Pending]) -> None:
        """Record that a relay accepted these."""
        rows = [(one.n, relay, one.event.event.id) for one in events]
        sql = "INSERT OR REPLACE INTO assertion_taken VALUES (?, ?, ?)"
        await self._database.write(lambda conn: conn.executemany(sql, rows).close())
