"""Decide which events of a set a store would hold, by the rules of `rules`.

A set has no order of arrival, so this module chooses one. Requests to vanish come first, then
requests for deletion, then other events. A store that gets the events in this order holds the same
events.

The check of a store and the plain engine of a rebuild use this module. Spark's relations are tested
against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nostr_client.codecs import kinds
from nostr_client.codecs.event import Event
from nostr_client.errors import StoreCorrupt
from nostr_client.store import rules
from nostr_client.store.base import SaveStatus
from nostr_client.store.rows import check_numbers, decode_tags
from nostr_client.store.rules import Coordinate, PriorState, Version, d_of, expiration

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence


CHUNK: Final = 5_000

LIGHT: Final = "e.seq, e.id, u.pubkey, e.created_at, e.kind, e.d, e.exp, e.tags"
_FROM: Final = "FROM event e JOIN author u ON u.a = e.a"


class EventRow(NamedTuple):
    """Columns from which the tables are derived. `seq` is None for an event of an archive."""

    seq: int | None
    id: bytes
    pubkey: bytes
    created_at: int
    kind: int
    d: str | None
    exp: int | None
    tags: tuple[tuple[str, ...], ...]


def row_of(event: Event) -> EventRow:
    """Return the columns of an event."""
    return EventRow(
        None,
        bytes.fromhex(event.id),
        bytes.fromhex(event.pubkey),
        event.created_at,
        event.kind,
        d_of(event),
        expiration(event),
        event.tags,
    )


def event_of(row: EventRow) -> Event:
    """Return the event of a row, without content and signature, which no rule needs."""
    return Event(row.id.hex(), row.pubkey.hex(), row.created_at, row.kind, row.tags, "", "")


def from_store(
    conn: sqlite3.Connection,
    next_seq: int | None = None,
    *,
    kinds: Sequence[int] = (),
    skip: Container[int] = (),
) -> Iterator[EventRow]:
    """Yield every event before `next_seq` in the order of arrival. None means all events.

    `kinds` limits the kinds. An empty list means all. `skip` are seqs to leave out. Raises
    StoreCorrupt.
    """
    after = 0
    end = "" if next_seq is None else f"AND e.seq < {next_seq:d}"
    among = f"AND e.kind IN ({', '.join(f'{kind:d}' for kind in kinds)})" if kinds else ""
    sql = f"SELECT {LIGHT} {_FROM} WHERE e.seq > ? {end} {among} ORDER BY e.seq LIMIT {CHUNK}"
    while rows := conn.execute(sql, (after,)).fetchall():
        for row in rows:
            if row[0] not in skip:
                yield stored_row(row)
        after = rows[-1][0]


def stored_row(row: Sequence[Any]) -> EventRow:
    """Return a row of LIGHT as an EventRow. Raises StoreCorrupt."""
    seq, id_, pubkey, created_at, kind, d, exp, tags = row
    check_numbers(created_at, kind)
    if not (isinstance(id_, bytes) and isinstance(pubkey, bytes)):
        raise StoreCorrupt("an event's row is damaged")
    return EventRow(seq, id_, pubkey, created_at, kind, d, exp, stored_tags(tags))


def stored_tags(tags: object) -> tuple[tuple[str, ...], ...]:
    """Return the tags in a store's tag column. Raises StoreCorrupt."""
    if not isinstance(tags, bytes):
        raise StoreCorrupt("an event's tags are damaged")
    return decode_tags(tags)


class Tombstones:
    """What the requests in a set block. Made by `tombstones`, then used by `status`."""

    def __init__(self, urls: Collection[str], now: int | None) -> None:
        self._urls = urls
        self._now = now
        self._vanished: dict[str, int] = {}
        self._deletions: list[EventRow] = []
        self._ids: set[tuple[bytes, bytes]] = set()
        self._until: dict[Coordinate, int] = {}
        self._best: dict[Coordinate, Version] = {}

    def note(self, rows: Iterable[EventRow]) -> None:
        """Run the first pass: collect requests to vanish and to delete.

        A set has few such requests.
        """
        for row in rows:
            if row.kind == kinds.VANISH and not self._expired(row):
                event = event_of(row)
                if rules.vanishes_here(event, self._urls):
                    until = max(row.created_at, self._vanished.get(event.pubkey, 0))
                    self._vanished[event.pubkey] = until
            elif row.kind == kinds.DELETION and not self._expired(row):
                self._deletions.append(row)

    def settle(self) -> None:
        """Apply the deletion requests of authors who have not vanished."""
        for row in self._deletions:
            event = event_of(row)
            if self._vanished_until(row) is not None:
                continue
            wanted = rules.deletion(event)
            self._ids.update((bytes.fromhex(id_), row.pubkey) for id_ in wanted.ids)
            for address in wanted.addresses:
                until = max(row.created_at, self._until.get(address, 0))
                self._until[address] = until
        self._deletions = []

    def rank(self, rows: Iterable[EventRow]) -> None:
        """Run the second pass: find the best version of each address that is not blocked."""
        for row in rows:
            address = address_of(row)
            if address is None or self._refused(row, address) is not None:
                continue
            version = Version(row.created_at, row.id.hex())
            best = self._best.get(address)
            if best is None or version.beats(best):
                self._best[address] = version

    def status(self, row: EventRow) -> SaveStatus:
        """Return the status that a store would give to a row of the set, apart from DUPLICATE."""
        address = address_of(row)
        refused = self._refused(row, address)
        if refused is not None:
            return refused
        if address is not None and self._best[address].id != row.id.hex():
            return SaveStatus.SUPERSEDED
        return SaveStatus.STORED

    def _refused(self, row: EventRow, address: Coordinate | None) -> SaveStatus | None:
        known = PriorState(
            deleted=self._is_deleted(row),
            deleted_until=None if address is None else self._until.get(address),
            vanished_until=self._vanished_until(row),
        )
        ends, now = (None, 0) if self._now is None else (row.exp, self._now)
        status, _ = rules.verdict(event_of(row), known, ends, now)
        return None if status is SaveStatus.STORED else status

    def _is_deleted(self, row: EventRow) -> bool:
        if row.kind != kinds.GIFT_WRAP:
            return (row.id, row.pubkey) in self._ids
        keys = map(bytes.fromhex, filter(rules.is_id, rules.owners(event_of(row))))
        return any((row.id, key) in self._ids for key in keys)

    def _vanished_until(self, row: EventRow) -> int | None:
        if not self._vanished:
            return None
        keys = rules.owners(event_of(row))
        until = max((self._vanished[key] for key in keys if key in self._vanished), default=None)
        return until if until is not None and row.created_at <= until else None

    def _expired(self, row: EventRow) -> bool:
        return self._now is not None and row.exp is not None and row.exp <= self._now


def tombstones(
    rows: Callable[[], Iterable[EventRow]], urls: Collection[str], now: int | None
) -> Tombstones:
    """Return what the requests of a set block. `rows` is called twice.

    - `urls`: normalised relay addresses that requests to vanish may name.
    - `now`: Unix seconds at which expired events are dropped. None keeps them, like a store before
      its next sweep.
    """
    found = Tombstones(urls, now)
    found.note(rows())
    found.settle()
    found.rank(rows())
    return found


def address_of(row: EventRow) -> Coordinate | None:
    """Return the address of a row, or None."""
    return None if row.d is None else Coordinate(row.kind, row.pubkey.hex(), row.d)
