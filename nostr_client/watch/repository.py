"""The watches of a store: the one place that reads and writes their table and their history.

Functions work over a connection, in the caller's transaction; `WatchRepository` has the same for
callers without one. Times are Unix seconds. A watch of a configuration file has a row too, for its
history; its definition stays in the file.
"""

from __future__ import annotations

import hashlib
import itertools
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec

from nostr_client.count.claims import CLAIMS, ClaimBook
from nostr_client.count.merge import CountUnit
from nostr_client.count.remembering import asked_of
from nostr_client.errors import InvalidInput
from nostr_client.store.database import Database
from nostr_client.store.migrate import Schema, run_script
from nostr_client.store.schema import STORE
from nostr_client.watch import within_rows
from nostr_client.watch.definition import Watch
from nostr_client.watch.history import (
    DAY,
    HOUR,
    LEVELS,
    Level,
    Point,
    fold,
    settled_before,
    together,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from nostr_client.count.figures import Within
    from nostr_client.count.queries import Query
    from nostr_client.count.result import CountResult

_TABLES: Final = """
CREATE TABLE watch (
    w INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    is_file INTEGER NOT NULL DEFAULT 0,
    asked_at INTEGER,
    relays TEXT
) STRICT;
CREATE TABLE watch_point (
    w INTEGER NOT NULL,
    step INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    value INTEGER NOT NULL,
    low INTEGER NOT NULL,
    high INTEGER,
    exact INTEGER NOT NULL,
    as_said INTEGER NOT NULL,
    unit TEXT NOT NULL,
    least INTEGER NOT NULL,
    most INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    PRIMARY KEY (w, step, slot)
) STRICT, WITHOUT ROWID
"""

WATCHES: Final = Schema(
    "nostr_tally.watches", partial(run_script, script=_TABLES), also=(within_rows.WITHIN,)
)

APART_S: Final = 60
MOST_APART: Final = 6
"""Numbers of one minute that are stored if it moves: a flood causes a merge every second."""

SPARK: Final = 24
"""Hours of the line beside a number."""

_STEPS: Final = (60, 300, 900, HOUR)
"""Seconds between two values of the line, while the numbers are young."""

_FIELDS: Final = (
    "at",
    "value",
    "low",
    "high",
    "exact",
    "as_said",
    "unit",
    "least",
    "most",
    "samples",
)
_FLAGS: Final = ("exact", "as_said")
_CURRENT: Final = "instr(name, '/') = 0"
"""Rows of watches, not of their earlier questions."""

_POINTS: Final = (
    f"SELECT {', '.join((*_FIELDS, *within_rows.COLUMNS))}"
    " FROM watch_point LEFT JOIN watch_point_within USING (w, step, slot)"
)


class Moved(NamedTuple):
    """How far a number moved over an hour, a day and a week, and its newest values.

    `spark`: hourly values, or closer ones where the numbers began within a day. `since`: the time
    of the first number, Unix seconds; None before it.
    """

    changes: dict[str, int]
    spark: tuple[int, ...]
    since: int | None = None


# Definitions.


def add(conn: sqlite3.Connection, watch: Watch) -> None:
    """Store a new watch. Raises InvalidInput for an invalid watch, or a name in use."""
    watch.check()
    if _number(conn, watch.name) is not None:
        raise InvalidInput(f"there is a watch named {watch.name!r} already")
    put(conn, watch)


def put(conn: sqlite3.Connection, watch: Watch, *, is_file: bool = False) -> bool:
    """Store a watch; it replaces one of the same name. Return whether its question changed.

    A new question begins its own history. The history of the previous question is set aside, and
    comes back when the watch asks that question again.
    """
    key = question_key(watch.question)
    before = _asked_now(conn, watch.name)
    if before != key:
        rename = "UPDATE watch SET name = ? WHERE name = ?"
        conn.execute(rename, (_aside(watch.name, before), watch.name))
        conn.execute(rename, (watch.name, _aside(watch.name, key)))
    definition = msgspec.json.encode(watch).decode()
    sql = (
        "INSERT INTO watch (name, definition, is_file) VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
        " SET definition = excluded.definition, is_file = excluded.is_file"
    )
    conn.execute(sql, (watch.name, definition, is_file))
    return bool(before) and before != key


def definitions(conn: sqlite3.Connection) -> list[str]:
    """Return the JSON of every watch outside files, by name; some may be unreadable."""
    sql = f"SELECT definition FROM watch WHERE {_CURRENT} AND NOT is_file ORDER BY name"
    return [text for (text,) in conn.execute(sql)]


def added(conn: sqlite3.Connection) -> frozenset[str]:
    """Return the names of the watches outside files, unreadable ones included."""
    sql = f"SELECT name FROM watch WHERE {_CURRENT} AND NOT is_file"
    return frozenset(name for (name,) in conn.execute(sql))


def _asked_now(conn: sqlite3.Connection, name: str) -> str:
    """Return the key of the question that a watch asks; "" if missing or unreadable."""
    row = conn.execute("SELECT definition FROM watch WHERE name = ?", (name,)).fetchone()
    return "" if row is None else _key_of(row[0])


@lru_cache(8192)
def _key_of(definition: str) -> str:
    """Return the key of the question of a definition; "" if it is unreadable."""
    try:
        return question_key(_watch(definition).question)
    except InvalidInput:
        return ""


def question_key(query: Query) -> str:
    """Return the key of a question's history: two questions may share claims, and differ in the
    unit."""
    key = asked_of(query).key
    of_events = query.offset is not None and query.unit is CountUnit.EVENTS
    return f"{key} {CountUnit.EVENTS}" if of_events else key


def _aside(name: str, key: str) -> str:
    """Where the history of a question is kept that a watch asks no more: no name has a slash."""
    return f"{name}/{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def watches(conn: sqlite3.Connection) -> list[tuple[Watch, int | None]]:
    """All watches by name, each with the time when it was last asked."""
    rows = conn.execute(f"SELECT definition, asked_at FROM watch WHERE {_CURRENT} ORDER BY name")
    return [(_watch(text), asked) for text, asked in rows]


@lru_cache(8192)
def _watch(definition: str) -> Watch:
    try:
        return msgspec.json.decode(definition, type=Watch)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"not a watch: {error}") from error


