"""Run queries.

A query first reads the keys of the newest matching events from an index. Then it reads these
events.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from nostr_client.codecs.event import Event
from nostr_client.errors import InvalidFilter
from nostr_client.store.lookup import MARKS, WIDE_SIZES, WIDEST, chunks, filled_up, rows_in
from nostr_client.store.query.search import wanted
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, JsonEvent, read_events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.search import SearchConditions

    Hash = Callable[[str, str], int]
    Param = int | bytes | str
    Prefix = tuple[tuple[str, tuple[Param, ...]], ...]


TAG = "tag k"
"""The tag index as the table of an access path."""


class AccessPath(NamedTuple):
    """How to answer one filter: a table and index, its leading columns, and other conditions.

    - `prefix`: the values of each leading column. Each combination is one contiguous range of the
      index, in the order of time. For a tag without kinds, the order is kind, then time.
    - `rest` and `params`: further conditions, as SQL.
    """

    table: str
    prefix: Prefix
    rest: tuple[str, ...]
    params: tuple[Param, ...]
    unique: bool
    """False if one event may occur in several ranges, such as two values of one tag."""
    nothing: bool = False
    """True if no event can match."""


_NOTHING = AccessPath("event k", (), (), (), unique=True, nothing=True)
_EXPIRED = "k.seq NOT IN (SELECT seq FROM event WHERE exp <= ?)"


def access(
    filter: Filter,
    hash_tag: Hash,
    authors: Sequence[int] | None,
    expired_at: int | None,
    search: SearchConditions | None = None,
) -> AccessPath:
    """Choose the index for a filter.

    - `authors`: the numbers of the authors in `filter.authors` that the store knows.
    - `expired_at`: hide events that expire by this time. None if no stored event has expired.
    - `search`: the conditions of `filter.search`.
    """
    if filter.matches_nothing or (authors is not None and not authors):
        return _NOTHING
    tags = [tuple({hash_tag(name[1], v): None for v in values}) for name, values in filter.tags]
    tags.sort(key=len)
    kinds = None if filter.kinds is None else tuple(dict.fromkeys(filter.kinds))
    chosen = _choose(filter, tags, kinds, None if authors is None else tuple(authors))
    if search is not None:
        chosen = chosen._replace(
            rest=(*chosen.rest, *search.conditions), params=(*chosen.params, *search.params)
        )
    if expired_at is None:
        return chosen
    return chosen._replace(rest=(*chosen.rest, _EXPIRED), params=(*chosen.params, expired_at))


def _choose(
    filter: Filter,
    tags: Sequence[tuple[int, ...]],
    kinds: tuple[int, ...] | None,
    authors: tuple[int, ...] | None,
) -> AccessPath:
    if filter.ids is not None:
        ids = tuple(bytes.fromhex(i) for i in dict.fromkeys(filter.ids))
        rest = (*_among("k.kind", kinds), *_among("k.a", authors), *_tagged(tags))
        return AccessPath("event k INDEXED BY event_id", (("k.id", ids),), rest, (), unique=True)
    if tags:
        of_tag, rest = _of_tag(tags[0], kinds)
        others = (*rest, *_among("k.a", authors), *_tagged(tags[1:]))
        return AccessPath(TAG, of_tag, others, (), unique=len(tags[0]) == 1)
    if authors is not None and kinds is not None:
        prefix: Prefix = (("k.a", authors), ("k.kind", kinds))
        return AccessPath("event k INDEXED BY event_author_kind", prefix, (), (), unique=True)
    if authors is not None:
        return AccessPath(
            "event k INDEXED BY event_author", (("k.a", authors),), (), (), unique=True
        )
    if kinds is not None:
        return AccessPath(
            "event k INDEXED BY event_kind", (("k.kind", kinds),), (), (), unique=True
        )
    return AccessPath("event k INDEXED BY event_time", (), (), (), unique=True)


def _of_tag(
    hashes: tuple[int, ...], kinds: tuple[int, ...] | None
) -> tuple[Prefix, tuple[str, ...]]:
    """Return the ranges of a tag's values, and the conditions on their rows."""
    if kinds is None:
        return (("k.h", hashes),), ()
    if len(hashes) * len(kinds) > MANY_RANGES:
        # the plus keeps the column out of the key range
        return (("k.h", hashes),), (_one_of("+k.kind", kinds),)
    return (("k.h", hashes), ("k.kind", kinds)), ()


MANY_RANGES = 10_000
"""Most ranges of one statement. Each takes about a microsecond, and a filter may give millions."""


