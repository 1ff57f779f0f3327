"""The people of a watch are those of its own relays, whatever else the store has."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest

from nostr_client import count
from nostr_client.cli.watch.file import FileWatches
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import stored_event
from nostr_client.count.claims import CLAIMS
from nostr_client.count.claims.changes import Departure, LiveEvent, leave
from nostr_client.count.claims.coverage import HeldEvent, Update
from nostr_client.count.claims.rows import query_number, relay_number
from nostr_client.count.merge import Claim, ClaimStatus
from nostr_client.count.remembering import asked_of
from nostr_client.errors import SchemaTooOld
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import WATCHES, Watch, WatchRepository, people_rows
from nostr_client.watch.departures import _missing
from tests.worlds import NOTE, TARGET, signer

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from nostr_client.watch.people import People

A, B = "wss://a.example", "wss://b.example"
QUERIES = {"followers": count.followers(TARGET), "reactions": count.reactions(NOTE)}


def key(n: int) -> bytes:
    return bytes.fromhex(signer(n).pubkey)


def held(n: int, at: int, *, author: int | None = None) -> HeldEvent:
    return HeldEvent(at, n.to_bytes(32, "big"), key(n if author is None else author), 5)


class Read(NamedTuple):
    """A relay is read to its end, and gives these events."""

    relay: str
    at: int
    events: tuple[HeldEvent, ...]


class Heard(NamedTuple):
    """A relay sends a live event."""

    relay: str
    at: int
    event: HeldEvent


class Left(NamedTuple):
    """A relay gives a newer list of an author that lacks the key."""

    relay: str
    at: int
    author: int


Step = Read | Heard | Left


async def play(book: WatchRepository, query: count.Query, step: Step) -> None:
    asked = asked_of(query)
    if isinstance(step, Read):
        place = await book.claims.place(asked, step.relay)
        await place.use(
            lambda m: m.apply(
                Update(start=0, end=None, upto=step.at, at=step.at, found=step.events)
            )
        )
        await place.use(lambda m: m.prove(step.at))
    elif isinstance(step, Heard):
        live = LiveEvent(step.relay, step.event, step.at, True)
        await book.database.write(book.claims.keeping(asked, [], [live]))
    else:
        gone = Departure(key(step.author), step.at, b"\x00" * 32, 3, 5, step.at)
        await book.database.write(
            lambda c: leave(c, query_number(c, asked), relay_number(c, step.relay), [gone])
        )


async def people_of(
    query: count.Query, steps: Collection[Step], urls: Collection[str] | None
) -> People:
    async with await WatchRepository.open(":memory:") as book:
        for step in steps:
            await play(book, query, step)
        return await book.database.read(
            lambda conn: people_rows.read(conn, query, 0, 999, urls=urls)
        )


def drawn(seed: int) -> list[Step]:
    rng, steps = random.Random(seed), list[Step]()
    for turn in range(1, 15):
        relay, at = rng.choice((A, B)), 10 * turn
        some = tuple(held(n, 5 + n) for n in sorted(rng.sample(range(12), rng.randint(2, 9))))
        steps.append(
            rng.choice(
                (
                    Read(relay, at, some),
                    Heard(relay, at, some[0]),
                    Left(relay, at, rng.randrange(12)),
                )
            )
        )
    return steps


@pytest.mark.parametrize("name", list(QUERIES))
@pytest.mark.parametrize("seed", range(12))
async def test_what_other_relays_gave_changes_nobody(seed: int, name: str) -> None:
    steps = drawn(seed)
    own = [one for one in steps if one.relay == A]
    query = QUERIES[name]
    alone, beside = await people_of(query, own, None), await people_of(query, steps, {A})
    known = {e.author.hex() for s in own if isinstance(s, Read) for e in s.events}
    known |= {s.event.author.hex() for s in own if isinstance(s, Heard)}
    assert beside == alone
    assert {one.pubkey for one in beside.people} <= known


def acts(found: People) -> set[tuple[str, str]]:
    return {(one.act, one.pubkey) for one in found.people}


STEPS: tuple[Step, ...] = (
    Read(A, 100, (held(1, 10), held(2, 10))),
    Read(B, 100, (held(3, 10),)),
    Read(A, 200, (held(1, 10), held(4, 150))),
    Heard(B, 210, held(5, 205)),
    Read(B, 220, (held(3, 10), held(6, 215))),
    Left(A, 230, 2),
    Left(B, 240, 1),
)


async def opened(book: WatchRepository, *watches: Watch) -> FileWatches:
    for one in watches:
        await book.add(one)
    for step in STEPS:
        await play(book, QUERIES["followers"], step)
    return FileWatches(book)


async def test_two_watches_of_one_question_show_the_people_of_their_own_relays() -> None:
    a, b = (
        Watch(name=name, query="followers", target=TARGET, relays=(url,))
        for name, url in (("a", A), ("b", B))
    )
    async with await WatchRepository.open(":memory:") as book:
        store = await opened(book, a, b)
        found = {name: await store.people(name, 0, 100) for name in "ab"}
        assert acts(found["a"]) == {
            ("followed", key(4).hex()),
            ("unfollowed", key(2).hex()),
        }
        assert acts(found["b"]) == {("followed", key(n).hex()) for n in (5, 6)}
        digest = await store.digest(0)
        assert [one.acts for one in digest.watches] == [
            {"unfollowed": 1, "followed": 1},
            {"followed": 2},
        ]


async def test_people_of_a_relay_that_is_excluded_later_go_and_those_of_a_silent_one_stay() -> None:
    both = Watch(name="w", query="followers", target=TARGET, relays=(A, B))
    async with await WatchRepository.open(":memory:") as book:
        store = await opened(book, both)
        everybody = acts(await store.people("w", 0, 100))
        assert len(everybody) == 5
        silent = Claim(relay=B, status=ClaimStatus.TIMEOUT, asked_at=300.0)
        await book.claims.remember(asked_of(QUERIES["followers"]), [(B, silent)])
        assert acts(await store.people("w", 0, 100)) == everybody
        await book.set(msgspec.structs.replace(both, excluded=(B,)))
        of_a = {("followed", key(4).hex()), ("unfollowed", key(2).hex())}
        assert acts(await store.people("w", 0, 100)) == of_a
        (one,) = (await store.digest(0)).watches
        assert sum(one.acts.values()) == 2


async def test_people_of_a_relay_that_the_number_does_not_believe_are_not_listed() -> None:
    query = QUERIES["followers"]
    async with await WatchRepository.open(":memory:") as book:
        for step in STEPS:
            await play(book, query, step)
        found = await book.database.read(
            lambda conn: people_rows.read(conn, query, 0, 999, urls={A, B}, excluded={B})
        )
    assert acts(found) == {("followed", key(4).hex()), ("unfollowed", key(2).hex())}
    assert found.known == 2


async def test_only_the_relay_of_a_live_event_is_asked_about_its_author() -> None:
    query = QUERIES["followers"]
    async with await WatchRepository.open(":memory:") as book:
        for step in STEPS:
            await play(book, query, step)
        log = await book.database.read(lambda conn: people_rows.log_of(conn, query, {A, B}))
        assert log is not None
        found = await book.database.read(
            lambda conn: people_rows.EventLog(conn, log.q, {A, B}).sources({key(4), key(5)})
        )
    assert found == {key(4): {A}, key(5): {B}}


async def test_a_store_of_before_gets_the_relays_of_live_events(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with await WatchRepository.open(path):
        pass
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DROP TABLE claim_received")
        conn.execute("DROP TABLE claim_period")
        conn.execute("CREATE TABLE claim_received (q INTEGER, member BLOB, is_new INTEGER)")
        conn.execute("INSERT INTO claim_received VALUES (1, x'00', 1)")
        names = "('nostr_tally.received', 'nostr_tally.periods')"
        conn.execute(f"DELETE FROM _sqlite_migrations WHERE migration_set IN {names}")
        conn.commit()
    with pytest.raises(SchemaTooOld):
        await WatchRepository.open(path, read_only=True)
    async with await WatchRepository.open(path) as book:
        both = Watch(name="w", query="followers", target=TARGET, relays=(A, B))
        store = await opened(book, both)
        assert len(acts(await store.people("w", 0, 100))) == 5


async def departures(book: WatchRepository, urls: set[str], *excluded: str) -> set[str]:
    query = QUERIES["followers"]
    found = await book.database.read(
        lambda conn: people_rows.read(conn, query, 0, 999, urls=urls, excluded=excluded)
    )
    return {one.pubkey for one in found.people if one.act == "unfollowed"}


async def test_who_left_by_the_list_of_one_relay_left_only_where_it_is_believed() -> None:
    both = (Read(A, 100, (held(1, 10),)), Read(A, 200, ()), Left(B, 210, 1))
    async with await WatchRepository.open(":memory:") as book:
        for step in both:
            await play(book, QUERIES["followers"], step)
        gone = {key(1).hex()}
        assert await departures(book, {A, B}) == gone
        assert await departures(book, {A, B}, B) == set()
        assert await departures(book, {A}) == set()
        await play(book, QUERIES["followers"], Left(A, 300, 1))
        assert await departures(book, {A}) == gone
        assert await departures(book, {A, B}, B) == gone


async def test_each_watch_looks_for_the_departures_of_its_own_relays() -> None:
    asked = asked_of(QUERIES["followers"])
    steps = (Read(A, 100, (held(1, 10), held(2, 10))), Read(A, 200, (held(2, 10),)))

    async def missing(book: WatchRepository, *urls: str, replaced: int = 0) -> set[bytes]:
        others = {key(replaced)} if replaced else set[bytes]()
        found = await book.database.read(lambda c: _missing(c, asked.key, urls, others))
        return set(found)

    async with await WatchRepository.open(":memory:") as book:
        for step in steps:
            await play(book, QUERIES["followers"], step)
        assert await missing(book, A) == {key(1)}
        assert await missing(book, B) == set()  # it lost nobody
        assert await missing(book, B, replaced=2) == set()  # it never gave the list
        await play(book, QUERIES["followers"], Left(B, 300, 1))
        assert await missing(book, A) == {key(1)}
        assert await missing(book, A, B) == set()


BEFORE = (
    "CREATE TABLE claim_left (q INTEGER NOT NULL, author BLOB NOT NULL, created_at INTEGER NOT"
    " NULL, id BLOB NOT NULL, size INTEGER NOT NULL, earlier INTEGER NOT NULL, proven_at INTEGER"
    " NOT NULL, PRIMARY KEY (q, author)) STRICT, WITHOUT ROWID"
)


async def test_a_store_of_before_gets_the_relays_of_newer_lists_and_their_first_times(
    tmp_path: Path,
) -> None:
    path, query = tmp_path / "store.db", QUERIES["followers"]
    async with await WatchRepository.open(path) as book:
        for step in (Read(A, 100, (held(1, 10),)), Read(A, 200, ())):
            await play(book, query, step)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DROP TABLE claim_left")
        conn.execute(BEFORE)
        (q,) = conn.execute("SELECT q FROM claim_query").fetchone()
        row = (q, key(1), 150, b"\x00" * 32, 3, 5, 210)
        conn.execute("INSERT INTO claim_left VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        conn.execute("DELETE FROM _sqlite_migrations WHERE migration_set = 'nostr_tally.left'")
        conn.commit()
    with pytest.raises(SchemaTooOld):
        await WatchRepository.open(path, read_only=True)
    async with await WatchRepository.open(path) as book:
        assert await departures(book, {A, B}) == set()  # nobody knows whose list it was
        again = Departure(key(1), 150, b"\x00" * 32, 3, 5, 990)
        await book.database.write(lambda c: leave(c, q, relay_number(c, A), [again]))
        found = await book.database.read(
            lambda conn: people_rows.read(conn, query, 0, 999, urls={A})
        )
        assert [(one.act, one.seen_at) for one in found.people] == [("unfollowed", 210)]


async def test_a_newer_list_of_the_store_is_only_for_whom_no_relay_gives_any_more() -> None:
    query = QUERIES["followers"]
    follower = signer(1)
    newer = follower.sign_now(EventTemplate(kind=3, tags=(), created_at=500)).event
    async with await SqliteStore.open(":memory:", migrations=[CLAIMS, WATCHES]) as store:
        await store.save([stored_event(newer)])
        book = WatchRepository(store.database)
        for step in (
            Read(A, 100, (held(1, 10),)),
            Read(B, 100, ()),
            Read(B, 150, (held(1, 10),)),
            Read(A, 200, ()),
        ):
            await play(book, query, step)
        assert await departures(book, {A, B}) == set()  # the number counts whom B gives
        assert await departures(book, {A}) == {key(1).hex()}
        await play(book, query, Read(B, 300, ()))
        assert await departures(book, {A, B}) == {key(1).hex()}


async def test_a_watch_without_relays_shows_nobody_of_another_watch() -> None:
    a = Watch(name="a", query="followers", target=TARGET, relays=(A,))
    never_asked = Watch(name="b", query="followers", target=TARGET)
    async with await WatchRepository.open(":memory:") as book:
        store = await opened(book, a, never_asked)
        assert (await store.people("b", 0, 100)).people == ()
        assert (await store.digest(0)).watches[1].acts == {}
