"""Bring a file to the schema that this program knows, or refuse it whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlite_utils
from sqlite_utils.migrations import Migrations

from nostr_client.errors import SchemaTooNew, StoreCorrupt, StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

APPLICATION_ID = 0x6E74_616C
"""Marks a file as ours (`PRAGMA application_id`), so that no other program's file is changed."""

_RECORDS = "_sqlite_migrations"


def migrate(conn: sqlite3.Connection, sets: Sequence[Migrations]) -> None:
    """Apply what is pending in every set, with its record, in one transaction.

    Raises SchemaTooNew when the file records a migration that a set of ours does not have,
    StoreCorrupt when the file belongs to another program; the file is then unchanged.
    """
    conn.execute("BEGIN IMMEDIATE")
    try:
        _check_ours(conn)
        check_not_newer(conn, sets)
        database = sqlite_utils.Database(conn)
        for migrations in sets:
            migrations.apply(database)
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("COMMIT")
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def check_not_newer(conn: sqlite3.Connection, sets: Sequence[Migrations]) -> None:
    """Raise SchemaTooNew when one of the sets is further in the file than in this program."""
    applied = _applied(conn)
    for migrations in sets:
        known = {step.name for step in migrations._migrations}
        newer = [name for name in applied.get(migrations.name, ()) if name not in known]
        if newer:
            raise SchemaTooNew(
                f"a newer version wrote this store ({migrations.name}: {', '.join(newer)}); "
                "update nostr-tally to open it"
            )


def check_current(conn: sqlite3.Connection, sets: Sequence[Migrations]) -> None:
    """What a reader needs: our file, not newer, and not older either (it may not migrate).

    Raises StoreCorrupt, SchemaTooNew or StoreError.
    """
    _check_ours(conn)
    check_not_newer(conn, sets)
    applied = _applied(conn)
    for migrations in sets:
        have = applied.get(migrations.name, [])
        if any(step.name not in have for step in migrations._migrations):
            raise StoreError(
                "an older version wrote this store; open it once for writing to bring it up to date"
            )


def _check_ours(conn: sqlite3.Connection) -> None:
    (mark,) = conn.execute("PRAGMA application_id").fetchone()
    (tables,) = conn.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if mark != APPLICATION_ID and tables:
        raise StoreCorrupt("this SQLite file belongs to another program")


def _applied(conn: sqlite3.Connection) -> dict[str, list[str]]:
    """Names of applied migrations by set, in the order of their application."""
    found: dict[str, list[str]] = {}
    exists = conn.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (_RECORDS,)).fetchone()
    if exists:
        rows = conn.execute(f"SELECT migration_set, name FROM {_RECORDS} ORDER BY rowid")
        for migration_set, name in rows:
            found.setdefault(migration_set, []).append(name)
    return found


__all__ = ["APPLICATION_ID", "Migrations", "check_current", "check_not_newer", "migrate"]