def _one_of(column: str, values: Sequence[int]) -> str:
    """Return a condition on integers as text.

    The integers are ours, and thousands of bound parameters would be slower.
    """
    if len(values) == 1:
        return f"{column} = {values[0]}"
    return f"{column} IN ({','.join(map(str, values))})"


def _among(column: str, values: Sequence[int] | None) -> tuple[str, ...]:
    """Return the condition on a column, if there is one."""
    return () if values is None else (_one_of(column, values),)


def _tagged(tags: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Return a condition for each further tag filter: the event has one of its values too."""
    return tuple(
        f"EXISTS (SELECT 1 FROM tag o WHERE {_one_of('o.h', values)}"
        " AND o.kind = k.kind AND o.created_at = k.created_at AND o.seq = k.seq)"
        for values in tags
    )


class Statement(NamedTuple):
    """SQL and its parameters."""

    sql: str
    params: tuple[Param, ...]


class TimeBounds(NamedTuple):
    """Bounds on `created_at`, both inclusive. None means no bound."""

    since: int | None = None
    until: int | None = None


def select(
    chosen: AccessPath,
    columns: str,
    window: TimeBounds,
    *,
    limit: int | None = None,
    order: str = "",
) -> Statement:
    """Return one statement over all ranges of the access path.

    With a limit and the order of the index, SQLite leaves each range early. It stops at the first
    row that is older than the rows that it has. A thousand authors therefore cost a thousand short
    reads.
    """
    ranges = [_in_prefix(column, values) for column, values in chosen.prefix]
    conditions = [condition for condition, _ in ranges]
    params: list[Param] = [value for _, values in ranges for value in values]
    if window.since is not None:
        conditions.append("k.created_at >= ?")
        params.append(window.since)
    if window.until is not None:
        conditions.append("k.created_at <= ?")
        params.append(window.until)
    conditions.extend(chosen.rest)
    params.extend(chosen.params)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    tail = f" ORDER BY {order}" if order else ""
    if limit is not None:
        tail += " LIMIT ?"
        params.append(limit)
    return Statement(f"SELECT {columns} FROM {chosen.table}{where}{tail}", tuple(params))


def _in_prefix(column: str, values: Sequence[Param]) -> tuple[str, Sequence[Param]]:
    """Return a condition and its parameters.

    Short lists of similar lengths share one text, for SQLite's statement cache.
    """
    if len(values) == 1:
        return f"{column} = ?", values
    if len(values) <= WIDEST:
        filled = filled_up(values, WIDE_SIZES)
        return f"{column} IN ({MARKS[len(filled)]})", filled
    numbers = [value for value in values if isinstance(value, int)]
    if numbers:
        return _one_of(column, numbers), ()
    return f"{column} IN ({','.join('?' * len(values))})", values


if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from nostr_client.codecs.filters import Filter
    from nostr_client.store.lookup import Authors
    from nostr_client.store.rows import TagHasher

    Key = tuple[int, int]  # created_at, seq

_ID, _TIME = attrgetter("id"), attrgetter("created_at")
_KEYS = "k.created_at, k.seq"
_IDS = "SELECT seq, id FROM event WHERE seq IN"
_NEWEST = "k.created_at DESC"
_NAMED = EVENT_COLUMNS.replace("e.", "k.")
_EVENTS = f"SELECT {EVENT_COLUMNS} FROM {EVENT_TABLES} WHERE e.seq IN"


class QueryContext(NamedTuple):
    """Values that a query needs besides the connection. `now` is in Unix seconds."""

    hasher: TagHasher
    authors: Authors
    now: int
    searchable: bool = False


def plan(
    conn: sqlite3.Connection, context: QueryContext, filter: Filter, *, expired: bool = False
) -> AccessPath:
    """Return the access path of a filter. Raises InvalidFilter.

    `expired`: include expired events, which the caller then removes.
    """
    if filter.search is not None and not context.searchable:
        raise InvalidFilter("filter: this store was made without search")
    search = None if filter.search is None else wanted(filter.search)
    numbers = None
    if filter.authors is not None:
        numbers = list(context.authors.find(conn, filter.authors).values())
    hidden_at = None if expired else expired_at(conn, context.now)
    chosen = access(filter, context.hasher, numbers, hidden_at, search)
    if filter.kinds is None and chosen.table == TAG and _wants_order(filter):
        return _by_kind(conn, chosen)
    return chosen


def _wants_order(filter: Filter) -> bool:
    return (filter.limit, filter.since, filter.until) != (None, None, None)


def expired_at(conn: sqlite3.Connection, now: int) -> int | None:
    """Return `now` if an expired event is still stored, else None."""
    row = conn.execute("SELECT 1 FROM event WHERE exp <= ? LIMIT 1", (now,)).fetchone()
    return now if row else None


def events(
    conn: sqlite3.Connection, context: QueryContext, filters: Sequence[Filter]
) -> list[Event]:
    """Return the events that match any filter, each once, newest first, then by id."""
    if len(filters) == 1:
        return _sorted(of_filter(conn, context, filters[0]))
    found: dict[str, Event] = {}
    for filter in filters:
        found.update((event.id, event) for event in of_filter(conn, context, filter))
    return _sorted(found.values())


E = TypeVar("E", Event, JsonEvent)


def _sorted(events: Iterable[E]) -> list[E]:
    """Sort events newest first, then by id.

    Two stable sorts by a field are faster than one sort by a function.
    """
    ordered = sorted(events, key=_ID)
    ordered.sort(key=_TIME, reverse=True)
    return ordered


def of_filter(conn: sqlite3.Connection, context: QueryContext, filter: Filter) -> list[Event]:
    """Return the events that match one filter, up to its limit, in no particular order."""
    if filter.ids is not None and (filter.limit is None or filter.limit >= len(filter.ids)):
        found = read_events(_by_ids(conn, plan(conn, context, filter), filter))
    else:
        seqs = keys(conn, context, filter, filter.limit)
        found = read_events(rows_in(conn, _EVENTS, seqs))
    if not filter.tags:
        return found
    real = [event for event in found if filter.matches(event)]
    if len(real) == len(found) or filter.limit is None:
        return real
    return _without_collisions(conn, context, filter, filter.limit)


def _by_ids(
    conn: sqlite3.Connection, chosen: AccessPath, filter: Filter
) -> Iterator[Sequence[Any]]:
    """Yield the rows of a filter with ids by one pass, as no limit decides between them."""
    if chosen.nothing:
        return
    ((column, ids),) = chosen.prefix
    named = chosen._replace(table=f"{chosen.table} CROSS JOIN author u ON u.a = k.a")
    for chunk in chunks(ids):
        part = named._replace(prefix=((column, tuple(chunk)),))
        yield from conn.execute(*select(part, _NAMED, TimeBounds(filter.since, filter.until)))


def _without_collisions(
    conn: sqlite3.Connection, context: QueryContext, filter: Filter, limit: int
) -> list[Event]:
    """Return the matching events after a collision of hashes.

    Two tag values have the same hash, so the limit applies only after a check of every event.
    """
    found = read_events(rows_in(conn, _EVENTS, keys(conn, context, filter, None)))
    return _sorted(event for event in found if filter.matches(event))[:limit]


def keys(
    conn: sqlite3.Connection, context: QueryContext, filter: Filter, limit: int | None
) -> list[int]:
    """Return the seqs of the newest `limit` matching events, in no particular order."""
    chosen = plan(conn, context, filter)
    window = TimeBounds(filter.since, filter.until)
    if chosen.nothing or limit == 0:
        return []
    if limit is None:
        statement = select(chosen, "k.seq", window)
        return list({seq for (seq,) in conn.execute(*statement)})
    columns = _KEYS if chosen.unique else f"DISTINCT {_KEYS}"
    newest = select(chosen, columns, window, limit=limit + 1, order=_NEWEST)
    return _cut(conn, chosen, conn.execute(*newest).fetchall(), limit)


def _by_kind(conn: sqlite3.Connection, chosen: AccessPath) -> AccessPath:
    """Split the range of a tag by its kinds, so that each range is in the order of time.

    If there are too many kinds or values, SQLite sorts the rows instead.
    """
    ((_, hashes),) = chosen.prefix
    if len(hashes) > MANY_VALUES:
        return chosen
    found = (conn.execute(_KINDS_OF_TAG, (h, MANY_KINDS)) for h in hashes)
    held = {kind for rows in found for (kind,) in rows}
    if not held or len(held) >= MANY_KINDS:
        return chosen
    return chosen._replace(prefix=(*chosen.prefix, ("k.kind", tuple(held))))


MANY_KINDS = 64
"""Kinds of one tag from which the range is not split. Most targets have a dozen kinds at most."""

MANY_VALUES = 150
"""Most values of a tag whose range is split.

With MANY_KINDS each, they give about 10,000 ranges.
"""

_KINDS_OF_TAG = """
WITH RECURSIVE held(kind) AS (
    SELECT min(kind) FROM tag WHERE h = ?1
    UNION ALL
    SELECT (SELECT min(kind) FROM tag WHERE h = ?1 AND kind > held.kind) FROM held
    WHERE held.kind IS NOT NULL
)
SELECT kind FROM held WHERE kind IS NOT NULL LIMIT ?2
"""


def _cut(conn: sqlite3.Connection, chosen: AccessPath, found: list[Key], limit: int) -> list[int]:
    """Return the newest `limit` events.

    Of the events that share the last second, return those with the lowest ids.
    """
    if len(found) <= limit:
        return [seq for _, seq in found]
    last = found[limit - 1][0]
    newer = [seq for at, seq in found if at > last]
    if found[limit][0] < last:
        return [seq for _, seq in found[:limit]]
    tied = {seq for (seq,) in conn.execute(*select(chosen, "k.seq", TimeBounds(last, last)))}
    ranked = sorted((id_, seq) for seq, id_ in rows_in(conn, _IDS, list(tied)))
    return newer + [seq for _, seq in ranked[: limit - len(newer)]]


class QueryPage(NamedTuple, Generic[E]):
    """Part of an answer, newest first, then by id.

    If `more` is true, there may be further events, not newer than `last`. `tied` are the ids of the
    events of the second `last` that have been read.
    """

    events: list[E]
    last: int = 0
    tied: frozenset[str] = frozenset()
    more: bool = False
    read: int = 0
    """How many events had room in the page, also those that a caller removed from `events`."""


def page(
    conn: sqlite3.Connection,
    context: QueryContext,
    filters: Sequence[Filter],
    most_bytes: int,
    skip: Collection[str],
    read: Callable[[Sequence[Any]], E],
    *,
    least_one: bool,
) -> QueryPage[E]:
    """Return the newest events of several filters, without the ids in `skip`, up to `most_bytes`.

    `read` makes an event of a row, as `rows.read_event` and `rows.read_json` do. Sizes are known
    before any content is read, because SQLite stores the length of a value before the value. Each
    filter has a limit, which must leave room for `skip`. `least_one` includes the first event
    whatever its size.
    """
    seqs: set[int] = set()
    more = False
    for filter in filters:
        found = keys(conn, context, filter, filter.limit)
        more = more or len(found) == filter.limit
        seqs.update(found)
    rows = [(-at, id_.hex(), seq, size) for seq, at, id_, size in rows_in(conn, _SIZES, list(seqs))]
    rows = sorted({row for row in rows if row[1] not in skip})
    # Stop at the shortest limit. Beyond it, a filter that reached its limit may have events between
    # the events of other filters.
    most = min((f.limit for f in filters if f.limit is not None), default=len(rows)) - len(skip)
    taken = _within(rows[: max(most, 0)], most_bytes, least_one=least_one)
    real = [read(row) for row in rows_in(conn, _EVENTS, [row[2] for row in taken])]
    if any(filter.tags for filter in filters):
        real = [one for one in real if _matches_any(filters, one)]
    if not taken:
        return QueryPage([], more=bool(rows))
    last = taken[-1][0]
    tied = frozenset(row[1] for row in taken if row[0] == last)
    return QueryPage(_sorted(real), -last, tied, more or len(taken) < len(rows), len(taken))


def _matches_any(filters: Sequence[Filter], one: Event | JsonEvent) -> bool:
    event = one if isinstance(one, Event) else one.parsed()
    return any(filter.matches(event) for filter in filters)


def _within(
    rows: list[tuple[int, str, int, int]], most_bytes: int, *, least_one: bool
) -> list[tuple[int, str, int, int]]:
    """Return the first rows whose sizes, the last elements, add up to at most `most_bytes`."""
    left = most_bytes
    for at, row in enumerate(rows):
        left -= row[3]
        if left < 0:
            return rows[: max(at, 1 if least_one else 0)]
    return rows


_SIZES = "SELECT seq, created_at, id, length(tags) + length(content) FROM event WHERE seq IN"


def after(conn: sqlite3.Connection, place: tuple[int, bytes], now: int) -> list[Event]:
    """Return the next PAGE events after a time and id, in the order of time and id."""
    return read_events(conn.execute(_AFTER, (*place, now, PAGE)))


PAGE = 1_000
"""Events that are read at once, usually a few MB."""

_AFTER = f"""
SELECT {EVENT_COLUMNS} FROM {EVENT_TABLES}
WHERE (e.created_at, e.id) > (?, ?) AND (e.exp IS NULL OR e.exp > ?)
ORDER BY e.created_at, e.id LIMIT ?
"""
