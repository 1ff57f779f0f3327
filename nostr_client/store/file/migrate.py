"""Bring a file to the schemas that this program knows, or refuse the whole file.

Each schema has only version 1, which is created whole. A file records its schemas in the table of
sqlite-utils' migrations. A later version can therefore use that library for a migration. The
program loads the library only for a migration, because its import takes longer than a command.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.errors import SchemaTooNew, SchemaTooOld, StoreCorrupt

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

APPLICATION_ID: Final = 0x6E74_616C
"""Value of `PRAGMA application_id` in our files. It prevents a change of another program's file."""

RECORDS: Final = "_sqlite_migrations"
VERSION: Final = "version_1"

_MAKE_RECORDS: Final = f"""
CREATE TABLE IF NOT EXISTS {RECORDS}
 (id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS idx_{RECORDS}_migration_set_name
 ON {RECORDS} (migration_set, name)
"""


class Schema(NamedTuple):
    """Tables of one part of the program. `create` makes them in the caller's transaction.

    `also` are schemas that belong to it. A file that was created before these schemas existed gets
    them.
    """

    name: str
    create: Callable[[sqlite3.Connection], None]
    also: tuple[Schema, ...] = ()


def run_script(conn: sqlite3.Connection, script: str) -> None:
    """Run statements inside the caller's transaction. `executescript` would commit it."""
    for statement in script.split(";"):
        if statement.strip():
            conn.execute(statement)


def migrate(conn: sqlite3.Connection, schemas: Sequence[Schema]) -> None:
    """Create the schemas that the file lacks, with their records, in one transaction.

    Raises SchemaTooNew if another version wrote one of them. Raises StoreCorrupt if the file
    belongs to another program. After an error the file is unchanged.
    """
    conn.execute("BEGIN IMMEDIATE")
    try:
        _check_ours(conn)
        create(conn, schemas)
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("COMMIT")
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def create(conn: sqlite3.Connection, schemas: Sequence[Schema]) -> None:
    """Create missing schemas like `migrate`, in the caller's transaction.

    The caller knows that the file is ours.
    """
    missing = _missing(conn, schemas)
    if missing:
        run_script(conn, _MAKE_RECORDS)
    for schema in missing:
        schema.create(conn)
        sql = f"INSERT INTO {RECORDS} (migration_set, name, applied_at) VALUES (?, ?, ?)"
        conn.execute(sql, (schema.name, VERSION, str(datetime.now(UTC))))


def check_current(conn: sqlite3.Connection, schemas: Sequence[Schema]) -> None:
    """Check that the file is ours and has all schemas of this version.

    A reader needs this check, because a reader creates no tables. Raises StoreCorrupt, SchemaTooNew
    or SchemaTooOld.
    """
    _check_ours(conn)
    for schema in _missing(conn, schemas):
        raise SchemaTooOld(
            f"this store has no tables of this version yet ({schema.name}); opening it for"
            " writing makes them"
        )


def recorded(conn: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the versions that the file records for each schema."""
    found: dict[str, list[str]] = {}
    if conn.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (RECORDS,)).fetchone():
        for schema, version in conn.execute(f"SELECT migration_set, name FROM {RECORDS}"):
            found.setdefault(schema, []).append(version)
    return found


def _missing(conn: sqlite3.Connection, schemas: Sequence[Schema]) -> list[Schema]:
    """Return the schemas that the file lacks. Raises SchemaTooNew."""
    found = recorded(conn)
    every = [one for schema in schemas for one in (schema, *schema.also)]
    for schema in every:
        others = [one for one in found.get(schema.name, ()) if one != VERSION]
        if others:
            raise SchemaTooNew(
                f"another version wrote this store ({schema.name}: {', '.join(others)}); "
                "update nostr-tally to open it"
            )
    return [schema for schema in every if schema.name not in found]


def _check_ours(conn: sqlite3.Connection) -> None:
    (mark,) = conn.execute("PRAGMA application_id").fetchone()
    (tables,) = conn.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if mark != APPLICATION_ID and tables:
        raise StoreCorrupt("this SQLite file belongs to another program")
