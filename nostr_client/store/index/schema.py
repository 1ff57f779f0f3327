"""Define the tables of `index.db`, which are derived from `store.db` and can be rebuilt.

- `hot`: the canonical questions of NIP-45 about targets with HOT or more events. A row has exact
  counts and the HLL registers of the authors.
- `hot_author`: how many events each author has for a hot target.
- `daily`: events and authors of each UTC day and kind.
- `zap`: valid receipts by the rule of `nostr_client.codecs.zaps`, and the amount that they paid for
  an event, an address or a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.store import digest
from nostr_client.store.lookup import rows_in
from nostr_client.store.schema import NEXT_SEQ, REMOVALS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from nostr_client.codecs.event import Event


VERSION: Final = 3
"""Increase it if the schema or the meaning of a table changes. An older file is then rebuilt."""

ALIAS: Final = "derived"
"""Schema name of the attached `index.db`."""

HOT: Final = 256
"""Least number of events of a hot target. A smaller tag range is read in less than 0.1 ms."""

TRACKED: Final = frozenset(
    {
        ("e", 7), ("a", 7), ("e", 6), ("a", 6), ("e", 16), ("a", 16), ("q", 1), ("q", 1111),
        ("e", 1), ("a", 1), ("E", 1111), ("A", 1111), ("p", 3),
    }
)  # fmt: skip
"""Tag name and kind of the canonical questions. Zaps are absent, because they have no registers."""

TRACKED_NAMES: Final = {
    kind: frozenset(name for name, tracked in TRACKED if tracked == kind) for _, kind in TRACKED
}
"""The tracked tag names of each kind."""

DAY: Final = 86_400

_SCHEMA = """
CREATE TABLE {s}.about (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE {s}.hot (
    t INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    kind INTEGER NOT NULL,
    events INTEGER NOT NULL,
    authors INTEGER NOT NULL,
    registers BLOB NOT NULL,
    dirty INTEGER NOT NULL,
    UNIQUE (name, value, kind)
) STRICT;
CREATE TABLE {s}.hot_author (
    t INTEGER NOT NULL, a INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (t, a)
) STRICT, WITHOUT ROWID;
CREATE TABLE {s}.daily (
    day INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    events INTEGER NOT NULL,
    authors INTEGER NOT NULL,
    PRIMARY KEY (day, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE {s}.daily_author (
    day INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    a INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (day, kind, a)
) STRICT, WITHOUT ROWID;
CREATE TABLE {s}.zap (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    receipts INTEGER NOT NULL,
    msats INTEGER NOT NULL,
    PRIMARY KEY (name, value)
) STRICT, WITHOUT ROWID;
"""

_SET = "INSERT INTO {s}.about VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"


class IndexedState(NamedTuple):
    """State of a store from which tables were derived.

    - `next_seq`: the seq of the next event.
    - `removals`: number of events removed so far.
    - `digest`: digest of the stored events (`store.digest`). It distinguishes two histories with
      equal numbers.
    """

    next_seq: int
    removals: int
    digest: int = 0

    @classmethod
    def of_store(cls, conn: sqlite3.Connection) -> IndexedState:
        """Return the present state of the connection's store."""
        sql = "SELECT key, value FROM meta WHERE key IN (?, ?, ?)"
        found = dict(conn.execute(sql, (NEXT_SEQ, REMOVALS, digest.KEY)).fetchall())
        return cls(int(found[NEXT_SEQ]), int(found[REMOVALS]), int(found[digest.KEY]))

    @classmethod
    def of_index(cls, about: Mapping[str, int]) -> IndexedState | None:
        """Return the state from which an index was derived, or None if a value is missing."""
        if not {"next_seq", "removals", "digest"} <= about.keys():
            return None
        return cls(about["next_seq"], about["removals"], about["digest"])


def create(conn: sqlite3.Connection, generation: int, *, schema: str = "main") -> None:
    """Create the empty tables in a database that has none."""
    for statement in _SCHEMA.format(s=schema).split(";"):
        if statement.strip():
            conn.execute(statement)
    set_about(conn, "version", VERSION, schema=schema)
    set_about(conn, "generation", generation, schema=schema)
    set_mark(conn, IndexedState(1, 0), schema=schema)


def about(conn: sqlite3.Connection, *, schema: str = "main") -> dict[str, int]:
    """Return the values of the table `about`, or an empty dict if the file is no index."""
    sql = f"SELECT 1 FROM {schema}.sqlite_schema WHERE name = 'about'"
    if conn.execute(sql).fetchone() is None:
        return {}
    return dict(conn.execute(f"SELECT key, value FROM {schema}.about"))


def set_about(conn: sqlite3.Connection, key: str, value: int, *, schema: str = "main") -> None:
    conn.execute(_SET.format(s=schema), (key, value))


def set_mark(conn: sqlite3.Connection, mark: IndexedState, *, schema: str = "main") -> None:
    """Write the state of the index.

    Call it in the transaction that brings the index to this state.
    """
    set_about(conn, "next_seq", mark.next_seq, schema=schema)
    set_about(conn, "removals", mark.removals, schema=schema)
    set_about(conn, "digest", mark.digest, schema=schema)


REMEMBERED: Final = 100_000
"""Most remembered removals, about 100 MB. They matter during a bulk rebuild or with a full disk."""


class Removals:
    """Removed events by removal number. Belongs to the writer thread."""

    def __init__(self) -> None:
        self._noted: dict[int, tuple[int, Event]] = {}

    def note(self, conn: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Remember events that are about to be removed.

        The store has already added them to its number of removals.
        """
        by_id = {bytes.fromhex(event.id): event for event in events}
        rows = list(rows_in(conn, "SELECT id, seq FROM event WHERE id IN", list(by_id)))
        seqs: dict[bytes, int] = dict(rows)
        first = IndexedState.of_store(conn).removals - len(by_id) + 1
        for number, (id_, event) in enumerate(by_id.items(), first):
            self._noted.pop(number, None)
            self._noted[number] = (seqs[id_], event)
        for number in list(self._noted)[: len(self._noted) - REMEMBERED]:
            del self._noted[number]

    def between(self, read: IndexedState, now: IndexedState) -> list[Event] | None:
        """Return the events that were stored at state `read` and removed before state `now`.

        Returns None if not all of them are known.
        """
        if not 0 <= now.removals - read.removals <= len(self._noted):
            return None
        noted = [self._noted.get(n) for n in range(read.removals + 1, now.removals + 1)]
        known = [one for one in noted if one is not None]
        if len(known) < len(noted):
            return None
        return [event for seq, event in known if seq < read.next_seq]

    def forget(self, number: int) -> None:
        """Forget the removals up to a number."""
        for one in [n for n in self._noted if n <= number]:
            del self._noted[one]
