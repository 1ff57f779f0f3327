"""Read what other stores get of a stream: its messages, its head, and its paths (`lineage`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.counters import lineage
from nostr_client.counters.engine import read, session
from nostr_client.counters.engine.rows import COLUMNS, FROM, MessageRow
from nostr_client.counters.lineage import KEPT_RUNS, Arrival, StreamHead
from nostr_client.counters.rules import canonical, is_integer
from nostr_client.counters.subjects import Transform, overlaps
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from nostr_client.counters.config import SourceConfig
    from nostr_client.counters.engine.session import Catalog, ConfiguredStream
    from nostr_client.counters.lineage import Way

PAGE_DIGITS: Final = 1_000_000
"""Most characters of values and subjects in one page.

Values have no bound, but answers have one.
"""


class MessagePage(NamedTuple):
    """Messages in the order of their sequences. `more` is true if further messages exist."""

    head: StreamHead
    arrivals: tuple[Arrival, ...]
    more: bool
    ways: tuple[Way, ...]


def begin_run(conn: sqlite3.Connection, run: str, now: int) -> None:
    """Record the run of a program that writes this store from now on.

    `now` is in nanoseconds.
    """
    (n,) = conn.execute(
        "INSERT INTO counter_run (run, ts) VALUES (?, ?) RETURNING n", (run, now)
    ).fetchone()
    conn.execute("INSERT INTO counter_run_start SELECT ?, id, last_seq FROM counter_stream", (n,))
    for table in ("counter_run", "counter_run_start"):
        conn.execute(f"DELETE FROM {table} WHERE n <= ?", (n - KEPT_RUNS,))


def head(conn: sqlite3.Connection, stream: int) -> StreamHead:
    """Return the identity and the position of a stream."""
    (store,) = conn.execute("SELECT uuid FROM counter_store").fetchone()
    epoch, last_seq = conn.execute(
        "SELECT epoch, last_seq FROM counter_stream WHERE id = ?", (stream,)
    ).fetchone()
    (first,) = conn.execute(
        "SELECT min(seq) FROM counter_message WHERE stream = ?", (stream,)
    ).fetchone()
    runs = conn.execute(
        "SELECT r.run, coalesce(s.seq, 0) FROM counter_run r LEFT JOIN counter_run_start s"
        " ON s.n = r.n AND s.stream = ? ORDER BY r.n",
        (stream,),
    ).fetchall()
    return StreamHead(
        store, epoch, first if first is not None else last_seq + 1, last_seq, tuple(runs)
    )


_SINCE = f"SELECT {COLUMNS} FROM {FROM} WHERE m.stream = ? AND m.seq > ?"
_NEWEST = (
    " AND EXISTS (SELECT 1 FROM counter_latest l"
    " WHERE l.stream = m.stream AND l.subject = m.subject AND l.seq = m.seq)"
)


def page(
    conn: sqlite3.Connection, name: str, after: int, limit: int, *, newest: bool = False
) -> MessagePage:
    """Return the stored messages after a sequence.

    `newest` selects only the newest message of each subject. Raises NoStream.
    """
    stream = read.stream_id(conn, name)
    sql = _SINCE + (_NEWEST if newest else "") + " ORDER BY m.seq LIMIT ?"
    rows = conn.execute(sql, (stream, after, limit + 1))
    arrivals, more = _bounded(map(_arrival, map(MessageRow._make, rows)), limit)
    return MessagePage(head(conn, stream), arrivals, more, ways_into(conn, name))


def _bounded(arrivals: Iterator[Arrival], limit: int) -> tuple[tuple[Arrival, ...], bool]:
    found: list[Arrival] = []
    size = 0
    for one in arrivals:
        if len(found) >= limit or size > PAGE_DIGITS:
            return tuple(found), True
        size += len(one.subject) + len(one.value or "") + len(one.incr or "")
        found.append(one)
    return tuple(found), False


def _arrival(row: MessageRow) -> Arrival:
    text = (row.incr or "").lstrip(" ")
    incr = canonical(text) if is_integer(text) else None
    try:
        value: str | None = row.value()
    except CounterError:
        value = None
    return Arrival(row.seq, row.subject, value, incr, row.ts)


def ways_into(conn: sqlite3.Connection, name: str) -> tuple[Way, ...]:
    """Return all paths into a stream that this store knows."""
    return joined_ways(conn, session.load(conn), name, {})


def joined_ways(
    conn: sqlite3.Connection, streams: Catalog, name: str, instead: dict[str, tuple[Way, ...]]
) -> tuple[Way, ...]:
    """Return the paths like `ways_into`, but with the paths of some sources from `instead`."""
    (store,) = conn.execute("SELECT uuid FROM counter_store").fetchone()
    return _ways(conn, streams, name, instead, store, ())


def _ways(
    conn: sqlite3.Connection,
    streams: Catalog,
    name: str,
    instead: dict[str, tuple[Way, ...]],
    store: str,
    below: tuple[str, ...],
) -> tuple[Way, ...]:
    own = lineage.node(name, store)
    stream = streams.by_name.get(name)
    if stream is None or name in below:
        return ((own,),)
    inputs = [
        _ways(conn, streams, source.name, instead, store, (*below, name))
        for source in _apart(_local(stream))
    ]
    inputs += _remote(conn, stream, instead)
    return lineage.joined(own, inputs)[: lineage.MOST_WAYS + 1]


def _local(stream: ConfiguredStream) -> list[SourceConfig]:
    mirror = stream.config.mirror
    return [*stream.config.sources, *([mirror] if mirror else [])]


def _apart(sources: Iterable[SourceConfig]) -> Iterator[SourceConfig]:
    """Yield the sources that are separate paths.

    Two sources of one upstream are one path if they never carry a subject to the same place.
    """
    kept: dict[str, list[_Route]] = {}
    for source in sources:
        if _is_way(kept.setdefault(source.name, []), source.filters, source.destinations):
            yield source


class _Route(NamedTuple):
    """Pattern of the subjects in the source, and pattern of the subjects in this stream."""

    src: str
    target: str

    def meets(self, other: _Route) -> bool:
        """Return whether both routes could carry one subject to the same place."""
        return overlaps(self.src, other.src) and overlaps(self.target, other.target)


def _is_way(others: list[_Route], filters: str, destinations: str) -> bool:
    """Return whether a source is a separate path beside `others` of its upstream.

    Adds the source to `others`.
    """
    pairs = zip(filters.split("\f"), destinations.split("\f"), strict=True)
    mine = [_Route(src, src if dest == ">" else Transform(src, dest).target) for src, dest in pairs]
    apart = bool(others) and not any(a.meets(b) for a in mine for b in others)
    others += mine
    return not apart


def _remote(
    conn: sqlite3.Connection, stream: ConfiguredStream, instead: dict[str, tuple[Way, ...]]
) -> list[tuple[Way, ...]]:
    """Return the paths of the sources in other stores.

    Paths in `instead` replace the stored paths of a source.
    """
    rows = conn.execute(
        "SELECT r.name, r.lineage, c.filters, c.destinations FROM counter_remote r"
        " JOIN counter_source_cursor c ON c.id = r.cursor"
        " WHERE r.stream = ? AND r.active = 1 ORDER BY r.name",
        (stream.id,),
    ).fetchall()
    found: list[tuple[Way, ...]] = []
    kept: dict[str, list[_Route]] = {}
    for name, text, filters, destinations in rows:
        ways = instead.get(name) or tuple(tuple(way) for way in json.loads(text))
        if ways and _is_way(kept.setdefault(ways[0][0], []), filters, destinations):
            found.append(ways)
    return found
