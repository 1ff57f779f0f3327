"""Events as light rows, without content and signature: rules and derived tables need no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nostr_client.errors import StoreCorrupt
from nostr_client.event import Event
from nostr_client.store.rows import decode_tags
from nostr_client.store.rules import d_of, expiration

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Container, Iterator, Sequence

CHUNK: Final = 5_000

LIGHT: Final = "e.seq, e.id, u.pubkey, e.created_at, e.kind, e.d, e.exp, e.tags"
_FROM: Final = "FROM event e JOIN author u ON u.a = e.a"


class Row(NamedTuple):
    """What the tables are made of; `seq` is None for an archive's event."""

    seq: int | None
    id: bytes
    pubkey: bytes
    created_at: int
    kind: int
    d: str | None
    exp: int | None
    tags: tuple[tuple[str, ...], ...]


def row_of(event: Event) -> Row:
    """The columns of an event."""
    return Row(
        None,
        bytes.fromhex(event.id),
        bytes.fromhex(event.pubkey),
        event.created_at,
        event.kind,
        d_of(event),
        expiration(event),
        event.tags,
    )


def event_of(row: Row) -> Event:
    """The event of a row, without content and signature, which no rule looks at."""
    return Event(row.id.hex(), row.pubkey.hex(), row.created_at, row.kind, row.tags, "", "")


def from_store(
    conn: sqlite3.Connection,
    next_seq: int | None = None,
    *,
    kinds: Sequence[int] = (),
    skip: Container[int] = (),
) -> Iterator[Row]:
    """Every event before `next_seq` (None: all), in the order of arrival.

    `kinds`: only these (none: all). `skip`: events by seq that are left out. Raises StoreCorrupt.
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


def stored_row(row: Sequence[Any]) -> Row:
    """A row of LIGHT. Raises StoreCorrupt."""
    seq, id_, pubkey, created_at, kind, d, exp, tags = row
    return Row(seq, id_, pubkey, created_at, kind, d, exp, stored_tags(tags))


def stored_tags(tags: object) -> tuple[tuple[str, ...], ...]:
    """What a store's column of tags holds. Raises StoreCorrupt."""
    if not isinstance(tags, bytes):
        raise StoreCorrupt("an event's tags are damaged")
    return decode_tags(tags)
