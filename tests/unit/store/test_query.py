"""A filter as SQL: which index answers it, and that SQLite indeed reads nothing but that index."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.store.file.migrate import create
from nostr_client.store.query.aggregate import held_kinds
from nostr_client.store.query.select import Statement, TimeBounds, access, select
from nostr_client.store.schema import STORE

if TYPE_CHECKING:
    from collections.abc import Iterator

ID = "ab" * 32


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:")
    create(opened, [STORE])
    yield opened
    opened.close()


def hash_tag(name: str, value: str) -> int:
    return len(value) * 1_000 + ord(name)


@pytest.mark.parametrize(
    ("filter", "authors", "plan"),
    [
        (Filter(), None, "COVERING INDEX event_time"),
        (Filter(since=1, until=2), None, "COVERING INDEX event_time (created_at>? AND"),
        (Filter(kinds=[1]), None, "COVERING INDEX event_kind (kind=?)"),
        (Filter(kinds=[1, 2], since=1), None, "COVERING INDEX event_kind (kind=? AND created_at>?"),
        (Filter(authors=[ID]), [1], "COVERING INDEX event_author (a=?)"),
        (Filter(authors=[ID], until=5), [1, 2], "COVERING INDEX event_author (a=? AND created_at<"),
        (Filter(authors=[ID], kinds=[1, 2]), [1], "INDEX event_author_kind (a=? AND kind=?)"),
        (Filter(tags={"#e": [ID]}, kinds=[7]), None, "k USING PRIMARY KEY (h=? AND kind=?)"),
        (
            Filter(tags={"#e": [ID]}, kinds=[1, 7], since=5),
            None,
            "PRIMARY KEY (h=? AND kind=? AND created_at>?)",
        ),
        (Filter(ids=[ID]), None, "INDEX event_id (id=?)"),
    ],
    ids=str,
)
def test_the_index_that_answers(
    conn: sqlite3.Connection, filter: Filter, authors: list[int] | None, plan: str
) -> None:
    chosen = access(filter, hash_tag, authors, None)
    window = TimeBounds(filter.since, filter.until)
    statement = select(chosen, "k.created_at, k.seq", window, limit=10, order="k.created_at DESC")
    rows = conn.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.params).fetchall()
    assert plan in rows[0][3]
    one_range = not any(len(values) > 1 for _, values in chosen.prefix)
    if one_range and not filter.ids:
        assert not any("TEMP B-TREE" in row[3] for row in rows)


def test_the_tag_with_the_fewest_values_leads(conn: sqlite3.Connection) -> None:
    filter = Filter(tags={"#t": ["a", "bb", "ccc"], "#p": [ID]}, kinds=[7])
    chosen = access(filter, hash_tag, [4, 5], None)
    assert chosen.prefix == (("k.h", (hash_tag("p", ID),)), ("k.kind", (7,)))
    assert chosen.rest[0] == "k.a IN (4,5)"
    assert chosen.unique
    statement = select(chosen, "k.seq", TimeBounds())
    rows = conn.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.params).fetchall()
    assert all("SEARCH" in row[3] or "SUBQUERY" in row[3] for row in rows)


def test_lists_of_similar_lengths_share_one_text() -> None:
    """SQLite's statement cache then has the statement prepared."""

    def statement(count: int) -> Statement:
        chosen = access(Filter(authors=[ID]), hash_tag, range(count), None)
        return select(chosen, "k.seq", TimeBounds(), limit=10, order="k.created_at DESC")

    assert statement(300).sql == statement(400).sql
    assert statement(900).sql == statement(1_000).sql
    assert set(statement(900).params) == {*range(900), 10}
    assert "IN (0,1,2" in statement(2_000).sql  # so many values are faster as text


def test_two_values_of_a_tag_may_find_an_event_twice() -> None:
    assert not access(Filter(tags={"#t": ["a", "bb"]}), hash_tag, None, None).unique
    assert access(Filter(tags={"#t": ["a", "a"]}), hash_tag, None, None).unique


@pytest.mark.parametrize(
    ("filter", "authors"),
    [
        (Filter(ids=[]), None),
        (Filter(since=2, until=1), None),
        (Filter(authors=[ID]), []),
        (Filter(kinds=[1], tags={"#t": []}), None),
    ],
    ids=str,
)
def test_what_needs_no_asking(filter: Filter, authors: list[int] | None) -> None:
    assert access(filter, hash_tag, authors, None).nothing


def test_expired_events_are_left_out_only_where_there_are_any(conn: sqlite3.Connection) -> None:
    hidden = access(Filter(kinds=[1]), hash_tag, None, 99)
    statement = select(hidden, "count(*)", TimeBounds(1, 2))
    assert statement.params == (1, 1, 2, 99)
    plan = conn.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.params).fetchall()
    assert any("COVERING INDEX event_exp" in row[3] for row in plan)
    assert not access(Filter(kinds=[1]), hash_tag, None, None).rest


def test_held_kinds_are_found_by_seeks(conn: sqlite3.Connection) -> None:
    assert held_kinds(conn) == []
    for number, kind in enumerate([7, 0, 65_535, 7, 1059, 0]):
        conn.execute(
            "INSERT INTO event (id, a, created_at, kind, tags, content, sig)"
            " VALUES (?, 1, 1, ?, x'', x'', x'')",
            (bytes([number]), kind),
        )
    asked: list[str] = []
    conn.set_trace_callback(asked.append)
    assert held_kinds(conn) == [0, 7, 1059, 65_535]
    conn.set_trace_callback(None)
    plan = [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]
    assert "SEARCH event USING COVERING INDEX event_kind (kind>?)" in plan
    assert not any("SCAN event" in step and "event_kind" not in step for step in plan)
