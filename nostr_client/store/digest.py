"""Keep the digest of a store: one number for the set of its events.

The digest is the sum, modulo 2^63, of the first eight bytes of every stored id. Every write keeps
the digest current. Two stores with the same number of different events have different digests.
Derived tables can therefore prove from which events they were derived (`index`). `verify` proves
that no event was added or removed outside of the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.store.lookup import rows_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

KEY: Final = "events_digest"
"""Key of the digest in `meta`."""

MODULUS: Final = 1 << 63
"""SQLite's integers are signed. Larger numbers would become floats."""

_IDS: Final = "SELECT id FROM event WHERE seq IN"


def of_ids(ids: Iterable[bytes]) -> int:
    """Return the digest of a set of ids."""
    return sum(int.from_bytes(id_[:8], "big") for id_ in ids) % MODULUS


def read(conn: sqlite3.Connection) -> int:
    """Return the digest that the store keeps."""
    (value,) = conn.execute("SELECT value FROM meta WHERE key = ?", (KEY,)).fetchone()
    return int(value)


def is_kept(conn: sqlite3.Connection) -> bool:
    """Return whether the store's version keeps a digest."""
    return conn.execute("SELECT 1 FROM meta WHERE key = ?", (KEY,)).fetchone() is not None


def compute(conn: sqlite3.Connection, first: int = 0) -> int:
    """Compute the digest of the stored events from seq `first` on.

    Takes about 1 s for a million events.
    """
    return of_ids(id_ for (id_,) in conn.execute("SELECT id FROM event WHERE seq >= ?", (first,)))


def came(conn: sqlite3.Connection, ids: Iterable[bytes]) -> None:
    """Add stored events to the digest.

    Call it in the transaction that stores them.
    """
    _shift(conn, of_ids(ids))


def gone(conn: sqlite3.Connection, seqs: Sequence[int]) -> None:
    """Subtract events from the digest.

    Call it in the transaction that removes the events, before their removal.
    """
    _shift(conn, -of_ids(id_ for (id_,) in rows_in(conn, _IDS, seqs)))


def _shift(conn: sqlite3.Connection, change: int) -> None:
    value = (read(conn) + change) % MODULUS
    conn.execute("UPDATE meta SET value = ? WHERE key = ?", (value, KEY))
