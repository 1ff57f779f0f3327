"""Save a batch of events: decide about each event in memory, then write with a few statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from nostr_client.codecs import kinds
from nostr_client.codecs.event import Event
from nostr_client.store import digest, rules
from nostr_client.store.base import SaveOutcome, SaveStatus
from nostr_client.store.fingerprint_tables import log_came
from nostr_client.store.lookup import rows_in
from nostr_client.store.maintain import remove, settle
from nostr_client.store.query import search
from nostr_client.store.rows import INSERT_EVENT, INSERT_TAG, TagRows, decode_tags, encode_tags
from nostr_client.store.rules import (
    NOTHING,
    Coordinate,
    PriorState,
    Version,
    is_deletable,
    owners,
)
from nostr_client.store.schema import NEXT_SEQ, REMOVALS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from nostr_client.store.lookup import Authors


_ANY = """
SELECT EXISTS (SELECT 1 FROM tomb_id), EXISTS (SELECT 1 FROM tomb_addr),
       EXISTS (SELECT 1 FROM vanished)
"""
_CURRENT = "SELECT seq, created_at, id FROM event WHERE a = ? AND kind = ? AND d = ?"
_DELETED_UNTIL = "SELECT until FROM tomb_addr WHERE a = ? AND kind = ? AND d = ?"


class StoredVersion(NamedTuple):
    """The version of an address that is stored."""

    seq: int
    version: Version


class BatchLookup:
    """Facts about a batch.

    They are read once for the batch. Changes by the batch itself update them.
    """

    def __init__(self, conn: sqlite3.Connection, events: Sequence[Event], authors: Authors) -> None:
        self._conn = conn
        ids = [bytes.fromhex(event.id) for event in events]
        self.raw_ids: Sequence[bytes] = ids
        """The ids of the batch, in its order."""
        self.held = held_ids(conn, ids)
        self.doomed: dict[int, bytes] = {}
        """Id by seq of the stored events that this batch removes."""
        id_tombs, self._addr_tombs, vanished = conn.execute(_ANY).fetchone()
        if vanished or id_tombs:
            pubkeys = {key for event in events for key in owners(event)}
        else:
            pubkeys = {event.pubkey for event in events}
        self.authors = authors.find(conn, pubkeys)
        self._dead = _dead(conn, ids, events, self.authors) if id_tombs else set()
        self._dead_ids = {id_ for id_, _ in self._dead}
        self._dead_until: dict[Coordinate, int] = {}
        self._vanished = _vanished(conn, self.authors) if vanished else {}

    def about(self, event: Event) -> PriorState:
        """Return the state that matters for an event without an address."""
        # fast path for nearly every event
        if event.id not in self._dead_ids and not self._vanished:
            return NOTHING
        return PriorState(
            deleted=self._is_dead(event),
            vanished_until=self._vanished_until(event),
        )

    def about_version(
        self, event: Event, address: Coordinate, current: Version | None
    ) -> PriorState:
        """Return the state that matters for a version of an address.

        `current` is the version that the event must beat.
        """
        return PriorState(
            deleted=self._is_dead(event),
            deleted_until=self._deleted_until(address),
            vanished_until=self._vanished_until(event) if self._vanished else None,
            current=current,
        )

    def current(self, address: Coordinate) -> StoredVersion | None:
        """Return the stored version of an address, unless this batch removes it."""
        a = self.authors.get(address.pubkey)
        row = a and self._conn.execute(_CURRENT, (a, address.kind, address.d)).fetchone()
        if not row or row[0] in self.doomed:
            return None
        return StoredVersion(row[0], Version(row[1], row[2].hex()))

    def doom(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Note stored events, given as (seq, id), that this batch removes."""
        for seq, id_ in rows:
            self.doomed[seq] = id_
            self.held.discard(id_.hex())

    def bury(self, pubkey: str, ids: Iterable[str]) -> list[tuple[int, bytes]]:
        """Block ids of events that `pubkey` owns.

        Return those of the events that are stored and must be removed, as (seq, id).
        """
        wanted = list(ids)
        self._dead.update((id_, pubkey) for id_ in wanted)
        self._dead_ids.update(wanted)
        a = self.authors[pubkey]
        raw = [bytes.fromhex(id_) for id_ in wanted]
        block_ids(self._conn, a, raw)
        rows = rows_in(self._conn, "SELECT seq, id, a, kind, tags FROM event WHERE id IN", raw)
        return [
            (seq, id_)
            for seq, id_, by, kind, tags in rows
            if is_deletable(kind) and (by == a or _is_wrapped_for(pubkey, kind, tags))
        ]

    def bury_until(self, address: Coordinate, until: int) -> None:
        """Block versions of an address up to a time. The latest time of several blocks applies."""
        self._addr_tombs = True
        self._dead_until[address] = max(until, self._dead_until.get(address, 0))
        block_address(self._conn, self.authors[address.pubkey], address, until)

    def vanish(self, pubkey: str, until: int) -> None:
        """Block all events of an author up to a time. The latest time of several blocks applies."""
        self._vanished[pubkey] = max(until, self._vanished.get(pubkey, 0))
        block_author(self._conn, self.authors[pubkey], until)

    def _is_dead(self, event: Event) -> bool:
        id_ = event.id
        return id_ in self._dead_ids and any((id_, key) in self._dead for key in owners(event))

    def _deleted_until(self, address: Coordinate) -> int | None:
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
    """Block ids of events that author `a` owns."""
    conn.executemany("INSERT OR IGNORE INTO tomb_id VALUES (?, ?)", [(id_, a) for id_ in ids])


