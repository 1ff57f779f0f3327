"""Schemas: each is created once, in its order, and recorded in the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nostr_client.errors import SchemaTooNew
from nostr_client.store.file.migrate import RECORDS, VERSION, Schema, create, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        yield opened


def make(table: str, made: list[str]) -> Schema:
    def work(conn: sqlite3.Connection) -> None:
        made.append(table)
        conn.execute(f"CREATE TABLE {table} (x)")

    return Schema(f"of {table}", work)


def test_each_schema_is_created_once(conn: sqlite3.Connection) -> None:
    made: list[str] = []
    one, other = make("one", made), make("other", made)
    create(conn, [one])
    create(conn, [one, other])
    create(conn, [one, other])
    assert made == ["one", "other"]
    assert recorded(conn) == {"of one": [VERSION], "of other": [VERSION]}


def test_a_schema_that_cannot_be_created_is_not_recorded(conn: sqlite3.Connection) -> None:
    made: list[str] = []
    create(conn, [make("thing", made)])
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        create(conn, [Schema("another", make("thing", made).create)])
    assert "another" not in recorded(conn)


def test_a_version_that_is_not_ours_is_refused(conn: sqlite3.Connection) -> None:
    one = make("one", [])
    create(conn, [one])
    conn.execute(
        f"INSERT INTO {RECORDS} (migration_set, name) VALUES (?, 'version_2')", (one.name,)
    )
    with pytest.raises(SchemaTooNew, match="of one: version_2"):
        create(conn, [one])


def test_a_file_that_has_nothing_to_do_is_not_written(conn: sqlite3.Connection) -> None:
    create(conn, [])
    assert conn.total_changes == 0
    assert recorded(conn) == {}
