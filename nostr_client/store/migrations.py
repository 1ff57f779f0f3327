"""Named steps that bring a SQLite file to a schema, each applied once and recorded in the file.

Small and our own: what a library would add is a query builder, and the import of it took longer
than all the rest of a command.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    Step = Callable[[sqlite3.Connection], None]

RECORDS: Final = "_sqlite_migrations"
"""The table in which applied steps stand, of all sets of a file."""


class Migration(NamedTuple):
    """One step: its name is never changed once it has been released."""

    name: str
    run: Step


class Migrations:
    """A set of steps in their order; made once, at the top of the module whose tables it makes.

    TABLES = Migrations("nostr_tally.things")

    @TABLES()
    def first_tables(conn): conn.execute("CREATE TABLE thing (…)")
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[Migration] = []

    def __call__(self) -> Callable[[Step], Step]:
        """Take a function as the next step, under its own name."""

        def add(run: Step) -> Step:
            name = run.__name__
            if any(step.name == name for step in self.steps):
                raise ValueError(f"{self.name} has a step {name} already")
            self.steps.append(Migration(name, run))
            return run

        return add

    def apply(self, conn: sqlite3.Connection) -> None:
        """Run and record the steps that the file has not seen, in the caller's transaction."""
        done = applied(conn).get(self.name, ())
        pending = [step for step in self.steps if step.name not in done]
        if pending:
            _make_records(conn)
        for step in pending:
            step.run(conn)
            sql = f"INSERT INTO {RECORDS} (migration_set, name, applied_at) VALUES (?, ?, ?)"
            conn.execute(sql, (self.name, step.name, str(datetime.now(UTC))))


def applied(conn: sqlite3.Connection) -> dict[str, list[str]]:
    """Names of applied steps by set, in the order of their application."""
    found: dict[str, list[str]] = {}
    exists = conn.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (RECORDS,)).fetchone()
    if exists:
        rows = conn.execute(f"SELECT migration_set, name FROM {RECORDS} ORDER BY rowid")
        for migration_set, name in rows:
            found.setdefault(migration_set, []).append(name)
    return found


def _make_records(conn: sqlite3.Connection) -> None:
    conn.execute(
        f"CREATE TABLE IF NOT EXISTS {RECORDS}"
        " (id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT)"
    )
    conn.execute(
        f"CREATE UNIQUE INDEX IF NOT EXISTS idx_{RECORDS}_migration_set_name"
        f" ON {RECORDS} (migration_set, name)"
    )