def block_address(conn: sqlite3.Connection, a: int, address: Coordinate, until: int) -> None:
    """Block versions of an address of author `a` up to a time. The latest time applies."""
    conn.execute(
        "INSERT INTO tomb_addr VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
        " SET until = max(until, excluded.until)",
        (a, address.kind, address.d, until),
    )


def block_author(conn: sqlite3.Connection, a: int, until: int) -> None:
    """Block all events of author `a` up to a time. The latest time applies."""
    conn.execute(
        "INSERT INTO vanished VALUES (?, ?) ON CONFLICT DO UPDATE"
        " SET until = max(until, excluded.until)",
        (a, until),
    )


def held_ids(conn: sqlite3.Connection, ids: Sequence[bytes]) -> set[str]:
    """Return the given ids whose events are stored, in hex."""
    return {id_.hex() for (id_,) in rows_in(conn, "SELECT id FROM event WHERE id IN", ids)}


def _dead(
    conn: sqlite3.Connection,
    ids: Sequence[bytes],
    events: Sequence[Event],
    authors: dict[str, int],
) -> set[tuple[str, str]]:
    """Return the ids of the batch that an owner deleted, as (id, pubkey of the owner)."""
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
    """Return whether a stored event is a gift wrap for this public key."""
    if kind != kinds.GIFT_WRAP:
        return False
    return any(tag[0] == "p" and tag[1:2] == (pubkey,) for tag in decode_tags(tags))


def _vanished(conn: sqlite3.Connection, authors: dict[str, int]) -> dict[str, int]:
    rows = rows_in(conn, "SELECT a, until FROM vanished WHERE a IN", list(authors.values()))
    until = dict(rows)
    return {pubkey: until[a] for pubkey, a in authors.items() if a in until}


if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterator, Sequence

    from nostr_client.store.lookup import Authors
    from nostr_client.store.maintain import OnRemove
    from nostr_client.store.rows import TagHasher

    EventRow = tuple[int | bytes | str | None, ...]
    OnBatch = Callable[[sqlite3.Connection, Sequence[tuple[Event, SaveOutcome]]], None]

_SETTLED = frozenset(
    {SaveStatus.SUPERSEDED, SaveStatus.DELETED, SaveStatus.EXPIRED, SaveStatus.VANISHED}
)
_SEQ = "SELECT value FROM meta WHERE key = ?"
_COUNT_REMOVALS = "UPDATE meta SET value = value + ? WHERE key = ?"
_SET_SEQ = "UPDATE meta SET value = ? WHERE key = ?"


