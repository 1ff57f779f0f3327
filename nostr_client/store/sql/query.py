"""Run one SELECT over the views of a store, also while another process writes the store.

The store is attached read-only under a random schema name, and empty views hide its tables. A
statement can therefore reach only the documented views, which apply the rule for private kinds. An
authorizer of SQLite allows only reads, and gives a reason for each refusal. Time, rows and the size
of values are limited.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final

from nostr_client.errors import InvalidInput, StoreError, clip
from nostr_client.store.file.connect import check_file, file_uri
from nostr_client.store.file.faults import opening_error, store_error
from nostr_client.store.file.migrate import check_current
from nostr_client.store.schema import STORE
from nostr_client.store.sql.functions import add_functions
from nostr_client.store.sql.thread import SqlThread, too_long
from nostr_client.store.sql.views import (
    EVENTS,
    IDS,
    JOINED_EVENTS,
    VIEWS,
    View,
    visible_events,
    visible_tags,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

MOST_ROWS: Final = 10_000
"""Most rows of an answer. A screen shows fewer, and an export has all."""

MOST_BYTES: Final = 256 * 2**20
"""Bytes of memory that the rows of an answer take: 10,000 rows of long notes take 100 MB."""

_FEWER: Final = "select fewer rows, fewer columns or parts of texts (substr)"

MOST_SECONDS: Final = 30.0
"""Most seconds of a query.

Queries over a million events take a few seconds. A longer query usually has a mistake in a join.
"""

_VALUE_BYTES: Final = 32 * 2**20
"""Most bytes of one value: more than any event, less than the memory."""

_COLUMNS: Final = 100
"""Most columns of an answer: more than all views have together. One row of long values still fits
in memory."""

_SQL_BYTES: Final = 100_000
_STEPS: Final = 10_000
"""Steps of SQLite's virtual machine between two checks of the time limit, about 0.5 ms."""

_DEFINED: Final = re.compile(
    r"(\w+)[\"'`\]]?\s*(?:\([^()]*\)\s*)?\bAS\s+(?:(?:NOT\s+)?MATERIALIZED\s*)?\(", re.IGNORECASE
)
"""A name that a statement defines (WITH)."""

