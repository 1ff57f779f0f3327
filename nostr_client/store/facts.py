"""What the store knows about a batch of arriving events, read in a few statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client import kinds
from nostr_client.store.lookup import rows_in
from nostr_client.store.rows import decode_tags
from nostr_client.store.rules import (
    NOTHING,
    Address,
    Known,
    Version,
    is_deletable,
    owners,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from nostr_client.event import Event
    from nostr_client.store.authors import Authors

_ANY = """
SELECT EXISTS (SELECT 1 FROM tomb_id), EXISTS (SELECT 1 FROM tomb_addr),
       EXISTS (SELECT 1 FROM vanished)
"""
_CURRENT = "SELECT seq, created_at, id FROM event WHERE a = ? AND kind = ? AND d = ?"
_DELETED_UNTIL = "SELECT until FROM tomb_addr WHERE a = ? AND kind = ? AND d = ?"


class Held(NamedTuple):
    """The version of an address that is stored."""

    seq: int
    version: Version


class Facts:
    """Read once for a batch, then kept in step with what the batch itself changes."""

    def __init__(self, conn: sqlite3.Connection, events: Sequence[Event], authors: Authors) -> None:
        self._conn = conn
        ids = [bytes.fromhex(event.id) for event in events]
        self.raw_ids: Sequence[bytes] = ids
        """The ids of the batch, in its order."""
        self.held = _held(conn, ids)
        self.doomed: dict[int, bytes] = {}
        """Stored events that this batch removes, seq to id."""
        id_tombs, self._addr_tombs, vanished = conn.execute(_ANY).fetchone()
        if vanished or id_tombs:
            pubkeys = {key for event in events for key in owners(event)}
        else:
            pubkeys = {event.pubkey for event in events}
        self.authors = authors.find(conn, pubkeys)
        self._dead = _dead(conn, ids, events, self.authors) if id_tombs else set()
        self._dead_until: dict[Address, int] = {}
        self._vanished = _vanished(conn, self.authors) if vanished else {}

    def about(self, event: Event) -> Known:
        """What bears on an event of which every one is kept."""
        if not self._dead and not self._vanished:
            return NOTHING
        return Known(
            deleted=self._is_dead(event),
            vanished_until=self._vanished_until(event),
        )

    def about_version(self, event: Event, address: Address, current: Version | None) -> Known:
        """What bears on a version of an address; `current` is the one to beat."""
        return Known(
            deleted=self._is_dead(event),
            deleted_until=self._deleted_until(address),
            vanished_until=self._vanished_until(event) if self._vanished else None,
            current=current,
        )

    def current(self, address: Address) -> Held | None:
        """The stored version of an address, unless this batch removes it."""
        a = self.authors.get(address.pubkey)
        row = a and self._conn.execute(_CURRENT, (a, address.kind, address.d)).fetchone()
        if not row or row[0] in self.doomed:
            return None
        return Held(row[0], Version(row[1], row[2].hex()))

    def doom(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """These stored events (seq, id) go with this batch."""
        for seq, id_ in rows:
            self.doomed[seq] = id_
            self.held.discard(id_.hex())

    def bury(self, pubkey: str, ids: Iterable[str]) -> list[tuple[int, bytes]]:
        """Block ids for the events that `pubkey` owns; returns those stored, to be doomed."""
        wanted = list(ids)
        self._dead.update((id_, pubkey) for id_ in wanted)
        a = self.authors[pubkey]
        raw = [bytes.fromhex(id_) for id_ in wanted]
        block_ids(self._conn, a, raw)
        rows = rows_in(self._conn, "SELECT seq, id, a, kind, tags FROM event WHERE id IN", raw)
        return [
            (seq, id_)
            for seq, id_, by, kind, tags in rows
            if is_deletable(kind) and (by == a or _is_wrapped_for(pubkey, kind, tags))
        ]

    def bury_until(self, address: Address, until: int) -> None:
        """Block versions of an address up to a time; the newest bound stands."""
        self._addr_tombs = True
        self._dead_until[address] = max(until, self._dead_until.get(address, 0))
        block_address(self._conn, self.authors[address.pubkey], address, until)

    def vanish(self, pubkey: str, until: int) -> None:
        """Block everything of an author up to a time; the newest bound stands."""
        self._vanished[pubkey] = max(until, self._vanished.get(pubkey, 0))
        block_author(self._conn, self.authors[pubkey], until)

    def _is_dead(self, event: Event) -> bool:
        dead = self._dead
        return bool(dead) and any((event.id, key) in dead for key in owners(event))

    def _deleted_until(self, address: Address) -> int | None:
        if not self._addr_tombs:
            return None
        until = self._dead_until.get(address)
        a = self.authors.get(address.pubkey)
        row = a and self._conn.execute(_DELETED_UNTIL, (a, address.kind, address.d)).fetchone()
        return row[0] if row else until

    def _vanished_until(self, event: Event) -> int | None:
        return max(
            (self._vanished[key] for key in owners(event) if key in self._vanished), default=None
        )


def block_ids(conn: sqlite3.Connection, a: int, ids: Iterable[bytes]) -> None:
    """Block ids for the events that author `a` owns."""
    conn.executemany("INSERT OR IGNORE INTO tomb_id VALUES (?, ?)", [(id_, a) for id_ in ids])


def block_address(conn: sqlite3.Connection, a: int, address: Address, until: int) -> None:
    """Block versions of an address of author `a` up to a time; the newest bound stands."""
    conn.execute(
        "INSERT INTO tomb_addr VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
        " SET until = max(until, excluded.until)",
        (a, address.kind, address.d, until),
    )


def block_author(conn: sqlite3.Connection, a: int, until: int) -> None:
    """Block everything of author `a` up to a time; the newest bound stands."""
    conn.execute(
        "INSERT INTO vanished VALUES (?, ?) ON CONFLICT DO UPDATE"
        " SET until = max(until, excluded.until)",
        (a, until),
    )


def _held(conn: sqlite3.Connection, ids: Sequence[bytes]) -> set[str]:
    return {id_.hex() for (id_,) in rows_in(conn, "SELECT id FROM event WHERE id IN", ids)}


def _dead(
    conn: sqlite3.Connection,
    ids: Sequence[bytes],
    events: Sequence[Event],
    authors: dict[str, int],
) -> set[tuple[str, str]]:
    """Ids of the batch that an owner deleted, as (id, the owner's pubkey)."""
    rows = rows_in(conn, "SELECT id, a FROM tomb_id WHERE id IN", ids)
    buried = {(id_.hex(), a) for id_, a in rows}
    if not buried:
        return set()
    return {
        (event.id, key)
        for event in events
        for key in owners(event)
        if (event.id, authors.get(key)) in buried
    }


def _is_wrapped_for(pubkey: str, kind: int, tags: bytes) -> bool:
    """Whether a stored event is a gift wrap for this public key."""
    if kind != kinds.GIFT_WRAP:
        return False
    return any(tag[0] == "p" and tag[1:2] == (pubkey,) for tag in decode_tags(tags))


def _vanished(conn: sqlite3.Connection, authors: dict[str, int]) -> dict[str, int]:
    rows = rows_in(conn, "SELECT a, until FROM vanished WHERE a IN", list(authors.values()))
    until = dict(rows)
    return {pubkey: until[a] for pubkey, a in authors.items() if a in until}
