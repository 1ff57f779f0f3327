"""Bring a file to the schema that this program knows, or refuse it whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.errors import SchemaTooNew, SchemaTooOld, StoreCorrupt
from nostr_client.store.migrations import applied as recorded

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from nostr_client.store.migrations import Migrations

APPLICATION_ID = 0x6E74_616C
"""Marks a file as ours (`PRAGMA application_id`), so that no other program's file is changed."""


def migrate(conn: sqlite3.Connection, sets: Sequence[Migrations]) -> None:
    """Apply what is pending in every set, with its record, in one transaction.

    Raises SchemaTooNew when the file records a migration that a set of ours does not have,
    StoreCorrupt when the file belongs to another program; the file is then unchanged.
    """
    conn.execute("BEGIN IMMEDIATE")
    try:
        _check_ours(conn)
        check_not_newer(conn, sets)
        for migrations in sets:
            migrations.apply(conn)
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("COMMIT")
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def check_not_newer(conn: sqlite3.Connection, sets: Sequence[Migrations]) -> None:
    """Raise SchemaTooNew when one of the sets is further in the file than in this program."""
    applied = recorded(conn)
    for migrations in sets:
        known = {step.name for step in migrations.steps}
        newer = [name for name in applied.get(migrations.name, ()) if name not in known]
        if newer:
            raise SchemaTooNew(
                f"a newer version wrote this store ({migrations.name}: {', '.join(newer)}); "
                "update nostr-tally to open it"
            )


def check_current(conn: sqlite3.Connection, sets: Sequence[Migrations]) -> None:
    """What a reader needs: our file, not newer, and not older either (it may not migrate).

    Raises StoreCorrupt, SchemaTooNew or SchemaTooOld.
    """
    _check_ours(conn)
    check_not_newer(conn, sets)
    applied = recorded(conn)
    for migrations in sets:
        have = applied.get(migrations.name, [])
        if any(step.name not in have for step in migrations.steps):
            raise SchemaTooOld(
                f"this store has no tables of this version yet ({migrations.name}); opening it for"
                " writing makes them"
            )


def _check_ours(conn: sqlite3.Connection) -> None:
    (mark,) = conn.execute("PRAGMA application_id").fetchone()
    (tables,) = conn.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if mark != APPLICATION_ID and tables:
        raise StoreCorrupt("this SQLite file belongs to another program")