class Saver:
    """Saves batches inside the writer's transaction. Belongs to the writer thread.

    - `urls`: normalised relay addresses that requests to vanish (NIP-62) may name.
    - `on_batch`: hooks that get every event of the batch with its outcome, in the same transaction.
    - `on_remove`: hooks that get events before their removal.

    An error of a hook undoes the batch.
    """

    def __init__(
        self,
        hasher: TagHasher,
        authors: Authors,
        *,
        urls: Collection[str] = (),
        searchable: bool = False,
        on_batch: Sequence[OnBatch] = (),
        on_remove: Sequence[OnRemove] = (),
    ) -> None:
        self.hasher = hasher
        self.authors = authors
        self.urls = urls
        self.searchable = searchable
        self.on_batch = on_batch
        self.on_remove = on_remove

    def save(
        self, conn: sqlite3.Connection, events: Sequence[Event], now: int
    ) -> list[SaveOutcome]:
        """Decide about the events and write them.

        Return one outcome for each event, in order.
        """
        self.authors.check(conn)
        batch = _Batch(self, conn, events)
        for index, event in enumerate(events):
            batch.arrive(index, event, now)
        batch.write()
        if self.on_batch:
            pairs = list(zip(events, batch.outcomes, strict=True))
            for hook in self.on_batch:
                hook(conn, pairs)
        return batch.outcomes

    def remove(self, conn: sqlite3.Connection, seqs: Collection[int]) -> None:
        """Remove events, and call the hooks."""
        if not seqs:
            return
        conn.execute(_COUNT_REMOVALS, (len(seqs), REMOVALS))
        digest.gone(conn, sorted(seqs))
        remove(conn, sorted(seqs), self.hasher, self.on_remove, searchable=self.searchable)


class PendingEvent(msgspec.Struct, frozen=True, gc=False):
    """Event that will be written: its index in the batch, and two of its columns."""

    place: int
    event: Event
    d: str | None
    ends: int | None


