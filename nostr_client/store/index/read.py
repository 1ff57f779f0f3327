"""Read `index.db` as a whole: its totals, its hottest targets, and whether a file is an index."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from nostr_client import hll
from nostr_client.errors import StoreError
from nostr_client.store.base import HotTarget, IndexStats
from nostr_client.store.file.connect import make_private
from nostr_client.store.index.schema import VERSION, about
from nostr_client.store.index.update import ALIAS, least

if TYPE_CHECKING:
    from pathlib import Path


def file_of(store: Path | None, generation: int) -> Path | None:
    """Return the file of a generation, or None for a store in memory."""
    return None if store is None else store.with_name(f"{store.stem}.index-{generation}.db")


def put(built: Path, place: Path) -> None:
    """Copy a rebuilt file to the path of a generation. Raises StoreError."""
    delete(place)  # SQLite would apply the log of an interrupted exchange to the new file
    try:
        make_private(place)
        shutil.copyfile(built, place)
    except OSError as error:
        delete(place)
        raise StoreError(f"the index cannot be taken over: {error}") from error


def delete(place: Path) -> None:
    """Remove a generation's file and its log."""
    for suffix in ("", "-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


def delete_others(store: Path, generation: int) -> None:
    """Remove the files of all other generations, which interrupted exchanges left.

    Only the writer of the store may call it.
    """
    wanted = re.compile(re.escape(store.stem) + r"\.index-([0-9]+)\.db")
    for place in list(store.parent.iterdir()):
        found = wanted.fullmatch(place.name)
        if found and int(found[1]) != generation:
            delete(place)


def stats(conn: sqlite3.Connection) -> IndexStats:
    """Return the totals of the attached index."""
    hot, dirty = conn.execute(f"SELECT count(*), total(dirty) FROM {ALIAS}.hot").fetchone()
    (pages,) = conn.execute(f"PRAGMA {ALIAS}.page_count").fetchone()
    (size,) = conn.execute(f"PRAGMA {ALIAS}.page_size").fetchone()
    generation = about(conn, schema=ALIAS).get("generation", 0)
    return IndexStats(generation=generation, hot=hot, dirty=int(dirty), bytes=pages * size)


def hottest(
    conn: sqlite3.Connection, most: int, *, name: str | None = None, kind: int | None = None
) -> list[HotTarget]:
    """Return the targets with the most events, of one tag name and kind or of all."""
    sql = (
        f"SELECT name, value, kind, events, authors, registers, dirty FROM {ALIAS}.hot"
        " WHERE (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR kind = ?2)"
        " ORDER BY events DESC, name, value, kind LIMIT ?3"
    )
    return [
        HotTarget(
            name=name,
            value=value,
            kind=kind,
            events=events,
            authors=authors,
            estimate=round(hll.estimate(registers), 1),
            dirty=bool(dirty),
        )
        for name, value, kind, events, authors, registers, dirty in conn.execute(
            sql, (name, kind, most)
        )
    ]


def check_built(path: Path) -> None:
    """Raise StoreError if a file is not a complete index of this version."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as conn:
            found = about(conn)
            own = conn.execute("SELECT 1 FROM sqlite_schema WHERE name = 'author'").fetchone()
            checked = conn.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise StoreError(f"{path} is no index: {error}") from error
    if found.get("version") != VERSION or not {"next_seq", "removals"} <= found.keys():
        raise StoreError(f"{path} is no index of version {VERSION}")
    if own is not None:
        raise StoreError(f"{path} is of archives: its people have other numbers than a store's")
    if found.get("hot", least()) != least():
        raise StoreError(f"{path} keeps targets from {found['hot']} events on, not from {least()}")
    if checked != ("ok",):
        raise StoreError(f"{path} is damaged: {checked[0]}")
