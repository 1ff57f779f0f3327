"""Named steps: each runs once, in its order, and is recorded in the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from nostr_client.store.migrations import Migrations, applied


def test_each_step_runs_once_and_in_order() -> None:
    ran = []
    steps = Migrations("things")

    @steps()
    def first(conn: sqlite3.Connection) -> None:
        ran.append("first")
        conn.execute("CREATE TABLE thing (x)")

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        steps.apply(conn)

        @steps()
        def second(conn: sqlite3.Connection) -> None:
            ran.append("second")
            conn.execute("INSERT INTO thing VALUES (1)")

        steps.apply(conn)
        steps.apply(conn)
        assert ran == ["first", "second"]
        assert applied(conn) == {"things": ["first", "second"]}
        other = Migrations("others")
        other()(first)
        with pytest.raises(sqlite3.OperationalError, match="already exists"):
            other.apply(conn)
        assert "others" not in applied(conn)


def test_a_name_stands_for_one_step() -> None:
    steps = Migrations("things")

    def first(conn: sqlite3.Connection) -> None:
        conn.execute("SELECT 1")

    steps()(first)
    with pytest.raises(ValueError, match="has a step first already"):
        steps()(first)


def test_a_file_that_has_nothing_to_do_is_not_written() -> None:
    with closing(sqlite3.connect(":memory:")) as conn:
        Migrations("none").apply(conn)
        assert conn.total_changes == 0
        assert applied(conn) == {}
