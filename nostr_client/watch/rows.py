"""Watches and their points as rows: functions over a connection, in the caller's transaction."""

from __future__ import annotations

import hashlib
import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.count.remembering import asked_of
from nostr_client.errors import InvalidInput
from nostr_client.merge import Unit
from nostr_client.watch.definition import Watch, check_name
from nostr_client.watch.history import HOUR, LEVELS, Level, Point, fold, settled_before, together

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from nostr_client.count.queries import Query

_FIELDS: Final = ("at", "value", "low", "high", "exact", "unit", "least", "most", "samples")
ASKED: Final = "instr(name, '/') = 0"
"""Rows of watches, not of questions that they asked before."""

_POINTS: Final = f"SELECT {', '.join(_FIELDS)} FROM watch_point"


def add(conn: sqlite3.Connection, watch: Watch) -> None:
    """Keep a new watch. Raises InvalidInput where its name is taken, or none for an agent."""
    check_name(watch.name)
    if _number(conn, watch.name) is not None:
        raise InvalidInput(f"there is a watch named {watch.name!r} already")
    definition = msgspec.json.encode(watch.to_dict()).decode()
    sql = "INSERT INTO watch (name, definition) VALUES (?, ?)"
    conn.execute(sql, (watch.name, definition))


def put(conn: sqlite3.Connection, watch: Watch) -> bool:
    """Keep a watch, in the place of one of the same name.

    Where its question is another one, its history begins anew. What the former one gave is set
    aside, and is there again when that question is. Gives whether it is another one.
    """
    key = question_key(watch.query)
    before = _asked_now(conn, watch.name)
    if before != key:
        rename = "UPDATE watch SET name = ? WHERE name = ?"
        conn.execute(rename, (_aside(watch.name, before), watch.name))
        conn.execute(rename, (watch.name, _aside(watch.name, key)))
    definition = msgspec.json.encode(watch.to_dict()).decode()
    sql = "INSERT INTO watch (name, definition) VALUES (?, ?) ON CONFLICT DO UPDATE SET definition"
    conn.execute(f"{sql} = excluded.definition", (watch.name, definition))
    return bool(before) and before != key


def _asked_now(conn: sqlite3.Connection, name: str) -> str:
    """The key of the question that a watch asks; "" where there is none, or it cannot be read."""
    row = conn.execute("SELECT definition FROM watch WHERE name = ?", (name,)).fetchone()
    try:
        return "" if row is None else question_key(_watch(row[0]).query)
    except InvalidInput:
        return ""


def question_key(query: Query) -> str:
    """The key of a question's history: two questions may share claims, and differ in the unit."""
    key = asked_of(query).key
    of_events = query.offset is not None and query.unit is Unit.EVENTS
    return f"{key} {Unit.EVENTS}" if of_events else key


def _aside(name: str, key: str) -> str:
    """Where the history of a question is kept that a watch asks no more: no name has a slash."""
    return f"{name}/{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def watches(conn: sqlite3.Connection) -> list[tuple[Watch, int | None]]:
    """All watches by name, each with the time when it was last asked."""
    rows = conn.execute(f"SELECT definition, asked_at FROM watch WHERE {ASKED} ORDER BY name")
    return [(_watch(text), asked) for text, asked in rows]


@lru_cache(8192)  # read at every round
def _watch(definition: str) -> Watch:
    return Watch.from_dict(msgspec.json.decode(definition))


def relays(conn: sqlite3.Connection, name: str) -> tuple[str, ...] | None:
    """The relays that a watch was asked on last, as they were spelled; None where none are noted.

    Those are watches that were never asked, and those that only an older version asked.
    """
    row = conn.execute("SELECT relays FROM watch WHERE name = ?", (name,)).fetchone()
    return None if row is None or row[0] is None else tuple(msgspec.json.decode(row[0]))


def remove(conn: sqlite3.Connection, name: str) -> bool:
    """Remove a watch and its history, that of former questions too; False if it is not there."""
    if _number(conn, name) is None:
        return False
    sql = "SELECT w FROM watch WHERE name = ?1 OR substr(name, 1, length(?1) + 1) = ?1 || '/'"
    for w in conn.execute(sql, (name,)).fetchall():
        conn.execute("DELETE FROM watch_point WHERE w = ?", w)
        conn.execute("DELETE FROM watch WHERE w = ?", w)
    return True


