"""Store the figure within a web of trust beside each point of a watch's history.

A point has a row here if the figure was known. Functions work over a connection, in the caller's
transaction. The steps and slots are those of `watch_point`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nostr_client.count.figures import Figure, Within
from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_TABLE: Final = """
CREATE TABLE watch_point_within (
    w INTEGER NOT NULL,
    step INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    key TEXT NOT NULL,
    depth INTEGER NOT NULL,
    people INTEGER NOT NULL,
    followed INTEGER NOT NULL,
    lists INTEGER NOT NULL,
    counted_at INTEGER NOT NULL,
    authors INTEGER NOT NULL,
    authors_low INTEGER NOT NULL,
    authors_high INTEGER,
    authors_exact INTEGER NOT NULL,
    PRIMARY KEY (w, step, slot)
) STRICT, WITHOUT ROWID
"""

WITHIN: Final = Schema("nostr_tally.watches.within", partial(run_script, script=_TABLE))

COLUMNS: Final = (
    "key",
    "depth",
    "people",
    "followed",
    "lists",
    "counted_at",
    "authors",
    "authors_low",
    "authors_high",
    "authors_exact",
)

Place = tuple[int, int, int]
"""The watch by its number, the step and the slot of a point."""


def put(conn: sqlite3.Connection, place: Place, found: Within | None) -> None:
    """Store the figure of a point; a point without a known figure gets no row."""
    conn.execute("DELETE FROM watch_point_within WHERE w = ? AND step = ? AND slot = ?", place)
    if found is None or found.figure is None:
        return
    one = found.figure.storable
    row = (found.key, found.depth, found.people, found.followed, found.lists, found.at)
    figure = (one.value, one.low, one.high, one.exact)
    marks = ", ".join("?" * (len(place) + len(COLUMNS)))
    conn.execute(f"INSERT INTO watch_point_within VALUES ({marks})", (*place, *row, *figure))


def put_newest(conn: sqlite3.Connection, name: str, step: int, found: Within) -> None:
    """Store the figure of the newest point of a watch, if it has one of this step."""
    sql = (
        "SELECT w, step, slot FROM watch_point JOIN watch USING (w) WHERE name = ? AND step = ?"
        " ORDER BY slot DESC LIMIT 1"
    )
    place = conn.execute(sql, (name, step)).fetchone()
    if place is not None:
        put(conn, place, found)


def read(row: Sequence[Any]) -> Within | None:
    """Return the figure of a row of COLUMNS; None if the point has no row."""
    key, depth, people, followed, lists, at, value, low, high, exact = row
    if key is None:
        return None
    figure = Figure(value=value, low=low, high=high, exact=bool(exact), lower_bound=high is None)
    return Within(
        key=key, depth=depth, people=people, followed=followed, lists=lists, figure=figure, at=at
    )
