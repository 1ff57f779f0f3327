"""What hostile relays cannot do to the people of a watch: fill the store, or stay the newest."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from nostr_client import count
from nostr_client.cli.watch import people as watch_people
from nostr_client.count.claims import CLAIMS
from nostr_client.count.claims.changes import (
    CHANGES,
    LEFT,
    MOST_CHANGES,
    MOST_LEFT,
    ChangeLog,
    Departure,
    leave,
)
from nostr_client.count.claims.coverage import HeldEvent, Update
from nostr_client.count.claims.rows import query_number, relay_number
from nostr_client.count.remembering import asked_of
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import WATCHES, WatchRepository, people_rows
from nostr_client.watch.departures import AGAIN_S, MOST_LOOKED, Sightings
from nostr_client.watch.people import Fact, People, Person, of_events
from nostr_client.watch.people_rows import MOST_CHANGED
from tests.worlds import NOTE, signer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

YEAR_10000 = 253_402_300_800
AUTHOR = bytes.fromhex(signer(1).pubkey)


def key(n: int) -> bytes:
    return n.to_bytes(32, "big")


def given(numbers: range, at: int) -> list[HeldEvent]:
    return [HeldEvent(at, key(n), key(n), 1) for n in numbers]


def flood(conn: sqlite3.Connection, q: int, r: int, *, rounds: int, most: int) -> int:
    """Replace all events of a relay each round; return the time of the last one."""
    log, at = ChangeLog(conn, q, r, replaces=False), 1_000
    before: list[HeldEvent] = []
    for turn in range(rounds):
        at += 1_000
        fresh = given(range(turn * most, (turn + 1) * most), at)
        log.note(before, fresh, [], at, was_whole=True)
        before = fresh
    return at


def test_a_relay_that_changes_everything_each_round_fills_no_store() -> None:
    with closing(sqlite3.connect(":memory:")) as conn:
        CHANGES.create(conn)
        ChangeLog(conn, 1, 2, replaces=False).note([], given(range(3), 5), [], 5, was_whole=True)
        last = flood(conn, 1, 1, rounds=4, most=MOST_CHANGES // 4 + 1_000)
        rows = "SELECT count(*), min(coalesce(lost_at, found_at)) FROM claim_change WHERE r = ?"
        assert conn.execute(rows, (1,)).fetchone() == (MOST_CHANGES, last - 1_000)
        assert conn.execute(rows, (2,)).fetchone() == (3, 5)  # other relays lose nothing


def test_departures_are_bounded_and_those_proven_last_stay() -> None:
    with closing(sqlite3.connect(":memory:")) as conn:
        LEFT.create(conn)
        leave(conn, 1, 2, [Departure(key(1), 1, key(1), 1, 1, 5)])
        leave(conn, 1, 1, (Departure(key(n), n, key(n), 1, 1, n) for n in range(MOST_LEFT + 7)))
        sql = "SELECT count(*), min(proven_at) FROM claim_left WHERE r = ?"
        assert conn.execute(sql, (1,)).fetchone() == (MOST_LEFT, 7)
        assert conn.execute(sql, (2,)).fetchone() == (1, 5)  # other relays lose nothing


def test_authors_who_were_asked_about_are_bounded_and_forgotten_once_due() -> None:
    seen, authors = Sightings(), [key(n) for n in range(MOST_LOOKED + 5)]
    seen.look(authors, 100.0)
    assert len(seen.looked) == MOST_LOOKED
    assert seen.due(authors, 101.0) == authors[:5]
    seen.look(authors[:5], 101.0)
    assert seen.due(authors[:5], 101.0) == []
    assert seen.due(authors[:5], 101.0 + AGAIN_S) == authors[:5]
    assert not seen.looked


async def test_a_read_fetches_few_rows_however_many_changes_there_are() -> None:
    query, fetched = count.reactions(NOTE), 0

    def counting(_: sqlite3.Cursor, row: tuple[object, ...]) -> tuple[object, ...]:
        nonlocal fetched
        fetched += 1
        return row

    def fill(conn: sqlite3.Connection) -> int:
        q, r = query_number(conn, asked_of(query)), relay_number(conn, "wss://r")
        rows = ((q, r, key(n), key(n), key(n), n) for n in range(3 * MOST_CHANGED))
        conn.executemany(
            "INSERT INTO claim_change VALUES (?, ?, ?, 1, ?, ?, 0, 1, 1, ?)",
            rows,
        )
        conn.executemany(
            "INSERT INTO claim_event (q, r, created_at, id, author, amount, seen_at)"
            " VALUES (?, ?, ?, ?, ?, 0, 1)",
            ((q, r, n, key(-n % 2**256), key(n)) for n in range(3 * MOST_CHANGED)),
        )
        return 3 * MOST_CHANGED

    def read(conn: sqlite3.Connection, since: int, now: int) -> People:
        nonlocal fetched
        fetched, before, conn.row_factory = 0, conn.row_factory, counting
        try:
            return people_rows.read(conn, query, since, now, limit=20)
        finally:
            conn.row_factory = before

    async with await SqliteStore.open(":memory:", migrations=[CLAIMS, WATCHES]) as store:
        now = await store.database.write(fill)
        whole = await store.database.write(lambda conn: read(conn, 0, now))
        assert len(whole.people) == 20
        assert len(whole.people) + whole.more <= 2 * MOST_CHANGED
        assert 20 <= fetched < 5 * MOST_CHANGED
        few = await store.database.write(lambda conn: read(conn, now - 10, now))
        assert {one.act for one in few.people} == {"no longer seen", "reacted"}
        assert few.people[0].seen_at == now - 1
        assert fetched < 100


def test_an_event_of_the_future_is_not_the_newest_for_ever() -> None:
    def seen(now: int, *facts: Fact) -> list[int]:
        return [one.seen_at for one in of_events(facts, "reacted", 0, now)]

    future = Fact(key(1), AUTHOR, key(1), YEAR_10000)
    assert seen(500, future) == []
    assert seen(500, future, future._replace(known_at=400)) == [400]
    assert seen(YEAR_10000, future) == [YEAR_10000]


async def test_an_event_of_the_future_is_listed_once_its_time_has_come() -> None:
    query = count.reactions(NOTE)
    held = [*given(range(1), 100), *given(range(1, 2), 900)]
    async with await WatchRepository.open(":memory:") as book:
        place = await book.claims.place(asked_of(query), "wss://r")
        await place.use(lambda m: m.apply(Update(start=0, end=None, upto=999, at=50, found=held)))

        async def found(now: int) -> list[int]:
            got = await book.database.read(lambda conn: people_rows.read(conn, query, 0, now))
            return [one.seen_at for one in got.people]

        assert await found(400) == [100]
        assert await found(900) == [900, 100]


def people_named(*names: str) -> People:
    found = (
        Person(act="reacted", pubkey=AUTHOR.hex(), at=YEAR_10000, seen_at=2**62, event="00", name=n)
        for n in names
    )
    return People(since=0, people=tuple(found))


def cells(text: str) -> Iterator[str]:
    return (line.split(",")[4] for line in text.splitlines()[1:])


def test_a_name_is_no_formula_in_csv_and_no_time_breaks_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = people_named("=1+2", "Ada")
    watch_people._print(found)
    assert str(2**62) in capsys.readouterr().out
    assert list(cells(watch_people._as_csv(found))) == ["'=1+2", "Ada"]
