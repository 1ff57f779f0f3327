"""`verify` finds each derived row that is wrong, by the same check as backups and rebuilds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.store.base import StoreProblem

NOTE = make(1, at=NOW - 90, tags=(("t", "a"), ("t", "b")))
GONE = make(2, at=NOW - 80)
ARTICLE = make(3, 30_023, at=NOW - 70, tags=(("d", "x"), ("expiration", str(NOW + 99))))
REQUEST = make(2, 5, at=NOW - 60, tags=(("e", GONE.event.id),))
FAREWELL = make(4, 62, at=NOW - 50, tags=(("relay", "ALL_RELAYS"),))
EVENTS = (NOTE, GONE, ARTICLE, REQUEST, FAREWELL)

DAMAGES = {
    "tag row missing": ("DELETE FROM tag WHERE seq = 1", NOTE, "rows missing"),
    "tag row too many": ("INSERT INTO tag SELECT h + 1, created_at, seq, kind, a FROM tag", NOTE,
                         "should not be there"),
    "address": ("UPDATE event SET d = 'y' WHERE kind = 30023", ARTICLE, "the address column"),
    "expiration": ("UPDATE event SET exp = 5 WHERE kind = 30023", ARTICLE, "the expiration column"),
    "id not blocked": ("DELETE FROM tomb_id", REQUEST, "not blocked"),
    "author not blocked": ("DELETE FROM vanished", FAREWELL, "not blocked"),
}  # fmt: skip


async def damaged(path: Path, sql: str) -> tuple[StoreProblem, ...]:
    with closing(sqlite3.connect(path)) as conn, conn:
        assert conn.execute(sql).rowcount
    async with await SqliteStore.open(path, read_only=True) as store:
        return (await store.verify()).problems


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    found = tmp_path / "s.db"
    async with await SqliteStore.open(found, clock=lambda: NOW) as store:
        await store.save(EVENTS)
        await store.fingerprints.register(Filter(kinds=[1]))
        assert (await store.verify()).problems == ()
    return found


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_derived_row_that_is_wrong_is_named_by_its_event(path: Path, damage: str) -> None:
    sql, event, cause = DAMAGES[damage]
    found = await damaged(path, sql)
    assert (event.event.id, True) in {(one.id, cause in one.what) for one in found}


async def test_an_event_that_the_rules_forbid_is_found(path: Path) -> None:
    """The note becomes a request of the article's author for the deletion of the article."""
    wanted = f'[["e","{ARTICLE.event.id}"]]'.encode().hex()
    found = await damaged(
        path,
        f"UPDATE event SET kind = 5, tags = x'{wanted}', "
        "a = (SELECT a FROM event WHERE kind = 30023) WHERE seq = 1",
    )
    assert (ARTICLE.event.id, "it is stored, but it is deleted") in found


async def test_fingerprints_that_are_not_of_the_events_are_found(path: Path) -> None:
    found = await damaged(path, "UPDATE neg_chunk SET n = n + 1")
    assert [one.what for one in found] == [
        'fingerprint {"kinds":[1]}: the kept fingerprints are not those of the events'
    ]


async def test_beside_an_event_that_cannot_be_read_the_others_are_checked(path: Path) -> None:
    found = await damaged(path, "UPDATE event SET tags = x'ff', exp = 7 WHERE seq = 1")
    assert [(one.id, one.what) for one in found] == [
        (NOTE.event.id, "an event's row is damaged"),
    ]
    found = await damaged(path, "UPDATE event SET exp = 7 WHERE kind = 30023")
    assert (ARTICLE.event.id, "the expiration column does not fit the event") in found
