"""Tables of an index file, people by their keys and targets by their names: what can be equal."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agent.reindex.parquet import Tables

QUERIES = {
    "hot": "SELECT name, value, kind, events, authors, registers FROM hot",
    "hot_author": "SELECT name, value, kind, a, n FROM hot_author JOIN hot USING (t)",
    "daily": "SELECT * FROM daily",
    "daily_author": "SELECT day, kind, a, n FROM daily_author",
    "zap": "SELECT * FROM zap",
}
PLACES = {"hot_author": 3, "daily_author": 2}

Shown = dict[str, list[tuple[Any, ...]]]


def of_file(path: Path, people: Mapping[int, bytes] | None = None) -> Shown:
    """The tables of a file; `people` are the numbers of its store, else the file's own."""
    with closing(sqlite3.connect(path)) as conn:
        if people is None:
            people = dict(conn.execute("SELECT a, pubkey FROM author"))
        found = {name: conn.execute(sql).fetchall() for name, sql in QUERIES.items()}
    for name, at in PLACES.items():
        found[name] = [(*row[:at], people[row[at]], *row[at + 1 :]) for row in found[name]]
    return {name: sorted(rows) for name, rows in found.items()}


def of_tables(tables: Tables) -> Shown:
    """The tables of an engine, in the same form."""
    names = {row[0]: row[1:4] for row in tables.rows("hot")}
    return {
        "hot": sorted(row[1:] for row in tables.rows("hot")),
        "hot_author": sorted((*names[row[0]], *row[1:]) for row in tables.rows("hot_author")),
        **{name: sorted(tables.rows(name)) for name in ("daily", "daily_author", "zap")},
    }


def people_of(store: Path) -> dict[int, bytes]:
    with closing(sqlite3.connect(store)) as conn:
        return dict(conn.execute("SELECT a, pubkey FROM author"))
