"""Answer questions about hot targets from `index.db` instead of from the events.

A COUNT of a post with 60,000 reactions would otherwise read as many tag rows and pubkeys. The
tables are used only if they were derived from the same snapshot that the question reads. A target
is read from the events if one of its events has expired and the sweep has not removed it yet. Its
registers are also read from the events if an author left since the registers were made. An answer
is the same either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client import hll
from nostr_client.store.index.schema import ALIAS, TRACKED, VERSION, IndexedState, about
from nostr_client.store.query import aggregate

if TYPE_CHECKING:
    import sqlite3

    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.select import QueryContext

_ROW = f"SELECT events, registers, dirty FROM {ALIAS}.hot WHERE name = ? AND value = ? AND kind = ?"

_EXPIRED = """
SELECT 1 FROM event AS e INDEXED BY event_exp CROSS JOIN tag AS t
ON t.h = ?3 AND t.kind = e.kind AND t.created_at = e.created_at AND t.seq = e.seq
WHERE e.exp <= ?1 AND e.kind = ?2 LIMIT 1
"""  # always start from the few expired events, whatever SQLite estimates for the target's tags

_Target = tuple[str, str, int]
"""Tag name, value and kind."""


class _Row(NamedTuple):
    events: int
    registers: bytes
    dirty: bool


_RowsByKind = dict[int, _Row | None]


def count(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> int:
    """Return how many distinct events match one filter. Ignores its limit. Raises InvalidFilter."""
    rows = _rows(conn, context, filter)
    if not any(rows.values()):
        return aggregate.count(conn, context, [filter])
    return _count(conn, context, filter, rows)


def _count(
    conn: sqlite3.Connection, context: QueryContext, filter: Filter, rows: _RowsByKind
) -> int:
    return sum(
        aggregate.count(conn, context, [filter.replace(kinds=[kind])])
        if row is None
        else row.events
        for kind, row in rows.items()
    )


def registers(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> bytes:
    """Return the 256 HLL registers of the authors of matching events. Raises InvalidFilter."""
    rows = _rows(conn, context, filter)
    if not any(rows.values()):
        return aggregate.registers(conn, context, filter)
    return _registers(conn, context, filter, rows)


def _registers(
    conn: sqlite3.Connection, context: QueryContext, filter: Filter, rows: _RowsByKind
) -> bytes:
    return hll.merge(
        *(
            aggregate.registers(conn, context, filter.replace(kinds=[kind]))
            if row is None or row.dirty
            else row.registers
            for kind, row in rows.items()
        )
    )


def figures(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> tuple[int, bytes]:
    """Return `count` and `registers` of one filter. Raises InvalidFilter."""
    rows = _rows(conn, context, filter)
    if not any(rows.values()):
        return aggregate.figures(conn, context, filter)
    return _count(conn, context, filter, rows), _registers(conn, context, filter, rows)


def _targets(filter: Filter) -> list[_Target]:
    """Return the tracked targets of a filter: tag name, value and kind.

    Returns an empty list if the filter has other conditions.
    """
    narrowed = (filter.ids, filter.authors, filter.since, filter.until, filter.search)
    if any(condition is not None for condition in narrowed) or len(filter.tags) != 1:
        return []
    ((name, values),) = filter.tags
    if len(values) != 1:
        return []
    found = [(name[1:], values[0], kind) for kind in dict.fromkeys(filter.kinds or ())]
    return found if all((name, kind) in TRACKED for name, _, kind in found) else []


def _rows(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> _RowsByKind:
    """Return the rows of a filter's targets by kind, None for a target without a usable row.

    If the result is empty, read the events instead.
    """
    asked = _targets(filter)
    if not asked or not _is_current(conn):
        return {}
    return {target[2]: _row(conn, context, target) for target in asked}


def _row(conn: sqlite3.Connection, context: QueryContext, target: _Target) -> _Row | None:
    """Return the row of a hot target.

    Returns None if the target is not hot, or if one of its expired events is still stored.
    """
    row = conn.execute(_ROW, target).fetchone()
    if row is None or _has_expired(conn, context, target):
        return None
    return _Row(row[0], row[1], bool(row[2]))


def _has_expired(conn: sqlite3.Connection, context: QueryContext, target: _Target) -> bool:
    name, value, kind = target
    hashed = context.hasher(name, value)
    return conn.execute(_EXPIRED, (context.now, kind, hashed)).fetchone() is not None


def _is_current(conn: sqlite3.Connection) -> bool:
    """Return whether the tables exist and match the events that this transaction sees."""
    if not any(name == ALIAS for _, name, _ in conn.execute("PRAGMA database_list")):
        return False
    found = about(conn, schema=ALIAS)
    return found.get("version") == VERSION and IndexedState.of_index(
        found
    ) == IndexedState.of_store(conn)
