"""Writes an index file from tables: written aside, checked, then renamed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agent.reindex.inputs import open_store
from agent.reindex.parquet import chunks
from agent.reindex.tempdir import flush
from nostr_client.errors import StoreCorrupt, StoreError
from nostr_client.paths import replaced_file
from nostr_client.store.file.connect import file_uri, make_private
from nostr_client.store.file.faults import store_error
from nostr_client.store.file.migrate import APPLICATION_ID
from nostr_client.store.index import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from agent.reindex.parquet import Tables
    from nostr_client.store.index.schema import IndexedState

    Numbers = Mapping[bytes, int]
    Rows = Iterator[tuple[Any, ...]]
    Numbered = Callable[[Rows, Numbers], Rows]
    RowsOf = Callable[[str, Numbers], Rows]
    """The rows of a table of an index: the columns of `tables.COLUMNS`, with people by number."""

_INSERTS: Final = {
    "hot_author": "INSERT INTO hot_author VALUES (?, ?, ?)",
    "hot": "INSERT INTO hot VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
    "daily": "INSERT INTO daily VALUES (?, ?, ?, ?)",
    "daily_author": "INSERT INTO daily_author VALUES (?, ?, ?, ?)",
    "zap": "INSERT INTO zap VALUES (?, ?, ?, ?)",
}

_NUMBERED: Final[Mapping[str, Numbered]] = {
    "hot_author": lambda rows, numbers: ((t, numbers[who], n) for t, who, n in rows),
    "daily_author": lambda rows, numbers: (
        (day, kind, numbers[who], n) for day, kind, who, n in rows
    ),
}
"""Tables with a pubkey, which becomes its number in the store."""


class PublishedIndex(NamedTuple):
    """An index file, and the rows of each of its tables."""

    path: Path
    rows: dict[str, int]


def of_keys(tables: Tables) -> RowsOf:
    """The rows of tables whose people are keys."""

    def rows(table: str, numbers: Numbers) -> Rows:
        numbered = _NUMBERED.get(table)
        return tables.rows(table) if numbered is None else numbered(tables.rows(table), numbers)

    return rows


def publish(
    rows_of: RowsOf,
    target: Path,
    mark: IndexedState,
    numbers: Numbers,
    progress: Callable[[int], None],
    about: Mapping[str, int] = MappingProxyType({}),
    ready: Callable[[], None] = lambda: None,
) -> PublishedIndex:
    """Write the tables as an index of the store at `mark`; `progress` gets a table's rows so far.

    `about` has the file's other facts, beside its version and mark. `ready` returns when the file
    may get its name. Either of the two may raise, which ends this.

    The file is written under another name, synced and checked, then renamed; whatever ends this
    leaves no half of it. `numbers`: the store's number of each pubkey. Raises StoreError and its
    kinds.
    """
    try:
        with replaced_file(target) as part:
            rows = _write(rows_of, part, mark, numbers, progress, about)
            _check(part)
            flush(part)
            ready()
        flush(target.parent)
    except sqlite3.Error as error:
        raise store_error(error) from error
    return PublishedIndex(target, rows)


def store_numbers(store: Path) -> dict[bytes, int]:
    """The number of every pubkey of a store, about 150 bytes each. Raises StoreError."""
    try:
        with closing(open_store(store)) as conn:
            return dict(conn.execute("SELECT pubkey, a FROM author"))
    except sqlite3.Error as error:
        raise store_error(error) from error


class NewNumbers(dict[bytes, int]):
    """Numbers the authors of archives in the order in which they come."""

    def __missing__(self, pubkey: bytes) -> int:
        self[pubkey] = len(self) + 1
        return len(self)


def _write(
    rows_of: RowsOf,
    part: Path,
    mark: IndexedState,
    numbers: Numbers,
    progress: Callable[[int], None],
    about: Mapping[str, int],
) -> dict[str, int]:
    done: dict[str, int] = {}
    make_private(part)
    with closing(sqlite3.connect(file_uri(part, "rwc"), uri=True, isolation_level=None)) as conn:
        conn.execute("PRAGMA synchronous = OFF")  # it is synced as a whole before its name is
        conn.execute("PRAGMA journal_mode = OFF")
        conn.execute("PRAGMA cache_size = -65536")
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("BEGIN")
        schema.create(conn, 0)
        for table, sql in _INSERTS.items():
            done[table] = 0
            for rows in _sorted(_known(rows_of(table, numbers))):
                conn.executemany(sql, rows)
                done[table] += len(rows)
                progress(done[table])
        if isinstance(numbers, NewNumbers):
            conn.execute("CREATE TABLE author (a INTEGER PRIMARY KEY, pubkey BLOB UNIQUE) STRICT")
            conn.executemany(
                "INSERT INTO author VALUES (?, ?)", ((a, k) for k, a in numbers.items())
            )
        schema.set_mark(conn, mark)
        for key, value in about.items():
            schema.set_about(conn, key, value)
        conn.execute("COMMIT")
    return done


def _known(rows: Rows) -> Rows:
    try:
        yield from rows
    except KeyError as error:
        raise StoreCorrupt("an author of the rebuilt tables is not in the store") from error


def _sorted(rows: Rows) -> Iterator[list[tuple[Any, ...]]]:
    """Rows in sorted lists: a tree that grows at its end is written once."""
    for chunk in chunks(rows):
        chunk.sort()
        yield chunk


def _check(part: Path) -> None:
    with closing(sqlite3.connect(file_uri(part, "ro"), uri=True)) as conn:
        found = [text for (text,) in conn.execute("PRAGMA quick_check(5)")]
    if found != ["ok"]:
        raise StoreError(f"the rebuilt index is damaged: {'; '.join(found)}")
