"""The digest of a store: which events it holds, as one number that every write keeps current.

The digest is the sum, modulo 2^63, of the first eight bytes of every stored id. Two histories that
reach the same number of events by other events differ in it, so derived tables can prove what they
were derived from (`index`), and `verify` proves that no event came or went outside of the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.store.lookup import rows_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

KEY: Final = "events_digest"
"""Where the digest stands in `meta`."""

MODULUS: Final = 1 << 63
"""SQLite's integers are signed and become floats above it."""

_IDS: Final = "SELECT id FROM event WHERE seq IN"


def of_ids(ids: Iterable[bytes]) -> int:
    """The digest of a set of ids."""
    return sum(int.from_bytes(id_[:8], "big") for id_ in ids) % MODULUS


def read(conn: sqlite3.Connection) -> int:
    """The digest that the store keeps."""
    (value,) = conn.execute("SELECT value FROM meta WHERE key = ?", (KEY,)).fetchone()
    return int(value)


def is_kept(conn: sqlite3.Connection) -> bool:
    """Whether the store is of a version that keeps a digest."""
    return conn.execute("SELECT 1 FROM meta WHERE key = ?", (KEY,)).fetchone() is not None


def compute(conn: sqlite3.Connection, first: int = 0) -> int:
    """The digest of the stored events from a seq on, read from the events: 1 s per million."""
    return of_ids(id_ for (id_,) in conn.execute("SELECT id FROM event WHERE seq >= ?", (first,)))


def came(conn: sqlite3.Connection, ids: Iterable[bytes]) -> None:
    """Count events that are stored; in their transaction."""
    _shift(conn, of_ids(ids))


def gone(conn: sqlite3.Connection, seqs: Sequence[int]) -> None:
    """Count events that are about to be removed; in the transaction that does it."""
    _shift(conn, -of_ids(id_ for (id_,) in rows_in(conn, _IDS, seqs)))


def _shift(conn: sqlite3.Connection, change: int) -> None:
    value = (read(conn) + change) % MODULUS
    conn.execute("UPDATE meta SET value = ? WHERE key = ?", (value, KEY))
