"""Answer questions that need no events: counts, distinct authors, HLL registers, ids for a sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client import hll
from nostr_client.errors import InvalidFilter
from nostr_client.store.lookup import rows_in
from nostr_client.store.query.select import QueryContext, TimeBounds, keys, plan, select

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.select import AccessPath, Statement

    Items = tuple[NDArray[np.uint64], NDArray[np.uint8]]


def count(conn: sqlite3.Connection, context: QueryContext, filters: Sequence[Filter]) -> int:
    """Return how many distinct events match any of the filters. Ignores limits.

    Reads only the index, so two tag values with the same 64-bit hash count as one.
    """
    if len(filters) == 1:
        return _count_one(conn, plan(conn, context, filters[0]), filters[0])
    found: set[int] = set()
    for filter in filters:
        found.update(keys(conn, context, filter, None))
    return len(found)


def _count_one(conn: sqlite3.Connection, chosen: AccessPath, filter: Filter) -> int:
    if chosen.nothing:
        return 0
    (number,) = conn.execute(*select(chosen, _number(chosen), _window(filter))).fetchone()
    return int(number)


def _number(chosen: AccessPath) -> str:
    return "count(*)" if chosen.unique else "count(DISTINCT k.seq)"


def authors(conn: sqlite3.Connection, context: QueryContext, filters: Sequence[Filter]) -> set[int]:
    """Return the numbers of the distinct authors of events that match any of the filters."""
    found: set[int] = set()
    for filter in filters:
        chosen = plan(conn, context, filter)
        if not chosen.nothing:
            statement = _authors(chosen, _window(filter))
            found.update(a for (a,) in conn.execute(*statement))
    return found


def _authors(chosen: AccessPath, window: TimeBounds) -> Statement:
    return select(chosen, "DISTINCT k.a", window)


_HELD_KINDS = """
WITH RECURSIVE held(kind) AS (
    SELECT min(kind) FROM event
    UNION ALL
    SELECT (SELECT min(kind) FROM event WHERE kind > held.kind) FROM held
    WHERE held.kind IS NOT NULL
)
SELECT kind FROM held WHERE kind IS NOT NULL
"""  # one index lookup for each kind; DISTINCT would read the whole index


def held_kinds(conn: sqlite3.Connection) -> list[int]:
    """Return the kinds of all events in ascending order, including those of expired events."""
    return [kind for (kind,) in conn.execute(_HELD_KINDS)]


def registers(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> bytes:
    """Return the 256 HLL registers of the authors of matching events. Raises InvalidFilter."""
    offset = _offset(filter)
    return _registers(conn, list(authors(conn, context, [filter])), offset)


def figures(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> tuple[int, bytes]:
    """Return `count` and `registers` of one filter by one pass. Raises InvalidFilter."""
    offset = _offset(filter)
    chosen = plan(conn, context, filter)
    if chosen.nothing:
        return 0, hll.EMPTY
    what = f"{_number(chosen)}, group_concat(DISTINCT k.a)"
    number, listed = conn.execute(*select(chosen, what, _window(filter))).fetchone()
    numbers = list(map(int, listed.split(","))) if listed else []
    return number, _registers(conn, numbers, offset)


def _offset(filter: Filter) -> int:
    offset = hll.offset(filter.to_dict())
    if offset is None:
        raise InvalidFilter("filter: without a tag attribute there are no registers (NIP-45)")
    return offset


def _registers(conn: sqlite3.Connection, authors: Sequence[int], offset: int) -> bytes:
    rows = rows_in(conn, "SELECT pubkey FROM author WHERE a IN", authors)
    return hll.from_pubkeys([pubkey for (pubkey,) in rows], offset)


def negentropy_items(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> Items:
    """Return `created_at` and id of the matching events, in ascending order of both.

    A limit keeps the newest events.
    """
    if filter.limit is not None:
        seqs = keys(conn, context, filter, filter.limit)
        return _items(sorted(rows_in(conn, "SELECT created_at, id FROM event WHERE seq IN", seqs)))
    chosen = plan(conn, context, filter)
    if chosen.nothing:
        return _items([])
    if "event_time" in chosen.table:
        order = "k.created_at, k.id"
        return _items(conn.execute(*select(chosen, order, _window(filter), order=order)))
    return _items(_looked_up(conn, chosen, _window(filter)))


def _looked_up(
    conn: sqlite3.Connection, chosen: AccessPath, window: TimeBounds
) -> list[tuple[int, bytes]]:
    """Read seqs from the index, then ids from the rows, because not every index has the ids."""
    inner = select(chosen, "k.seq", window)
    sql = f"SELECT created_at, id FROM event WHERE seq IN ({inner.sql})"
    return sorted(conn.execute(sql, inner.params))


def _items(rows: Iterable[tuple[int, bytes]]) -> Items:
    import numpy as np

    times: list[int] = []
    ids = bytearray()
    for created_at, id_ in rows:  # a list of all rows would cost more than reading them
        times.append(created_at)
        ids += id_
    return np.array(times, np.uint64), np.frombuffer(ids, np.uint8).reshape(-1, 32)


def _window(filter: Filter) -> TimeBounds:
    return TimeBounds(filter.since, filter.until)
