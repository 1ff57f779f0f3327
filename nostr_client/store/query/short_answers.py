"""Answer a short question with one statement for keys, order, sizes and events.

`select.page` is the general way. It reads keys, sizes and events with one statement each. Its
number of rows has no bound, and it decides which events of one second are within a limit. If a
question needs the general way, the answer here is None.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nostr_client.store.query.select import TimeBounds, plan, select
from nostr_client.store.rows import read_event

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.select import QueryContext

    Row = tuple[Any, ...]

MOST_EVENTS: Final = 501
"""Most events of a short answer: the usual limit of clients, plus one to detect further events."""

MOST_VALUES: Final = 256
"""Most values of a short question. With more, parsing of the SQL takes as long as the read."""

MOST_BYTES: Final = 128 * 1024
"""Most bytes of tags and contents of a short answer: about twenty long notes."""

_COLUMNS = "e.id, u.pubkey, e.created_at, e.kind"
_SMALL = f"CASE WHEN length(e.tags) + length(e.content) <= {MOST_BYTES} THEN"
_TABLES = "q CROSS JOIN event e ON e.seq = q.seq CROSS JOIN author u ON u.a = e.a"
_KEYS = "k.created_at, k.seq"
_ID, _TIME, _TAGS, _CONTENT, _EXPIRATION = 0, 2, 4, 5, 7
_EVENT = slice(7)
_BY_ID, _BY_TIME = itemgetter(_ID), itemgetter(_TIME)


class ShortAnswer(NamedTuple):
    """Events, newest first, then by id. `more` says that the limit left out events."""

    events: list[Event]
    more: bool


class _Rows(NamedTuple):
    rows: list[Row]
    more: bool


def limit_of(filter: Filter) -> int | None:
    """Return how many events a short question asks for.

    Returns None if the question is not short.
    """
    most = filter.limit
    if filter.ids is not None:
        most = len(filter.ids) if most is None else min(most, len(filter.ids))
    if filter.search is not None or not most or most > MOST_EVENTS:
        return None
    return most if _values(filter) <= MOST_VALUES else None


def is_short_count(filter: Filter) -> bool:
    """Whether a count of a filter may run in the caller's thread, until it takes too many steps.

    SQLite counts a whole index in one step, which nothing can stop. A filter without values is
    therefore not short.
    """
    return filter.search is None and 0 < _values(filter) <= MOST_VALUES


def _values(filter: Filter) -> int:
    values = len(filter.ids or ()) + len(filter.authors or ()) + len(filter.kinds or ())
    return values + sum([len(listed) for _, listed in filter.tags])


def short_answer(
    conn: sqlite3.Connection, context: QueryContext, filter: Filter
) -> ShortAnswer | None:
    """Return the answer of a short question, or None. Raises StoreCorrupt."""
    found = _rows(conn, context, filter)
    if found is None:
        return None
    events = [read_event(row[_EVENT]) for row in found.rows]
    real = _real(filter, events, more=found.more) if filter.tags else events
    return None if real is None else ShortAnswer(real, found.more)


def _real(filter: Filter, found: Sequence[Event], *, more: bool) -> list[Event] | None:
    """Return the events without those that match only by a collision of tag hashes.

    Returns None if other events must replace them.
    """
    real = [event for event in found if filter.matches(event)]
    return None if more and len(real) < len(found) else real


def _rows(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> _Rows | None:
    limit = limit_of(filter)
    if limit is None:
        return None
    chosen = plan(conn, context, filter, expired=True)
    if chosen.nothing:
        return _Rows([], more=False)
    keys = _KEYS if chosen.unique else f"DISTINCT {_KEYS}"
    window = TimeBounds(filter.since, filter.until)
    newest = select(chosen, keys, window, limit=limit + 1, order="k.created_at DESC")
    found = _within_bytes(conn.execute(_statement(newest.sql), newest.params))
    return None if found is None else _cut(found, limit, context.now)


def _statement(keys: str) -> str:
    return (
        f"SELECT {_COLUMNS}, {_SMALL} e.tags END, {_SMALL} e.content END, e.sig, e.exp"
        f" FROM ({keys}) {_TABLES}"
    )


def _within_bytes(found: Iterable[Row]) -> list[Row] | None:
    """Return all rows, newest first.

    Returns None if there are too many bytes or a row is damaged. SQLite reads no content of a large
    event. The general way then reports a damaged row.
    """
    rows: list[Row] = []
    left = MOST_BYTES
    for row in found:
        tags, content = row[_TAGS], row[_CONTENT]
        if type(tags) is not bytes or type(content) is not bytes or type(row[_TIME]) is not int:
            return None
        left -= len(tags) + len(content)
        if left < 0 or (rows and row[_TIME] > rows[-1][_TIME]):
            return None
        rows.append(row)
    return rows


def _cut(rows: list[Row], limit: int, now: int) -> _Rows | None:
    """Return the first `limit` rows without expired ones.

    Returns None if other rows must replace expired ones. Returns None also if the limit falls
    between two events of one second.
    """
    more = len(rows) > limit
    if more and rows[limit - 1][_TIME] == rows[limit][_TIME]:
        return None
    kept = [row for row in rows[:limit] if row[_EXPIRATION] is None or row[_EXPIRATION] > now]
    if more and len(kept) < limit:
        return None
    kept.sort(key=_BY_ID)
    kept.sort(key=_BY_TIME, reverse=True)
    return _Rows(kept, more)
