"""The numbers of a watch over time: what one was, and when.

Numbers enter as points, one for each round, and leave as the points of a period, as the newest one
before a time, or as the number at a time. With age, points fold into hours, then days (`history`).
Functions work over a connection, in the caller's transaction. Times are Unix seconds.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from nostr_client.watch import within_rows
from nostr_client.watch.history import LEVELS, Level, Point, fold, settled_before, together

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from nostr_client.count.figures import Figure, Within
    from nostr_client.count.result import CountResult

TABLE: Final = """
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

APART_S: Final = 60
MOST_APART: Final = 6
"""Numbers of one minute that are stored if it moves: a flood causes a merge every second."""

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

_POINTS: Final = (
    f"SELECT {', '.join((*_FIELDS, *within_rows.COLUMNS))}"
    " FROM watch_point LEFT JOIN watch_point_within USING (w, step, slot)"
)


def point_of(at: int, result: CountResult) -> Point | None:
    """Return the point of a result; None if the number is unknown."""
    figure = result.merged.figure
    if figure is None:
        return None
    return point_at(at, figure, str(result.unit), within=result.within)


def point_at(at: int, figure: Figure, unit: str, *, within: Within | None = None) -> Point:
    """Return the point of a number at a time."""
    one = figure.storable
    return Point.sample(
        at,
        one.value,
        one.low,
        one.high,
        exact=one.exact,
        as_said=one.as_said,
        unit=unit,
        within=within,
    )


def note(conn: sqlite3.Connection, w: int, point: Point) -> None:
    """Store the newest number of a watch, by the number of the watch.

    Within APART_S seconds an unchanged number is one point, and MOST_APART points are stored; later
    ones merge into the last of them.
    """
    newest = _with_newest(conn, w, point)
    _insert(conn, w, LEVELS[0], [newest])
    if newest.within is not None:
        within_rows.put(conn, (w, LEVELS[0].step, newest.at), newest.within)


def _with_newest(conn: sqlite3.Connection, w: int, point: Point) -> Point:
    """Return a point, joined with the newest of its minute if it replaces that one.

    Two numbers of one second are one point.
    """
    start = point.at // APART_S * APART_S
    key = (w, LEVELS[0].step, start, start + APART_S - 1)
    where = "WHERE w = ? AND step = ? AND slot BETWEEN ? AND ?"
    earlier = _points(conn.execute(f"{_POINTS} {where} ORDER BY slot", key))
    if not earlier:
        return point
    newest = earlier[-1]
    moved = newest.at < point.at and _number_of(newest) != _number_of(point)
    if moved and len(earlier) < MOST_APART:
        return point
    _delete(conn, "WHERE w = ? AND step = ? AND slot = ?", (*key[:2], newest.at))
    return together([newest, point])


def _number_of(point: Point) -> tuple[object, ...]:
    return point.value, point.low, point.high, point.exact, point.as_said, point.unit


def put(conn: sqlite3.Connection, w: int, kept: Iterable[Point]) -> None:
    """Store points as they were measured, of a watch by the number of the watch."""
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


def series(
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


def first_at(conn: sqlite3.Connection, name: str) -> int | None:
    """Return the time of the first point of a watch."""
    sql = "SELECT at FROM watch_point JOIN watch USING (w) WHERE name = ? AND step = ?"
    rows = [
        conn.execute(f"{sql} ORDER BY slot LIMIT 1", (name, level.step)).fetchone()
        for level in LEVELS
    ]
    return min((row[0] for row in rows if row is not None), default=None)


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
    """Store points; each replaces the point that its slot had."""
    _insert(conn, w, level, kept)
    for point in kept:
        within_rows.put(conn, (w, level.step, point.at // level.step), point.within)


def _insert(conn: sqlite3.Connection, w: int, level: Level, kept: Sequence[Point]) -> None:
    conn.executemany(
        f"INSERT OR REPLACE INTO watch_point VALUES (?, ?, ?{', ?' * len(_FIELDS)})",
        [
            (w, level.step, point.at // level.step, *(getattr(point, name) for name in _FIELDS))
            for point in kept
        ],
    )


def remove(conn: sqlite3.Connection, w: int) -> None:
    """Delete all points of a watch, by the number of the watch."""
    _delete(conn, "WHERE w = ?", (w,))


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


def thin_next(conn: sqlite3.Connection, now: float, after: str, most: int) -> str | None:
    """Fold old points of the next `most` watches by name; return the last name, None at the end."""
    sql = "SELECT name, w FROM watch WHERE name > ? ORDER BY name LIMIT ?"
    found = conn.execute(sql, (after, most)).fetchall()
    for _, w in found:
        thin(conn, w, int(now))
    return found[-1][0] if len(found) == most else None