def asked_at(conn: sqlite3.Connection, name: str) -> int | None:
    """When a watch was last asked, Unix seconds; None for never."""
    row = conn.execute("SELECT asked_at FROM watch WHERE name = ?", (name,)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def relays(conn: sqlite3.Connection, name: str) -> tuple[str, ...] | None:
    """Return the relays that a watch last asked, as they were spelled; None if not recorded.

    Watches that were never asked, or only by an older version, have no record.
    """
    row = conn.execute("SELECT relays FROM watch WHERE name = ?", (name,)).fetchone()
    return None if row is None or row[0] is None else tuple(msgspec.json.decode(row[0]))


def remove(conn: sqlite3.Connection, name: str) -> bool:
    """Remove a watch and its history, including previous questions; return False if it does not
    exist."""
    if _number(conn, name) is None:
        return False
    sql = "SELECT w FROM watch WHERE name = ?1 OR substr(name, 1, length(?1) + 1) = ?1 || '/'"
    for w in conn.execute(sql, (name,)).fetchall():
        _delete(conn, "WHERE w = ?", w)
        conn.execute("DELETE FROM watch WHERE w = ?", w)
    return True


# History.


def asked(
    conn: sqlite3.Connection,
    name: str,
    at: int,
    point: Point | None,
    *,
    query: Query | None = None,
    relays: Sequence[str] | None = None,
) -> None:
    """Record that a watch was asked, and its number, if it gave one; fold old points.

    Within APART_S seconds an unchanged number is one point, and MOST_APART points are stored; later
    ones merge into the last of them. `query`: the question; nothing is recorded if the watch asks
    another one by now. `relays`: the relays that were asked.
    """
    sql = "SELECT w, asked_at, definition FROM watch WHERE name = ?"
    row = conn.execute(sql, (name,)).fetchone()
    if row is None:
        return  # removed while it was asked
    w, last, definition = row
    if query is not None and _key_of(definition) != question_key(query):
        return
    whom = None if relays is None else msgspec.json.encode(relays).decode()
    sql = "UPDATE watch SET asked_at = ?, relays = coalesce(?, relays) WHERE w = ?"
    conn.execute(sql, (at, whom, w))
    if point is not None:
        put_points(conn, w, [_with_newest(conn, w, point)])
    if last is None or last // HOUR != at // HOUR:  # points become old only at full hours
        thin(conn, w, at)


def counted_within(
    conn: sqlite3.Connection, name: str, found: Within, *, query: Query | None = None
) -> None:
    """Record the figure within a web beside the newest number of a watch: it came after it.

    `query`: the question; nothing is recorded if the watch asks another one by now.
    """
    if query is None or _asked_now(conn, name) == question_key(query):
        within_rows.put_newest(conn, name, LEVELS[0].step, found)


def _with_newest(conn: sqlite3.Connection, w: int, point: Point) -> Point:
    """Return a point, joined with the newest of its minute if it replaces that one."""
    start = point.at // APART_S * APART_S
    key = (w, LEVELS[0].step, start, start + APART_S - 1)
    where = "WHERE w = ? AND step = ? AND slot BETWEEN ? AND ?"
    earlier = _points(conn.execute(f"{_POINTS} {where} ORDER BY slot", key))
    if not earlier or (len(earlier) < MOST_APART and _number_of(earlier[-1]) != _number_of(point)):
        return point
    newest = earlier[-1].at
    last = "WHERE w = ? AND step = ? AND slot = ?"
    _delete(conn, last, (*key[:2], newest))
    return together([earlier[-1], point])


def _number_of(point: Point) -> tuple[object, ...]:
    return point.value, point.low, point.high, point.exact, point.as_said, point.unit


def put_points(conn: sqlite3.Connection, w: int, kept: Iterable[Point]) -> None:
    """Store points as they were measured, of a watch by its number."""
    _put(conn, w, LEVELS[0], list(kept))


def thin(conn: sqlite3.Connection, w: int, now: int) -> None:
    """Fold old points into the coarser levels."""
    for level, coarser in itertools.pairwise(LEVELS):
        border = settled_before(level, now, coarser)
        if border is None:
            continue
        where = "WHERE w = ? AND step = ? AND slot < ?"
        key = (w, level.step, border // level.step)
        old = _points(conn.execute(f"{_POINTS} {where}", key))
        if old:
            _fold_into(conn, w, coarser, old)
            _delete(conn, where, key)


def _fold_into(conn: sqlite3.Connection, w: int, level: Level, old: list[Point]) -> None:
    slots = {point.at // level.step for point in old}
    where = "WHERE w = ? AND step = ? AND slot BETWEEN ? AND ?"
    there = _points(conn.execute(f"{_POINTS} {where}", (w, level.step, min(slots), max(slots))))
    touched = [point for point in there if point.at // level.step in slots]
    _put(conn, w, level, fold([*touched, *old], level.step))


def points(
    conn: sqlite3.Connection,
    name: str,
    since: int = 0,
    until: int | None = None,
    most: int | None = None,
) -> list[Point]:
    """Return the series of a watch, oldest first, the newest `most`; of all levels, without
    overlap."""
    sql = f"{_POINTS} JOIN watch USING (w) WHERE name = ? AND at BETWEEN ? AND ?"
    last = 2**62 if until is None else until
    key = (name, since, last, -1 if most is None else most)
    return _points(conn.execute(f"{sql} ORDER BY at DESC LIMIT ?", key))[::-1]


def newest(conn: sqlite3.Connection, name: str, after: int, until: int) -> Point | None:
    """Return the newest point of a watch later than `after` and not later than `until`."""
    found: list[Point] = []
    for level in LEVELS:
        sql = f"{_POINTS} JOIN watch USING (w) WHERE name = ? AND step = ? AND slot BETWEEN ? AND ?"
        key = (name, level.step, after // level.step, until // level.step, after, until)
        where = "AND at > ? AND at <= ? ORDER BY slot DESC LIMIT 1"
        found += _points(conn.execute(f"{sql} {where}", key))
    return max(found, key=lambda point: point.at, default=None)


def number_at(conn: sqlite3.Connection, name: str, at: int) -> Point | None:
    """Return the number of a watch at a time, or the next one where nobody knows that number.

    A watch has none before its first one. Of numbers that became one point, only the last is known.
    """
    before = newest(conn, name, 0, at)
    if before is not None and not _is_within_point(conn, name, at):
        return before
    sql = f"{_POINTS} JOIN watch USING (w) WHERE name = ? AND at > ? ORDER BY at LIMIT 1"
    return next(iter(_points(conn.execute(sql, (name, at)))), None)


def _is_within_point(conn: sqlite3.Connection, name: str, at: int) -> bool:
    """Whether a later point of several numbers may have begun before a time."""
    sql = (
        "SELECT 1 FROM watch_point JOIN watch USING (w)"
        " WHERE name = ? AND step = ? AND at > ? AND at < ? AND samples > 1"
    )
    spans = ((level.step, max(level.step, APART_S)) for level in LEVELS)
    keys = ((name, step, at, (at // span + 1) * span) for step, span in spans)
    return any(conn.execute(sql, key).fetchone() for key in keys)


def _put(conn: sqlite3.Connection, w: int, level: Level, kept: Sequence[Point]) -> None:
    conn.executemany(
        f"INSERT OR REPLACE INTO watch_point VALUES (?, ?, ?{', ?' * len(_FIELDS)})",
        [
            (w, level.step, point.at // level.step, *(getattr(point, name) for name in _FIELDS))
            for point in kept
        ],
    )
    for point in kept:
        within_rows.put(conn, (w, level.step, point.at // level.step), point.within)


def _delete(conn: sqlite3.Connection, where: str, key: tuple[int, ...]) -> None:
    """Delete points, with their figures within a web."""
    for table in ("watch_point", "watch_point_within"):
        conn.execute(f"DELETE FROM {table} {where}", key)


def _points(rows: Iterable[tuple[Any, ...]]) -> list[Point]:
    return [_point(row) for row in rows]


def _point(row: tuple[Any, ...]) -> Point:
    own = len(_FIELDS)
    values = dict(zip(_FIELDS, row[:own], strict=True))
    flags = {name: bool(values[name]) for name in _FLAGS}
    return Point(**{**values, **flags, "within": within_rows.read(row[own:])})


def _number(conn: sqlite3.Connection, name: str) -> int | None:
    row = conn.execute("SELECT w FROM watch WHERE name = ?", (name,)).fetchone()
    return None if row is None else int(row[0])


def moved(conn: sqlite3.Connection, watch: str, value: int, now: float) -> Moved:
    """Return how a number changed over an hour, a day and a week, if it was known then."""
    changes: dict[str, int] = {}
    for name, span in (("1h", HOUR), ("1d", DAY), ("1w", 7 * DAY)):
        then = newest(conn, watch, int(now - 2 * span), int(now - span))
        if then is not None:
            changes[name] = value - then.value
    recent = _by_hours(conn, watch, int(now))
    if len(recent) < SPARK:  # asked less often than every hour, or for less than a day
        found = points(conn, watch, most=SPARK * HOUR // APART_S)
        recent = fold(found, _step(found))
    return Moved(changes, tuple(point.value for point in recent[-SPARK:]), _first(conn, watch))


def _step(found: Sequence[Point]) -> int:
    """Return the shortest step, an hour at most, by which points make a line of SPARK values."""
    span = found[-1].at - found[0].at if found else 0
    return next((step for step in _STEPS if span < SPARK * step), HOUR)


def _first(conn: sqlite3.Connection, watch: str) -> int | None:
    """Return the time of the first point of a watch."""
    sql = "SELECT at FROM watch_point JOIN watch USING (w) WHERE name = ? AND step = ?"
    rows = [
        conn.execute(f"{sql} ORDER BY slot LIMIT 1", (watch, level.step)).fetchone()
        for level in LEVELS
    ]
    return min((row[0] for row in rows if row is not None), default=None)


def _by_hours(conn: sqlite3.Connection, watch: str, now: int) -> list[Point]:
    """Return the last point of each of the newest hours that have one: a day may have 10,000
    points."""
    this = now // HOUR * HOUR
    starts = range(this - SPARK * HOUR, this + 1, HOUR)
    found = (newest(conn, watch, start - 1, start + HOUR - 1) for start in starts)
    return [point for point in found if point is not None]


def thin_next(conn: sqlite3.Connection, now: float, after: str, most: int) -> str | None:
    """Fold old points of the next `most` watches by name; return the last name, None at the end."""
    sql = "SELECT name, w FROM watch WHERE name > ? ORDER BY name LIMIT ?"
    found = conn.execute(sql, (after, most)).fetchall()
    for _, w in found:
        thin(conn, w, int(now))
    return found[-1][0] if len(found) == most else None


# The same for callers without a connection.


class WatchRepository:
    """Watches with their history and, in the same file, their claims.

    The tables of `WATCHES` and `claims.CLAIMS` must exist. Every method may raise StoreError and
    its kinds.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.claims = ClaimBook(database)

    @classmethod
    async def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """Open a store file, or ":memory:"; raises as `Database.open`."""
        migrations = [STORE, CLAIMS, WATCHES]
        return cls(await Database.open(path, read_only=read_only, migrations=migrations))

    async def close(self) -> None:
        """Close the database; for an object that `open` made."""
        await self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def add(self, watch: Watch) -> None:
        """Store a new watch. Raises InvalidInput for an invalid watch, or a name in use."""
        await self.database.write(lambda conn: add(conn, watch))

    async def set(self, watch: Watch) -> None:
        """Store a watch; it replaces one of the same name. Raises InvalidInput."""
        watch.check()
        await self.database.write(lambda conn: put(conn, watch))

    async def remove(self, name: str) -> bool:
        """Remove a watch and its history; return False if it does not exist. Its claims stay."""
        return await self.database.write(lambda conn: remove(conn, name))

    async def all(self) -> list[tuple[Watch, int | None]]:
        """Return all watches by name, each with the time when it was last asked (Unix seconds)."""
        return await self.database.read(watches)

    async def get(self, name: str) -> tuple[Watch, int | None] | None:
        """Return one watch, or None."""
        found = await self.all()
        return next((pair for pair in found if pair[0].name == name), None)

    async def relays(self, name: str) -> tuple[str, ...] | None:
        """Return the relays that a watch last asked, as spelled; None if unknown."""
        return await self.database.read(lambda conn: relays(conn, name))

    async def history(self, name: str, *, since: int = 0, until: int | None = None) -> list[Point]:
        """Return the series of a watch from `since` to `until` (Unix seconds), oldest first."""
        return await self.database.read(lambda conn: points(conn, name, since, until))


def point_of(at: int, result: CountResult) -> Point | None:
    """Return the point of a result; None if the number is unknown."""
    figure = result.merged.figure
    if figure is None:
        return None
    one = figure.storable
    return Point.sample(
        at,
        one.value,
        one.low,
        one.high,
        exact=one.exact,
        as_said=one.as_said,
        unit=str(result.unit),
        within=result.within,
    )
