"""Copy a store into a plain SQLite file that any tool opens.

The views become tables with indexes and full-text search. The tables have the columns and the
meaning of `views`. An import reads `events` back into a store, event by event. `metadata` returns
descriptions and some queries for Datasette.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from nostr_client.errors import InvalidInput, StoreError, StoreFull
from nostr_client.paths import check_free, new_file
from nostr_client.store.file.connect import create_private, file_uri
from nostr_client.store.file.faults import store_error
from nostr_client.store.file.migrate import APPLICATION_ID, check_current
from nostr_client.store.query.search import ENCRYPTED
from nostr_client.store.schema import STORE
from nostr_client.store.sql.functions import add_functions
from nostr_client.store.sql.thread import SqlThread
from nostr_client.store.sql.views import (
    CLAIMS,
    COUNTERS,
    EVENTS,
    VIEWS,
    WATCH_HISTORY,
    WATCH_WITHIN,
    View,
    all_events,
    private_condition,
    visible_tags,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    Progress = Callable[[int, int], None]

OWN: Final = (CLAIMS, WATCH_HISTORY, WATCH_WITHIN, COUNTERS)
"""Views of the user's own questions and counts.

No relay sent these rows, so a copy has them only on request.
"""

SEARCH: Final = "events_fts"
_SEARCHED: Final = f"kind NOT IN ({', '.join(map(str, sorted(ENCRYPTED)))})"

_EVENT_COLUMNS: Final = "id, pubkey, created_ts, kind, tags, content, sig"
_SEARCH_BYTES: Final = 64 * 2**20
"""Bytes of words that FTS5 collects before it writes a segment.

More bytes give fewer segments to merge.
"""

_SETTINGS: Final = (
    "page_size = 16384",  # most rows have a few hundred bytes, some a hundred kilobytes
    "journal_mode = OFF",  # an unfinished copy is removed
    "synchronous = OFF",
    "analysis_limit = 1000",
)
"""Settings of the new file only."""

_LARGE_CACHE: Final = -200_000
"""KiB of pages in memory while rows arrive in no order of their key. The whole index fits."""

_SORTER_CACHE: Final = -8_000
"""KiB of pages in memory while rows are sorted.

SQLite sorts pieces of this size and merges them. Pieces that fit into the processor's cache take
half the time.
"""

_STORE_CACHE: Final = -64_000
"""KiB of the store's pages in memory. The default for an attached database is 2 MB."""

_ROWS: Final = 500
"""Rows that are fetched at once. A follow list takes about a hundred kilobytes."""


class CopySelection(NamedTuple):
    """Which events a copy has.

    - `ids`: the ids (32 bytes) to copy. None copies all public events, or all events if `private`
      is set.
    - `private`: also copy the views of OWN.
    """

    ids: Iterable[bytes] | None = None
    private: bool = False


def export_sqlite(
    store: Path, target: Path, chosen: CopySelection, now: int, progress: Progress | None = None
) -> tuple[int, int]:
    """Copy a store into a new file, which appears only when it is complete. Blocks.

    Returns the number of events in the copy, and the number of private events that a copy of all
    public ones leaves out. `progress` receives the number of finished tables and of all tables.
    Ctrl-C interrupts the copy and is raised again. Raises StoreError. Raises InvalidInput if the
    target exists.
    """
    with new_file(target) as part:
        thread = SqlThread()

        def work() -> tuple[int, int]:
            try:
                return _filled(part, store, chosen, now, progress, thread)
            except sqlite3.Error as error:
                raise _copy_error(target, error) from error

        return thread.run(work)


def _copy_error(target: Path, error: sqlite3.Error) -> StoreError:
    """Return the error with the file that has no room: the copy, as the store is only read."""
    found = store_error(error)
    if isinstance(found, StoreFull):
        return StoreFull(f"cannot write {target}: no room left, or a limit of its disk ({error})")
    return found


def _filled(
    part: Path,
    store: Path,
    chosen: CopySelection,
    now: int,
    progress: Progress | None,
    thread: SqlThread,
) -> tuple[int, int]:
    """Make the file and fill it; return as `export_sqlite`."""
    create_private(part)
    with closing(
        sqlite3.connect(
            file_uri(part, "rw"), isolation_level=None, uri=True, check_same_thread=False
        )
    ) as conn:  # Ctrl-C interrupts it from the main thread
        thread.connected(conn)
        for setting in _SETTINGS:
            conn.execute(f"PRAGMA {setting}")
        return _copied(conn, store, chosen, now, progress)