_EVENTS: Final = re.compile(rf"\b{EVENTS.name}\b", re.IGNORECASE)
_JSON: Final = frozenset({"json_each", "json_tree"})
_WRITES: Final = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in (
        "ALTER_TABLE", "ANALYZE", "CREATE_INDEX", "CREATE_TABLE", "CREATE_TEMP_INDEX",
        "CREATE_TEMP_TABLE", "CREATE_TEMP_TRIGGER", "CREATE_TEMP_VIEW", "CREATE_TRIGGER",
        "CREATE_VIEW", "CREATE_VTABLE", "DELETE", "DROP_INDEX", "DROP_TABLE", "DROP_TEMP_INDEX",
        "DROP_TEMP_TABLE", "DROP_TEMP_TRIGGER", "DROP_TEMP_VIEW", "DROP_TRIGGER", "DROP_VIEW",
        "DROP_VTABLE", "INSERT", "REINDEX", "UPDATE",
    )
)  # fmt: skip
_REFUSALS: Final = {
    sqlite3.SQLITE_ATTACH: "it attaches a file",
    sqlite3.SQLITE_DETACH: "it detaches a file",
    sqlite3.SQLITE_PRAGMA: "it has a PRAGMA",
    sqlite3.SQLITE_TRANSACTION: "it begins or ends a transaction",
    sqlite3.SQLITE_SAVEPOINT: "it begins or ends a transaction",
} | dict.fromkeys(_WRITES, "it writes, and this only reads")


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Answer of a query. `cut` is true if more rows than the limit exist."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlReader:
    """What a query can see, and its limits.

    - `private`: private kinds that are visible. None means all.
    - `now`: returns Unix seconds, which decide which events have expired.
    - `clock`: returns monotonic seconds, for the time limit.
    """

    private: Collection[int] | None = frozenset()
    rows: int = MOST_ROWS
    bytes: int = MOST_BYTES
    seconds: float = MOST_SECONDS
    now: Callable[[], float] = field(default=time.time)
    clock: Callable[[], float] = field(default=time.monotonic)

    def ask(self, path: Path, sql: str) -> SqlResult:
        """Return the answer of one SELECT. Blocks. Ctrl-C ends the statement and is raised again.

        Raises InvalidInput if the statement is refused or wrong. Raises StoreError if it exceeds
        the limit of time or bytes, or if the store cannot be read.
        """
        thread = SqlThread()

        def work() -> SqlResult:
            with viewed(path, int(self.now()), self.private) as viewing:
                thread.connected(viewing.conn)
                return self._ask(viewing, sql)

        return thread.run(work, self.seconds)

    def _ask(self, viewing: ViewConnection, sql: str) -> SqlResult:
        conn, late = viewing.conn, _Deadline(self)
        refused = _Refusals(viewing, _defined(sql))
        viewing.fit(sql)
        conn.set_authorizer(refused.look)
        conn.set_progress_handler(late.passed, _STEPS)
        try:
            cursor = conn.execute(sql)
            if cursor.description is None:
                raise InvalidInput("no SELECT in it: ask for rows of a view")
            rows = self._fetch(cursor)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._error(error, refused, late) from error
        except MemoryError as error:
            raise StoreError(f"the query needs too much memory: {_FEWER}") from error
        names = _distinct(tuple(column[0] for column in cursor.description))
        return SqlResult(names, rows[: self.rows], cut=len(rows) > self.rows)

    def _fetch(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        """Return the rows, and one more if there are more than requested."""
        rows: list[tuple[Any, ...]] = []
        taken = 0
        for row in islice(cursor, self.rows + 1):
            taken += sum(map(getsizeof, row), getsizeof(row))
            if taken > self.bytes:
                limit = f"{self.bytes / 2**20:g} MiB of memory"
                raise StoreError(f"the answer takes more than {limit}: {_FEWER}")
            rows.append(row)
        return rows

    def _error(
        self, error: sqlite3.Error | sqlite3.Warning, refused: _Refusals, late: _Deadline
    ) -> Exception:
        if refused.why:
            return InvalidInput(f"the query is refused: {refused.why}")
        if late.over:
            return too_long(self.seconds)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if isinstance(error, sqlite3.DatabaseError) and code in _STORE_FAULTS:
            return store_error(error)
        if "user-defined function" in str(error):
            return InvalidInput(
                "the query cannot be run: a function got a value that it cannot read, such as a"
                " text that is not UTF-8"
            )
        return InvalidInput(f"the query cannot be run: {clip(str(error))}")


_STORE_FAULTS: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ViewConnection:
    """Connection that has the views.

    `schema` is the attached store. `hidden` are the names of the store's own tables.
    """

    conn: sqlite3.Connection
    schema: str
    hidden: frozenset[str]

    @property
    def events(self) -> str:
        """Name of the view of the visible events, as rows of the store."""
        return f"{self.schema}_events"

    @property
    def tags(self) -> str:
        """Name of the view of their tags."""
        return f"{self.schema}_tags"

    def select(self, view: View) -> str:
        """Return the SELECT of a view's rows.

        The SELECT is empty if the store lacks the tables of the view.
        """
        whole = self.hidden.issuperset(view.needs)
        return view.select(self.schema, self.events, self.tags) if whole else view.empty()

    def create(self, view: View) -> None:
        """Create a view, and replace an existing view of the same name."""
        self.conn.execute(f"DROP VIEW IF EXISTS temp.{view.name}")
        self.conn.execute(f"CREATE TEMP VIEW {view.name} AS {self.select(view)}")

    def fit(self, sql: str) -> None:
        """Copy the ids of `events` to a table if a statement joins `events` with another view.

        Such joins are then fast.
        """
        refused = _Refusals(self, _defined(sql))
        self.conn.set_authorizer(refused.look)
        try:
            self.conn.execute(f"EXPLAIN {sql}").close()
        except (sqlite3.Error, sqlite3.Warning):
            return  # the statement itself then fails with the reason
        finally:
            self.conn.set_authorizer(None)
        joined = len({view for view, _ in refused.read}) > 1 or len(_EVENTS.findall(sql)) > 1
        if joined and (EVENTS.name, "id") in refused.read:
            for statement in IDS:
                self.conn.execute(statement.format(s=self.schema))
            self.create(JOINED_EVENTS)


@contextmanager
def viewed(path: Path, now: int, private: Collection[int] | None) -> Iterator[ViewConnection]:
    """Open a read-only connection that has the views of a store. Raises StoreError."""
    check_file(path)
    if not path.exists() or not path.stat().st_size:
        raise StoreError(f"no store at {path}")
    with closing(_empty_database()) as conn:
        schema = f"s{secrets.token_hex(16)}"
        try:
            conn.execute(f"ATTACH ? AS {schema}", (file_uri(path, "ro"),))
            _check(path)
            viewing = _create_views(conn, schema, now, private)
            _limit(conn)
            yield viewing
        except sqlite3.Error as error:
            raise opening_error(path, error) from error


def _empty_database() -> sqlite3.Connection:
    """Return a connection that another thread may interrupt, and that reads text of any bytes."""
    conn = sqlite3.connect(":memory:", isolation_level=None, uri=True, check_same_thread=False)
    conn.text_factory = lambda text: text.decode("utf-8", "replace")
    return conn


def _check(path: Path) -> None:
    """Raise StoreError if the file is not a store of this version."""
    with closing(sqlite3.connect(file_uri(path, "ro"), uri=True)) as conn:
        check_current(conn, [STORE])


def _create_views(
    conn: sqlite3.Connection, schema: str, now: int, private: Collection[int] | None
) -> ViewConnection:
    """Create the views, and hide the store's tables."""
    tables = {name for (name,) in conn.execute(f"SELECT name FROM {schema}.sqlite_schema")}
    viewing = ViewConnection(conn, schema, frozenset(tables))
    add_functions(conn)
    events = visible_events(schema, now, private)
    conn.execute(f"CREATE TEMP VIEW {viewing.events} AS {events}")
    conn.execute(f"CREATE TEMP VIEW {viewing.tags} AS {visible_tags(viewing.events)}")
    for view in VIEWS:
        viewing.create(view)
    for name in tables - {view.name for view in VIEWS}:
        quoted = name.replace('"', '""')
        if not name.startswith("sqlite_"):
            conn.execute(f'CREATE TEMP VIEW "{quoted}" AS SELECT NULL WHERE 0')
    return viewing


def _limit(conn: sqlite3.Connection) -> None:
    conn.execute("SELECT value FROM json_each('[1]') UNION ALL SELECT value FROM json_tree('[1]')")
    conn.execute("PRAGMA trusted_schema = OFF")
    conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
    conn.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _COLUMNS)
    conn.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _SQL_BYTES)
    conn.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000)


