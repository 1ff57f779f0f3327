"""The rebuilt index beside the live one: by buckets first, row by row where they are unequal.

A bucket is the number of its rows and the sum of their crc32; rows of a key are in one bucket on
both sides. Exact counts must be equal always; registers only grow, so those of a target that lost
an author (`dirty`) may be higher than what is rebuilt.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from nostr_client.store.index_update import ALIAS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from nostr_client.store.differences import Found

BUCKETS: Final = 1024
LIVE: Final = "live"
"""The name under which the live index is attached."""

_OF_CLEAN: Final = f"""
SELECT name, value, kind, registers FROM {{s}}.hot b WHERE NOT EXISTS
(SELECT 1 FROM {LIVE}.hot l WHERE l.name = b.name AND l.value = b.value AND l.kind = b.kind
 AND l.dirty)
"""
_OF_DIRTY: Final = f"""
SELECT l.name, l.value, l.kind, l.registers, b.registers FROM {LIVE}.hot l
JOIN {ALIAS}.hot b ON l.name = b.name AND l.value = b.value AND l.kind = b.kind WHERE l.dirty
"""


class Shape(NamedTuple):
    """How a table is read, and how many of its columns are its key."""

    sql: str
    keys: int


SHAPES: Final = {
    "hot": Shape("SELECT name, value, kind, events, authors FROM {s}.hot", 3),
    "hot_author": Shape(
        "SELECT name, value, kind, a, n FROM {s}.hot_author JOIN {s}.hot USING (t)", 4
    ),
    "registers": Shape(_OF_CLEAN, 3),
    "daily": Shape("SELECT * FROM {s}.daily", 2),
    "daily_author": Shape("SELECT * FROM {s}.daily_author", 3),
    "zap": Shape("SELECT * FROM {s}.zap", 2),
}

TOLD: Final = {
    "hot": "{0} of kind {2}: {1}",
    "hot_author": "{3} in {0} of kind {2}: {1}",
    "registers": "{0} of kind {2}: {1}",
    "daily": "{0}, kind {1}",
    "daily_author": "{2} on {0}, kind {1}",
    "zap": "{0}: {1}",
}
"""How the key of a row is told; what tells it from its neighbours comes first."""

_PERSON: Final = {"hot_author": 3, "daily_author": 2}
_DAY: Final = ("daily", "daily_author")
_EPOCH: Final = date(1970, 1, 1).toordinal()

Sums = list[list[int]]


class Key(NamedTuple):
    """The key of a row, which becomes words where it is told."""

    conn: sqlite3.Connection
    table: str
    parts: tuple[Any, ...]

    def __str__(self) -> str:
        parts: list[Any] = [one if printable(one) else repr(one) for one in self.parts]
        if self.table in _PERSON:
            at = _PERSON[self.table]
            sql = "SELECT lower(hex(pubkey)) FROM author WHERE a = ?"
            found = self.conn.execute(sql, (parts[at],)).fetchone()
            parts[at] = found[0] if found else f"nobody ({parts[at]})"
        if self.table in _DAY:
            parts[0] = _day(parts[0])
        return TOLD[self.table].format(*parts)


def printable(part: object) -> bool:
    """Whether a part of a key can be told as it is."""
    return not isinstance(part, str) or (part.isprintable() and part != "")


def _day(number: object) -> str:
    try:
        return str(date.fromordinal(_EPOCH + int(str(number))))
    except (ValueError, OverflowError):
        return f"day {number}"


def compare(conn: sqlite3.Connection, found: Found) -> None:
    """Compare every table of the attached `derived` (rebuilt) with the attached `live`."""
    for table, shape in SHAPES.items():
        _compare_table(conn, table, shape, found)
    for *key, live, rebuilt in conn.execute(_OF_DIRTY):
        if any(a < b for a, b in zip(live, rebuilt, strict=True)):
            told = Key(conn, "registers", tuple(key))
            found.add("registers", told, "a dirty target's registers are below what was rebuilt")


def _compare_table(conn: sqlite3.Connection, table: str, shape: Shape, found: Found) -> None:
    rebuilt = sums(conn.execute(shape.sql.format(s=ALIAS)), shape.keys)
    live = sums(conn.execute(shape.sql.format(s=LIVE)), shape.keys)
    found.compared[table] = sum(rebuilt[0])
    unequal = unequal_buckets(rebuilt, live)
    if not unequal:
        return
    ours = dict(_within(conn.execute(shape.sql.format(s=ALIAS)), shape.keys, unequal))
    theirs = dict(_within(conn.execute(shape.sql.format(s=LIVE)), shape.keys, unequal))
    for key in sorted(ours.keys() | theirs.keys(), key=repr):
        if ours.get(key) != theirs.get(key):
            found.add(table, Key(conn, table, key), _cause(theirs.get(key), ours.get(key)))


def _cause(live: tuple[Any, ...] | None, rebuilt: tuple[Any, ...] | None) -> str:
    if live is None:
        return "the live index misses it"
    if rebuilt is None:
        return "the events do not give it"
    if isinstance(live[0], bytes):
        return "the registers of a clean target are not those of its authors"
    return f"live {', '.join(map(str, live))}; rebuilt {', '.join(map(str, rebuilt))}"


def bucket_of(key: object) -> int:
    """The bucket of a key."""
    return crc32(repr(key).encode()) % BUCKETS


def sums(rows: Iterable[tuple[Any, ...]], keys: int) -> Sums:
    """Number of rows and sum of their crc32, by bucket."""
    numbers, totals = [0] * BUCKETS, [0] * BUCKETS
    for row in rows:
        at = bucket_of(row[:keys])
        numbers[at] += 1
        totals[at] += crc32(repr(row).encode())
    return [numbers, totals]


def unequal_buckets(one: Sums, other: Sums) -> set[int]:
    """Where two sides differ."""
    return {at for at in range(BUCKETS) if one[0][at] != other[0][at] or one[1][at] != other[1][at]}


def _within(
    rows: Iterable[tuple[Any, ...]], keys: int, buckets: set[int]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    for row in rows:
        if bucket_of(row[:keys]) in buckets:
            yield row[:keys], row[keys:]