class _Batch:
    """One batch: its outcomes so far, and the events to write at its end."""

    def __init__(self, saver: Saver, conn: sqlite3.Connection, events: Sequence[Event]) -> None:
        self._saver = saver
        self._conn = conn
        self._facts = BatchLookup(conn, events, saver.authors)
        self._pending: dict[str, PendingEvent] = {}
        self._latest: dict[Coordinate, str] = {}
        self._by_person: dict[str, list[str]] | None = None
        self.outcomes: list[SaveOutcome] = []

    def arrive(self, index: int, event: Event, now: int) -> None:
        """Decide about one event, given the stored events and the earlier events of the batch."""
        facts, id_ = self._facts, event.id
        if id_ in facts.held or id_ in self._pending:
            self.outcomes.append(SaveOutcome(id_, SaveStatus.DUPLICATE))
            return
        d, ends = rules.d_of(event), rules.expiration(event)
        if d is None:
            address, known = None, facts.about(event)
        else:
            address = Coordinate(event.kind, event.pubkey, d)
            known = facts.about_version(event, address, self._current(address))
        status, reason = rules.verdict(event, known, ends, now)
        self.outcomes.append(SaveOutcome(id_, status, reason))
        if status is SaveStatus.STORED:
            self._accept(index, event, address, ends)

    def _current(self, address: Coordinate) -> Version | None:
        pending = self._latest.get(address)
        if pending is not None:
            return rules.version(self._pending[pending].event)
        held = self._facts.current(address)
        return None if held is None else held.version

    def _accept(
        self, index: int, event: Event, address: Coordinate | None, ends: int | None
    ) -> None:
        if address is not None:
            self._replace(address)
            self._latest[address] = event.id
        self._pending[event.id] = PendingEvent(index, event, address and address.d, ends)
        self._note_persons(event)
        if event.kind == kinds.DELETION:
            self._delete(event)
        elif event.kind == kinds.VANISH and rules.vanishes_here(event, self._saver.urls):
            self._vanish(event)

    def _replace(self, address: Coordinate) -> None:
        pending = self._latest.get(address)
        if pending is not None:
            self._drop(pending, SaveStatus.SUPERSEDED, "a newer version came with it")
            return
        held = self._facts.current(address)
        if held is not None:
            self._facts.doom([(held.seq, bytes.fromhex(held.version.id))])

    def _drop(self, id_: str, status: SaveStatus, reason: str = "") -> None:
        """Withdraw an event of this batch.

        The default reason is that an owner asked for it.
        """
        one = self._pending.pop(id_)
        self.outcomes[one.place] = SaveOutcome(
            id_, status, reason or rules.why_gone(one.event, status)
        )
        if one.d is not None:
            self._latest.pop(Coordinate(one.event.kind, one.event.pubkey, one.d))

    def _delete(self, request: Event) -> None:
        wanted = rules.deletion(request)
        self._ensure_author(request.pubkey)
        self._facts.doom(self._facts.bury(request.pubkey, wanted.ids))
        for address in wanted.addresses:
            self._facts.bury_until(address, request.created_at)
            held = self._facts.current(address)
            if held is not None and held.version.created_at <= request.created_at:
                self._facts.doom([(held.seq, bytes.fromhex(held.version.id))])
        self._drop_deleted(request, wanted)

    def _drop_deleted(self, request: Event, wanted: rules.Deletion) -> None:
        named = [id_ for id_ in wanted.ids if id_ in self._pending]
        latest = [self._latest.get(address, "") for address in wanted.addresses]
        for id_ in named:
            event = self._pending[id_].event
            if request.pubkey in rules.owners(event) and rules.is_deletable(event.kind):
                self._drop(id_, SaveStatus.DELETED)
        for id_ in latest:
            if id_ in self._pending and self._pending[id_].event.created_at <= request.created_at:
                self._drop(id_, SaveStatus.DELETED)

    def _vanish(self, request: Event) -> None:
        a = self._ensure_author(request.pubkey)
        until = request.created_at
        self._facts.vanish(request.pubkey, until)
        self._facts.doom(self._conn.execute(_OF_AUTHOR, (a, until, kinds.VANISH)).fetchall())
        h = self._saver.hasher("p", request.pubkey)
        self._facts.doom(self._conn.execute(_WRAPPED, (h, until, kinds.GIFT_WRAP)).fetchall())
        for id_ in self._concerning(request.pubkey):
            if id_ in self._pending:
                event = self._pending[id_].event
                if event.kind != kinds.VANISH and event.created_at <= until:
                    self._drop(id_, SaveStatus.VANISHED)

    def _concerning(self, pubkey: str) -> list[str]:
        """Return the ids of this batch that a request of `pubkey` to vanish removes.

        The first request to vanish starts to collect ids by owner.
        """
        if self._by_person is None:
            self._by_person = {}
            for one in self._pending.values():
                self._note_persons(one.event)
        return self._by_person.get(pubkey, [])

    def _note_persons(self, event: Event) -> None:
        if self._by_person is not None:
            for key in set(rules.owners(event)):
                self._by_person.setdefault(key, []).append(event.id)

    def _ensure_author(self, pubkey: str) -> int:
        known = self._facts.authors
        if pubkey not in known:
            known.update(self._saver.authors.create(self._conn, [pubkey]))
        return known[pubkey]

    def write(self) -> None:
        """Remove and insert all events of the batch, in order, with a few statements."""
        self._saver.remove(self._conn, self._facts.doomed)
        settle(self._conn, self._facts.doomed.values())
        left_out = (bytes.fromhex(o.id) for o in self.outcomes if o.status in _SETTLED)
        settle(self._conn, left_out)
        if not self._pending:
            return
        known = self._facts.authors
        new = dict.fromkeys(
            one.event.pubkey for one in self._pending.values() if one.event.pubkey not in known
        )
        if new:
            known.update(self._saver.authors.create(self._conn, list(new)))
        (first,) = self._conn.execute(_SEQ, (NEXT_SEQ,)).fetchone()
        self._insert(first, known)
        log_came(self._conn, first)
        digest.came(self._conn, (bytes.fromhex(id_[:16]) for id_ in self._pending))
        self._conn.execute(_SET_SEQ, (first + len(self._pending), NEXT_SEQ))

    def _insert(self, first: int, authors: dict[str, int]) -> None:
        tags = TagRows(self._saver.hasher.of_tags)
        self._conn.executemany(INSERT_EVENT, self._rows(first, authors, tags))
        self._conn.executemany(INSERT_TAG, tags.ordered())
        if self._saver.searchable:
            search.add(self._conn, enumerate((one.event for one in self._pending.values()), first))

    def _rows(self, first: int, authors: dict[str, int], tags: TagRows) -> Iterator[EventRow]:
        """Yield the rows of events one at a time, and add their tags to `tags`."""
        raw_ids = self._facts.raw_ids
        for seq, one in enumerate(self._pending.values(), first):
            event, a = one.event, authors[one.event.pubkey]
            tags.add(event, seq, a)
            yield (
                seq, raw_ids[one.place], a, event.created_at, event.kind, one.d, one.ends,
                encode_tags(event.tags), event.content.encode(), bytes.fromhex(event.sig),
            )  # fmt: skip


_OF_AUTHOR = "SELECT seq, id FROM event WHERE a = ? AND created_at <= ? AND kind <> ?"
_WRAPPED = """
SELECT e.seq, e.id FROM tag t JOIN event e ON e.seq = t.seq
WHERE t.h = ? AND t.created_at <= ? AND t.kind = ?
"""
