"""What the SQL of a store refuses, and why; limits; joins that end; damage."""

from __future__ import annotations

import itertools
import sqlite3
from typing import TYPE_CHECKING

import pytest

from nostr_client.errors import InvalidInput, NostrTallyError, StoreError
from nostr_client.store.sql.query import SqlReader
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import make, pubkey

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = 300
SECRET = "a secret that nobody named"


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A store of notes that reply to each other, and one message."""
    notes = [make(n % 5, at=n, content=f"note {n}") for n in range(EVENTS)]
    replies = [
        make(n % 5, at=n, tags=(("e", one.event.id), ("p", one.event.pubkey)), content=f"re {n}")
        for n, one in enumerate(notes)
    ]
    async with await SqliteStore.open(tmp_path / "s.db", search=True) as store:
        await store.save([*notes, *replies, make(0, 4, content=SECRET)])
    return tmp_path / "s.db"


def ask(path: Path, sql: str, **how: object) -> list[tuple[object, ...]]:
    return SqlReader(**how).ask(path, sql).rows


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("INSERT INTO events VALUES (1)", "writes"),
        ("UPDATE events SET kind = 1", "modify|writes"),
        ("DELETE FROM event", "modify|writes"),
        ("DROP VIEW events", "writes|cannot"),
        ("CREATE TABLE x (a)", "writes"),
        ("CREATE TEMP TABLE x (a)", "writes"),
        ("CREATE VIRTUAL TABLE x USING fts5(a)", "writes|views"),
        ("REINDEX", "writes|views"),
        ("ANALYZE", "writes"),
        ("ATTACH '/etc/passwd' AS other", "attaches"),
        ("DETACH main", "detaches"),
        ("VACUUM", "attaches|writes|else"),
        ("VACUUM INTO '/tmp/x.db'", "attaches|writes|else"),
        ("PRAGMA query_only = 0", "PRAGMA"),
        ("PRAGMA database_list", "PRAGMA"),
        ("SELECT * FROM pragma_database_list", "views"),
        ("BEGIN", "transaction"),
        ("COMMIT", "transaction"),
        ("SAVEPOINT a", "transaction"),
        ("SELECT load_extension('x')", "extension"),
        ("SELECT * FROM sqlite_master", "views"),
        ("SELECT * FROM sqlite_schema", "views"),
        ("SELECT * FROM sqlite_temp_master", "views"),
        ("SELECT count(*) FROM sqlite_temp_master", "views"),
        ("SELECT * FROM event", "views"),
        ("SELECT count(*) FROM event", "views"),
        ("SELECT 1 FROM author", "views"),
        ("SELECT * FROM main.event", "no such table"),
        ("SELECT * FROM search WHERE search MATCH 'secret'", "views|cannot"),
        ("SELECT * FROM search_docsize", "views"),
        ("SELECT value FROM meta", "views|no such column"),
        ("SELECT * FROM dbstat", "views|no such table"),
        ("WITH events AS (SELECT content FROM event) SELECT * FROM events", "no such column"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELEC 1", "syntax"),
        ("", "no SELECT"),
        ("-- nothing", "no SELECT"),
        ("SELECT zeroblob(1000000000)", "too big"),
        ("SELECT another FROM events", "no such column"),
        ("EXPLAIN ATTACH 'x' AS y", "attaches"),
    ],
)
def test_what_is_refused_says_why(path: Path, sql: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        ask(path, sql)
    assert SECRET not in str(caught.value)
    assert ask(path, "SELECT count(*) FROM events") == [(2 * EVENTS,)]


def test_no_table_of_the_store_can_be_read(path: Path) -> None:
    """By its name, with any schema's, in a subquery, beside a view or behind another's name."""
    with sqlite3.connect(path) as conn:
        tables = [name for (name,) in conn.execute("SELECT name FROM sqlite_schema")]
    assert {"event", "author", "tag", "meta", "search_data"} <= set(tables)
    forms = (
        'SELECT * FROM "{0}"',
        'SELECT * FROM temp."{0}"',
        'SELECT * FROM main."{0}"',
        'WITH events AS (SELECT * FROM "{0}") SELECT * FROM events',
        'SELECT (SELECT count(*) FROM "{0}") FROM events',
    )
    for table, form in itertools.product(tables, forms):
        with pytest.raises(InvalidInput):
            ask(path, form.format(table))


def test_private_contents_are_found_by_no_expression(path: Path) -> None:
    for sql in (
        "SELECT content FROM events WHERE content LIKE '%secret%'",
        "SELECT * FROM tags WHERE kind = 4",
        "SELECT sum(events) FROM authors HAVING sum(events) > 600",
    ):
        assert ask(path, sql) == []
    assert ask(path, "SELECT content FROM events WHERE kind = 4", private={4}) == [(SECRET,)]


def test_rows_of_a_name_that_the_query_defines_are_counted(path: Path) -> None:
    numbers = "n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)"
    assert ask(path, f"WITH RECURSIVE {numbers} SELECT count(*) FROM n") == [(9,)]
    twice = "WITH e AS (SELECT id FROM events) SELECT count(*), (SELECT count(*) FROM e) FROM e"
    assert ask(path, twice) == [(2 * EVENTS, 2 * EVENTS)]


def test_a_query_that_takes_too_long_is_ended(path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
    clock = itertools.count()
    with pytest.raises(StoreError, match=r"longer than 5 s"):
        ask(path, endless, seconds=5, clock=lambda: next(clock))


def test_rows_are_limited_and_it_says_so(path: Path) -> None:
    whole = SqlReader(rows=2 * EVENTS).ask(path, "SELECT id FROM events")
    cut = SqlReader(rows=10).ask(path, "SELECT id FROM events")
    assert (len(whole.rows), whole.cut) == (2 * EVENTS, False)
    assert (len(cut.rows), cut.cut) == (10, True)


def test_the_bytes_of_an_answer_are_limited(path: Path) -> None:
    long = "SELECT hex(zeroblob(900000)) FROM events"
    with pytest.raises(StoreError, match="more than 1 MiB of memory"):
        ask(path, long, bytes=2**20)
    assert len(ask(path, f"{long} LIMIT 1", bytes=2**22)) == 1
    with pytest.raises(InvalidInput, match="too many columns"):
        ask(path, f"SELECT {', '.join('1' * 101)}")


@pytest.mark.parametrize("name", ["event", "tag", "author", "meta"])
def test_a_query_may_define_a_name_that_a_hidden_table_has(path: Path, name: str) -> None:
    for form in (
        "WITH {0} AS (SELECT 1 AS a) SELECT a FROM {0}",
        "WITH {0}(a) AS (SELECT 1) SELECT count(*) FROM {0}",
        'WITH other AS (SELECT 1), "{0}" AS NOT MATERIALIZED (SELECT 1) SELECT * FROM {0}',
    ):
        assert ask(path, form.format(name)) == [(1,)]
    with pytest.raises(InvalidInput):
        ask(path, f"WITH {name} AS (SELECT * FROM search_data) SELECT * FROM {name}")
    with pytest.raises(InvalidInput):
        ask(path, f"WITH {name} AS (SELECT content FROM main.{name}) SELECT * FROM {name}")


def test_a_text_of_other_bytes_ends_no_query(path: Path) -> None:
    assert ask(path, "SELECT CAST(x'41ff' AS TEXT)") == [("A\ufffd",)]
    with sqlite3.connect(path) as conn:
        conn.execute("UPDATE event SET content = x'ff' WHERE kind = 1")
    assert ask(path, "SELECT DISTINCT content FROM events") == [("\ufffd",)]
    with pytest.raises(InvalidInput, match="not UTF-8"):
        ask(path, "SELECT profile(CAST(x'ff' AS TEXT), 'name')")


def test_npub_takes_keys_and_gives_null_for_all_else(path: Path) -> None:
    key = pubkey(0)
    ((text, raw, *other),) = ask(
        path, f"SELECT npub('{key}'), npub(x'{key}'), npub(1), npub('zz'), npub(NULL), npub(x'ff')"
    )
    assert text == raw
    assert str(text).startswith("npub1")
    assert other == [None] * 4


def test_joins_by_id_look_ids_up(path: Path) -> None:
    """A nested loop would take a look at the clock for each thousand pairs."""
    looks = itertools.count()
    asking = SqlReader(seconds=40, clock=lambda: next(looks))
    for sql, number in (
        ("SELECT count(*) FROM tags t JOIN events e ON e.id = t.value AND t.name = 'e'", EVENTS),
        ("SELECT count(*) FROM replies r JOIN events e ON e.id = r.target", EVENTS),
        ("SELECT count(*) FROM events a JOIN events b ON a.id = b.id", 2 * EVENTS),
        ("SELECT count(*) FROM events e JOIN authors a ON a.pubkey = e.pubkey", 2 * EVENTS),
    ):
        looks = itertools.count()
        assert asking.ask(path, sql).rows == [(number,)]


def test_columns_of_one_name_are_told_apart(path: Path) -> None:
    found = SqlReader().ask(path, "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a")
    assert found.columns == ("a", "a_2", "a_2_2", "a_3")


def test_it_reads_beside_the_writer_and_writes_nothing(path: Path) -> None:
    with sqlite3.connect(path) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert ask(path, f"SELECT count(*) FROM events WHERE pubkey = '{pubkey(0)}'") == [(120,)]
        writer.execute("ROLLBACK")


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        ask(tmp_path / "none.db", "SELECT 1")
    assert not (tmp_path / "none.db").exists()
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as conn:
        conn.execute("CREATE TABLE event (secret)")
    other_text = tmp_path / "text.db"
    other_text.write_text("no database " * 1000, "utf-8")
    for file in (other, other_text, tmp_path):
        with pytest.raises(NostrTallyError):
            ask(file, "SELECT 1")