def _copied(
    conn: sqlite3.Connection,
    store: Path,
    chosen: CopySelection,
    now: int,
    progress: Progress | None,
) -> tuple[int, int]:
    """Copy the store into the connection's file; return as `export_sqlite`."""
    conn.execute("ATTACH ? AS store", (file_uri(store, "ro"),))
    conn.execute(f"PRAGMA store.cache_size = {_STORE_CACHE}")
    with closing(sqlite3.connect(file_uri(store, "ro"), uri=True)) as check:
        check_current(check, [STORE])
    conn.execute("BEGIN")
    left_out = _create_visible(conn, chosen, now)
    views = [view for view in VIEWS if chosen.private or view not in OWN]
    for done, view in enumerate(views):
        _create_table(conn, view)
        if progress is not None:
            progress(done + 1, len(views) + 1)
    _create_search(conn)
    (number,) = conn.execute("SELECT count(*) FROM main.events").fetchone()
    conn.execute("COMMIT")
    conn.execute("ANALYZE main")
    if progress is not None:
        progress(len(views) + 1, len(views) + 1)
    return int(number), left_out


def _create_visible(conn: sqlite3.Connection, chosen: CopySelection, now: int) -> int:
    """Create temporary views of the events to copy and of their tags.

    Return how many private events they leave out.
    """
    add_functions(conn)
    conn.execute("CREATE TEMP TABLE hidden (seq INTEGER PRIMARY KEY)")
    left_out = 0
    if chosen.ids is None and not chosen.private:
        left_out = _hide(
            conn, f"{private_condition(frozenset())} AND (e.exp IS NULL OR e.exp > {now:d})"
        )
    _hide(conn, f"e.exp <= {now:d}")
    select = f"{all_events('store')} WHERE e.seq NOT IN (SELECT seq FROM temp.hidden)"
    if chosen.ids is not None:
        conn.execute("CREATE TEMP TABLE chosen (id BLOB PRIMARY KEY) WITHOUT ROWID")
        rows = ((one,) for one in chosen.ids)
        conn.executemany("INSERT OR IGNORE INTO chosen VALUES (?)", rows)
        select += " AND e.id IN (SELECT id FROM temp.chosen)"
    conn.execute(f"CREATE TEMP VIEW visible AS {select}")
    conn.execute(f"CREATE TEMP VIEW visible_tags AS {visible_tags('temp.visible')}")
    return left_out


def _hide(conn: sqlite3.Connection, condition: str) -> int:
    """Note the events that a copy leaves out. Return their number.

    This examines each event once. A later view that needs only columns of one index then reads no
    event rows.
    """
    events = f"SELECT e.seq FROM store.event e WHERE {condition}"
    return conn.execute(f"INSERT INTO temp.hidden {events}").rowcount


def _create_table(conn: sqlite3.Connection, view: View) -> None:
    """Write a view's rows as a table with its key and its indexes.

    An index of several columns is created afterwards, over sorted rows. This takes a third of the
    time.
    """
    columns = ", ".join(f"{column.name} {column.type}" for column in view.columns)
    single = len(view.key) == 1
    key = f", PRIMARY KEY ({view.key[0]})" if single else ""
    conn.execute(f"CREATE TABLE main.{view.name} ({columns}{key})")
    tables = {name for (name,) in conn.execute("SELECT name FROM store.sqlite_schema")}
    conn.execute(f"PRAGMA main.cache_size = {_LARGE_CACHE if single else _SORTER_CACHE}")
    if tables.issuperset(view.needs):
        select = view.select("store", "temp.visible", "temp.visible_tags")
        conn.execute(f"INSERT INTO main.{view.name} {select}")
    conn.execute(f"PRAGMA main.cache_size = {_SORTER_CACHE}")
    if not single:
        conn.execute(
            f"CREATE UNIQUE INDEX main.{view.name}_key ON {view.name} ({', '.join(view.key)})"
        )
    for number, indexed in enumerate(view.indexes):
        name = f"{view.name}_{number}"
        conn.execute(f"CREATE INDEX main.{name} ON {view.name} ({', '.join(indexed)})")


def _create_search(conn: sqlite3.Connection) -> None:
    """Index the full text of all contents that are not encrypted.

    Datasette recognises the index by the text of this statement, including its double quotes.
    """
    conn.execute(
        f'CREATE VIRTUAL TABLE main.{SEARCH} USING FTS5 (content, content="events",'
        ' content_rowid="rowid")'
    )
    for setting, value in (("hashsize", _SEARCH_BYTES), ("automerge", 0)):
        conn.execute(f"INSERT INTO main.{SEARCH} ({SEARCH}, rank) VALUES (?, ?)", (setting, value))
    conn.execute(
        f"INSERT INTO main.{SEARCH} (rowid, content)"
        f" SELECT rowid, content FROM main.events WHERE {_SEARCHED}"
    )