class _Refusals:
    """Authorizer of SQLite that allows only reads of the views.

    `why` is the reason of a refusal.
    """

    def __init__(self, viewing: ViewConnection, defined: Collection[str] = ()) -> None:
        self._schema = viewing.schema
        self._hidden = viewing.hidden.difference(defined)
        self._views = {view.name for view in VIEWS}
        self.read: set[tuple[str, str]] = set()
        """Views and columns that the statement reads."""
        self.why = ""

    def look(
        self, code: int, one: str | None, two: str | None, schema: str | None, source: str | None
    ) -> int:
        why = self._why(code, one, two, schema, source)
        if not why:
            return sqlite3.SQLITE_OK
        self.why = self.why or why
        return sqlite3.SQLITE_DENY

    def _why(
        self, code: int, one: str | None, two: str | None, schema: str | None, source: str | None
    ) -> str:
        if code == sqlite3.SQLITE_READ:
            return self._read(one or "", two or "", schema)
        if code == sqlite3.SQLITE_SELECT:
            return self._hint(source or "") if source in self._hidden else ""
        if code == sqlite3.SQLITE_FUNCTION:
            return "it loads an extension" if two == "load_extension" else ""
        if code == sqlite3.SQLITE_RECURSIVE:
            return ""
        if one is not None and one.startswith("sqlite_") and code == sqlite3.SQLITE_UPDATE:
            # SQLite reports the declaration of its columns like this
            return self._hint("a virtual table")
        return str(_REFUSALS.get(code, "it does something else than to read"))

    def _read(self, table: str, column: str, schema: str | None) -> str:
        if table.startswith("sqlite_"):
            return self._hint(table)  # no view can have such a name and hide the table
        ours = schema == self._schema or table.startswith(self._schema)
        # SQLite reports a read without a column if rows are only counted. The table is then below a
        # view, or a name that the statement defines (WITH). Hidden tables are empty views here. A
        # virtual table is refused at the declaration of its columns.
        counted = not column and schema is None
        if table in self._views:
            self.read.add((table, column))
        if ours or counted or table in self._views or table in _JSON:
            return ""
        return self._hint(table)

    def _hint(self, table: str) -> str:
        names = ", ".join(view.name for view in VIEWS)
        return f"{clip(table, 60)} is not one of the views: {names}"


def _defined(sql: str) -> set[str]:
    """Return the names that a statement may define; they hide the store's tables of that name."""
    return {found[1].lower() for found in _DEFINED.finditer(sql)}


class _Deadline:
    def __init__(self, asking: SqlReader) -> None:
        self._clock = asking.clock
        self._end = asking.clock() + asking.seconds
        self.over = False

    def passed(self) -> bool:
        """Return whether the time limit has passed. SQLite then ends the statement."""
        self.over = self._clock() > self._end
        return self.over


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return distinct names of columns. A second column of the same name becomes `name_2`."""
    found: dict[str, None] = {}
    for name in names:
        number, candidate = 2, name
        while candidate in found:
            candidate, number = f"{name}_{number}", number + 1
        found[candidate] = None
    return tuple(found)
