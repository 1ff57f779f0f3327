"""Answers about hot targets from `index.db`, where it is of the very snapshot that is asked.

A COUNT of a post with 60,000 reactions would otherwise read as many tag rows and pubkeys. The
tables are used only if their mark is that of the store, for a target of which nothing expired waits
for the sweep; registers also only if no author left since they were made. All else is read from the
events, so an answer is the same either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client import hll
from nostr_client.store import aggregate
from nostr_client.store.index_schema import ALIAS, TRACKED, VERSION, IndexedState, about

if TYPE_CHECKING:
    import sqlite3

    from nostr_client.codecs.filters import Filter
    from nostr_client.store.select import QueryContext

_ROW = f"SELECT events, registers, dirty FROM {ALIAS}.hot WHERE name = ? AND value = ? AND kind = ?"

_EXPIRED = """
SELECT 1 FROM event AS e INDEXED BY event_exp CROSS JOIN tag AS t
ON t.h = ?3 AND t.kind = e.kind AND t.created_at = e.created_at AND t.seq = e.seq
WHERE e.exp <= ?1 AND e.kind = ?2 LIMIT 1
"""  # through the few events that expired, whatever SQLite thinks of the target's tags

_Target = tuple[str, str, int]
"""Tag name, value and kind."""


class _Row(NamedTuple):
    events: int
    registers: bytes
    dirty: bool


def count(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> int:
    """How many distinct events match one filter; its limit is ignored. Raises InvalidFilter."""
    rows = _rows(conn, context, filter)
    if not any(rows.values()):
        return aggregate.count(conn, context, [filter])
    return sum(
        aggregate.count(conn, context, [filter.replace(kinds=[kind])])
        if row is None
        else row.events
        for kind, row in rows.items()
    )


def registers(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> bytes:
    """The 256 HLL registers of the authors of what matches. Raises InvalidFilter."""
    rows = _rows(conn, context, filter)
    if not any(rows.values()):
        return aggregate.registers(conn, context, filter)
    return hll.merge(
        *(
            aggregate.registers(conn, context, filter.replace(kinds=[kind]))
            if row is None or row.dirty
            else row.registers
            for kind, row in rows.items()
        )
    )


def _targets(filter: Filter) -> list[_Target]:
    """The tracked targets that a filter asks for: name, value, kind; none if it asks for more."""
    narrowed = (filter.ids, filter.authors, filter.since, filter.until, filter.search)
    if any(condition is not None for condition in narrowed) or len(filter.tags) != 1:
        return []
    ((name, values),) = filter.tags
    if len(values) != 1:
        return []
    found = [(name[1:], values[0], kind) for kind in dict.fromkeys(filter.kinds or ())]
    return found if all((name, kind) in TRACKED for name, _, kind in found) else []


def _rows(
    conn: sqlite3.Connection, context: QueryContext, filter: Filter
) -> dict[int, _Row | None]:
    """The rows of a filter's targets by kind, None for one that is not hot; empty: ask events."""
    asked = _targets(filter)
    if not asked or not _is_current(conn):
        return {}
    return {target[2]: _row(conn, context, target) for target in asked}


def _row(conn: sqlite3.Connection, context: QueryContext, target: _Target) -> _Row | None:
    """The row of a hot target; None where one of its events has expired and waits for the sweep."""
    row = conn.execute(_ROW, target).fetchone()
    if row is None or _has_expired(conn, context, target):
        return None
    return _Row(row[0], row[1], bool(row[2]))


def _has_expired(conn: sqlite3.Connection, context: QueryContext, target: _Target) -> bool:
    name, value, kind = target
    hashed = context.hasher(name, value)
    return conn.execute(_EXPIRED, (context.now, kind, hashed)).fetchone() is not None


def _is_current(conn: sqlite3.Connection) -> bool:
    """Whether the tables are there, and of what this transaction sees of the events."""
    if not any(name == ALIAS for _, name, _ in conn.execute("PRAGMA database_list")):
        return False
    found = about(conn, schema=ALIAS)
    return found.get("version") == VERSION and IndexedState.of_index(
        found
    ) == IndexedState.of_store(conn)