def asked(
    conn: sqlite3.Connection,
    name: str,
    at: int,
    point: Point | None,
    *,
    apart: int = 1,
    most: int = 1,
    query: Query | None = None,
    relays: Sequence[str] | None = None,
) -> None:
    """Note that a watch was asked, and the number it gave, if it gave one; folds what got old.

    In the same `apart` seconds a number that did not change is one point, and `most` points are
    kept; what comes after these is one with the last of them. `query`: what was asked; nothing is
    noted when the watch asks something else by now. `relays`: whom it was asked.
    """
    if query is not None and _asked_now(conn, name) != question_key(query):
        return
    row = conn.execute("SELECT w, asked_at FROM watch WHERE name = ?", (name,)).fetchone()
    if row is None:
        return  # removed while it was asked
    w, last = row
    whom = None if relays is None else msgspec.json.encode(relays).decode()
    sql = "UPDATE watch SET asked_at = ?, relays = coalesce(?, relays) WHERE w = ?"
    conn.execute(sql, (at, whom, w))
    if point is not None:
        put_points(conn, w, [_with_newest(conn, w, point, apart, most)])
    if last is None or last // HOUR != at // HOUR:  # points come of age at full hours alone
        thin(conn, w, at)


def _with_newest(conn: sqlite3.Connection, w: int, point: Point, apart: int, most: int) -> Point:
    """A point, together with the newest of its `apart` seconds where it is to take that place."""
    if apart <= 1:
        return point
    start = point.at // apart * apart
    key = (w, LEVELS[0].step, start, start + apart - 1)
    where = "WHERE w = ? AND step = ? AND slot BETWEEN ? AND ?"
    earlier = _points(conn.execute(f"{_POINTS} {where} ORDER BY slot", key))
    if not earlier or (len(earlier) < most and _number_of(earlier[-1]) != _number_of(point)):
        return point
    newest = earlier[-1].at
    last = "WHERE w = ? AND step = ? AND slot = ?"
    conn.execute(f"DELETE FROM watch_point {last}", (*key[:2], newest))
    return together([earlier[-1], point])


def _number_of(point: Point) -> tuple[object, ...]:
    return point.value, point.low, point.high, point.exact, point.unit


def put_points(conn: sqlite3.Connection, w: int, kept: Iterable[Point]) -> None:
    """Keep points as they were measured, of a watch by its number."""
    _put(conn, w, LEVELS[0], kept)


def thin(conn: sqlite3.Connection, w: int, now: int) -> None:
    """Fold points that got old into the coarser levels."""
    for level, coarser in itertools.pairwise(LEVELS):
        border = settled_before(level, now, coarser)
        if border is None:
            continue
        where = "WHERE w = ? AND step = ? AND slot < ?"
        key = (w, level.step, border // level.step)
        old = _points(conn.execute(f"{_POINTS} {where}", key))
        if old:
            _fold_into(conn, w, coarser, old)
            conn.execute(f"DELETE FROM watch_point {where}", key)


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
    """The series of a watch, oldest first, the newest `most`; of all levels, none twice."""
    sql = f"{_POINTS} JOIN watch USING (w) WHERE name = ? AND at BETWEEN ? AND ?"
    last = 2**62 if until is None else until
    key = (name, since, last, -1 if most is None else most)
    return _points(conn.execute(f"{sql} ORDER BY at DESC LIMIT ?", key))[::-1]


def newest(conn: sqlite3.Connection, name: str, after: int, until: int) -> Point | None:
    """The newest point of a watch later than `after` and not later than `until`."""
    found: list[Point] = []
    for level in LEVELS:
        sql = f"{_POINTS} JOIN watch USING (w) WHERE name = ? AND step = ? AND slot BETWEEN ? AND ?"
        key = (name, level.step, after // level.step, until // level.step, after, until)
        where = "AND at > ? AND at <= ? ORDER BY slot DESC LIMIT 1"
        found += _points(conn.execute(f"{sql} {where}", key))
    return max(found, key=lambda point: point.at, default=None)


def _put(conn: sqlite3.Connection, w: int, level: Level, kept: Iterable[Point]) -> None:
    conn.executemany(
        f"INSERT OR REPLACE INTO watch_point VALUES (?, ?, ?{', ?' * len(_FIELDS)})",
        [
            (w, level.step, point.at // level.step, *(getattr(point, name) for name in _FIELDS))
            for point in kept
        ],
    )


def _points(rows: Iterable[tuple[Any, ...]]) -> list[Point]:
    found = [dict(zip(_FIELDS, row, strict=True)) for row in rows]
    return [Point(**{**fields, "exact": bool(fields["exact"])}) for fields in found]


def _number(conn: sqlite3.Connection, name: str) -> int | None:
    row = conn.execute("SELECT w FROM watch WHERE name = ?", (name,)).fetchone()
    return None if row is None else int(row[0])