def read_back(path: Path) -> Iterator[bytes]:
    """Yield the events of a copy as JSON lines, oldest first.

    Raises InvalidInput for any other file.
    """
    columns = _EVENT_COLUMNS.split(", ")
    with _opened_copy(path) as conn:
        rows = conn.execute(f"SELECT {_EVENT_COLUMNS} FROM events ORDER BY created_ts, id")
        while found := rows.fetchmany(_ROWS):
            yield from (_line(dict(zip(columns, row, strict=True))) for row in found)


def count_back(path: Path) -> int:
    """Return how many events `read_back` yields. Raises as `read_back`."""
    with _opened_copy(path) as conn:
        return int(conn.execute("SELECT count(*) FROM events").fetchone()[0])


@contextmanager
def _opened_copy(path: Path) -> Iterator[sqlite3.Connection]:
    # An import reads in several threads, one at a time.
    uri = file_uri(path, "ro")
    with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as conn:
        try:
            yield conn
        except sqlite3.Error as error:
            if _is_store(conn):
                raise InvalidInput(f"{path} is a store: export it first") from error
            what = f"{path} is no copy that `store export --format sqlite` made, or is damaged"
            raise InvalidInput(f"{what}: {error}") from error


def _is_store(conn: sqlite3.Connection) -> bool:
    try:
        return bool(conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)
    except sqlite3.Error:
        return False


def _line(row: dict[str, Any]) -> bytes:
    """Return a row as a line of JSON.

    The parser of lines refuses a row that is not an event.
    """
    tags = row["tags"]
    fields = row | {"tags": msgspec.Raw(tags.encode() if isinstance(tags, str) else b"null")}
    fields["created_at"] = fields.pop("created_ts")
    try:
        return msgspec.json.encode(fields) + b"\n"
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return b"null\n"


_QUOTED_WORDS: Final = """'"' || replace(replace(:words, '"', ''), ' ', '" "') || '"'"""
"""Each word as a string of FTS5, whose syntax would refuse `C++`, `it's` or `nostr:`."""


@contextmanager
def new_description(target: Path, *, own: bool) -> Iterator[None]:
    """Write `<stem>.metadata.json` beside a copy when the block, which makes the copy, has ended.

    A file that has the same text already stays: copies of one stem share it. Raises InvalidInput,
    before the block, if any other file has the name.
    """
    place = target.with_name(f"{target.stem}.metadata.json")
    described = metadata(target.stem, own=own)
    text = f"{json.dumps(described, indent=2, ensure_ascii=False)}\n".encode()
    check_free(target)
    if place.is_file() and place.read_bytes() == text:
        yield
        return
    with new_file(place) as part:
        create_private(part)
        yield
        part.write_bytes(text)


QUERIES: Final = {
    "most_followed": (
        "Who is followed most",
        "SELECT f.followed, a.name, count(*) AS followers FROM followers f"
        " LEFT JOIN authors a ON a.pubkey = f.followed"
        " GROUP BY f.followed ORDER BY followers DESC LIMIT 100",
    ),
    "most_reacted": (
        "What was reacted to most",
        "SELECT r.target, e.content, count(*) AS reactions FROM reactions r"
        " LEFT JOIN events e ON e.id = r.target"
        " GROUP BY r.target ORDER BY reactions DESC LIMIT 100",
    ),
    "zapped": (
        "Who was paid, as receipts claim",
        "SELECT z.receiver, a.name, sum(z.msats) / 1000.0 AS sats, count(*) AS receipts FROM zaps z"
        " LEFT JOIN authors a ON a.pubkey = z.receiver"
        " GROUP BY z.receiver ORDER BY sats DESC LIMIT 100",
    ),
    "kinds_by_month": (
        "Events of each kind by month",
        "SELECT substr(created_at, 1, 7) AS month, kind, count(*) AS events FROM events"
        " GROUP BY month, kind ORDER BY month DESC, events DESC",
    ),
    "search": (
        "Contents that have all of these words",
        "SELECT e.created_at, e.pubkey, e.content FROM events_fts"
        " JOIN events e ON e.rowid = events_fts.rowid"
        f" WHERE events_fts MATCH {_QUOTED_WORDS} ORDER BY e.created_ts DESC LIMIT 100",
    ),
}
"""Queries that Datasette offers: the title and the SQL of each."""


def metadata(database: str, *, own: bool) -> dict[str, Any]:
    """Return the metadata (`datasette -m`) of a copy whose file is named `<database>.<ending>`."""
    tables = {
        view.name: {
            "description": view.about,
            "columns": {column.name: column.about for column in view.columns},
        }
        for view in VIEWS
        if own or view not in OWN
    }
    tables[EVENTS.name]["sort_desc"] = "created_ts"
    queries = {name: {"title": title, "sql": sql} for name, (title, sql) in QUERIES.items()}
    about = "Events of Nostr relays, as `nostr-client store export --format sqlite` wrote them."
    return {
        "title": "nostr-tally",
        "description": about,
        "databases": {database: {"tables": tables, "queries": queries}},
    }
