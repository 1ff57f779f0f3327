"""Who did what: the rules over facts, what engines notice, and what the store adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import count, hll
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import stored_event
from nostr_client.codecs.references import people_named
from nostr_client.count.claims import CLAIMS, ClaimBook
from nostr_client.count.claims.changes import (
    Departure,
    LiveEvent,
    leave,
    note_received,
    past_answers,
)
from nostr_client.count.claims.coverage import HeldEvent, Update
from nostr_client.count.claims.rows import query_number, relay_number
from nostr_client.count.figures import Figure
from nostr_client.count.merge import Claim, ClaimStatus, Method, Reading, Retracted
from nostr_client.count.remembering import KEEP, asked_of
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import WATCHES, WatchRepository, people_rows
from nostr_client.watch.departures import MOST_RECEIVED, Sightings, _missing
from nostr_client.watch.people import (
    Fact,
    Left,
    People,
    Person,
    newest_first,
    newest_names,
    of_events,
    of_lists,
    unnamed,
)
from tests.worlds import NOTE, START, TARGET, follow, reaction, signer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from random import Random

A, B = bytes.fromhex(signer(1).pubkey), bytes.fromhex(signer(2).pubkey)
ID, OTHER = b"\x01" * 32, b"\x02" * 32
R = "wss://r"


def listed(
    at: int, known: int | None, lost: int | None = None, id: bytes = ID, *, is_new: bool = True
) -> Fact:
    return Fact(A, A, id, at, 0, known, known, lost, is_new)


def act_of(*facts: Fact, constant: frozenset[bytes] = frozenset(), left: Left | None = None) -> str:
    found = of_lists(facts, constant, {A: left} if left else {}, 0)
    return found[0].act if found else ""


def test_a_follower_is_new_only_where_no_relay_gave_the_author_before() -> None:
    assert act_of(listed(100, 200)) == "followed"
    assert act_of(listed(100, 200), constant=frozenset([A])) == ""
    assert act_of(listed(100, 200), listed(90, None)) == ""
    assert act_of(listed(100, 200, is_new=False)) == "follows"
    assert of_lists([listed(100, 200)], (), {}, since=201) == []


def test_whoever_is_given_no_longer_has_unfollowed_only_by_a_newer_list() -> None:
    gone = listed(100, None, lost=300)
    assert act_of(gone) == "no longer seen"
    assert act_of(gone, listed(100, 200)) == ""  # another relay still gives the list
    assert act_of(gone, left=Left(99, OTHER, 3, 0, 310)) == "no longer seen"  # an older list
    assert act_of(gone, left=Left(150, OTHER, 3, 0, 310)) == "unfollowed"
    assert act_of(gone, left=Left(100, b"\x00" * 32, 3, 0, 310)) == "unfollowed"  # the lower id
    assert act_of(gone, left=Left(100, OTHER, 3, 0, 310)) == "no longer seen"
    stale = listed(100, 200)
    assert act_of(stale, left=Left(150, OTHER, 3, 0, 310)) == "unfollowed"
    back = listed(400, 500)
    assert act_of(gone, back, left=Left(150, OTHER, 3, 0, 310)) == "followed"


@pytest.mark.parametrize(
    ("before", "after", "is_wiped"),
    [(800, 3, True), (800, 80, False), (19, 0, False), (0, 3, False)],
)
def test_a_list_that_lost_nearly_all_its_keys_is_wiped(
    before: int, after: int, *, is_wiped: bool
) -> None:
    left = Left(150, OTHER, after, before, 310)
    (one,) = of_lists([listed(100, None, lost=300)], (), {A: left}, 0)
    assert one.wiped is is_wiped
    assert ("wiped, 800 to 3" in one.what) is is_wiped


def test_an_event_of_the_first_reading_counts_as_seen_when_it_says() -> None:
    early, late = Fact(ID, A, ID, 100), Fact(OTHER, B, OTHER, 50, 0, 700, 700)
    assert [
        (one.pubkey, one.seen_at)
        for one in newest_first(of_events([early, late], "reacted", 0, 999))
    ] == [
        (B.hex(), 700),
        (A.hex(), 100),
    ]
    assert [one.pubkey for one in of_events([early, late], "reacted", 101, 999)] == [B.hex()]
    gone = Fact(ID, A, ID, 100, 0, None, None, 900)
    assert [one.act for one in of_events([gone], "reacted", 0, 999)] == ["no longer seen"]
    assert [one.act for one in of_events([gone, early], "reacted", 0, 999)] == ["reacted"]


FACTS = st.builds(
    Fact,
    st.sampled_from([A, B]),
    st.sampled_from([A, B]),
    st.sampled_from([ID, OTHER]),
    st.integers(0, 9),
    st.just(0),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.booleans(),
)


@given(st.lists(FACTS, max_size=6), st.randoms(), st.integers(0, 9))
def test_the_order_of_facts_changes_nothing_and_a_later_time_shows_a_part(
    facts: list[Fact], random: Random, since: int
) -> None:
    mixed = list(facts)
    random.shuffle(mixed)
    left = {A: Left(5, OTHER, 1, 0, 6)}
    whole = newest_first(of_lists(facts, {B}, left, 0))
    assert newest_first(of_lists(mixed, {B}, left, 0)) == whole
    assert newest_first(of_lists(facts, {B}, left, since)) == [
        o for o in whole if o.seen_at >= since
    ]
    assert len({one.pubkey for one in whole}) == len(whole)


def test_the_nameless_are_the_number_less_those_with_names() -> None:
    assert unnamed(None, 3) is None
    estimate = Figure(value=100, low=90, high=110)
    assert unnamed(estimate, 40) == Figure(value=60, low=50, high=70)
    assert unnamed(estimate, 95) == Figure(value=5, low=0, high=15)
    assert unnamed(Figure.at_least(50), 40) == Figure.at_least(10)
    assert unnamed(estimate, 40, 20) == Figure(value=40, low=30, high=70)
    words = "without names, from registers alone: about 5 (0 to 15) other people"
    assert People(since=0, people=(), unnamed=unnamed(estimate, 95)).nameless == words
    assert People(since=0, people=(), unnamed=unnamed(estimate, 110)).nameless == ""


def claim(**fields: object) -> Claim:
    return msgspec.structs.replace(Claim(relay="wss://r", status=ClaimStatus.OK), **fields)


def test_a_live_event_names_whom_registers_cannot() -> None:
    query, seen = count.followers(TARGET), Sightings()
    assert query.offset is not None
    without = hll.from_pubkeys([signer(7).pubkey], query.offset)
    seen.answered("wss://r", claim(method=Method.HLL, registers=without))
    r, other = ["wss://r"], ["wss://other"]
    seen.receive(query, "wss://r", follow(1), 50, r)
    seen.receive(query, "wss://r", follow(7), 60, r)
    seen.receive(query, "wss://other", follow(2), 70, other)  # it has not answered yet
    assert [(one.event.author.hex(), one.is_new) for one in seen.received] == [
        (signer(1).pubkey, True),
        (signer(7).pubkey, False),
        (signer(2).pubkey, False),
    ]
    reading = Reading(authors=frozenset(), events=frozenset(), complete=True)
    seen.answered("wss://r", claim(method=Method.EVENTS, reading=reading))
    seen.receive(query, "wss://r", follow(3), 80, r)
    assert len(seen.received) == 3
    for n in range(MOST_RECEIVED + 10):
        seen.receive(query, "wss://other", follow(2), n, other)
    assert len(seen.received) == MOST_RECEIVED


def test_a_live_author_is_new_only_where_no_relay_of_the_watch_has_the_key() -> None:
    query, relays = count.followers(TARGET), ["wss://a", "wss://b"]
    assert query.offset is not None
    empty, has = (hll.from_pubkeys([signer(n).pubkey], query.offset) for n in (7, 1))
    part = Reading(authors=frozenset(), events=frozenset(), complete=False)

    def is_new(*answers: Claim) -> bool:
        seen = Sightings()
        for url, one in zip(relays, answers, strict=False):
            seen.answered(url, one)
        seen.receive(query, "wss://a", follow(1), 50, relays)
        return seen.received[0].is_new

    a = claim(method=Method.HLL, registers=empty)
    assert not is_new(a)  # b has not answered yet
    assert not is_new(a, claim(method=Method.HLL, registers=has))
    assert not is_new(a, claim(method=Method.COUNT, count=1))
    assert not is_new(a, claim(method=Method.EVENTS, registers=empty, reading=part))
    whole = msgspec.structs.replace(part, complete=True)
    assert is_new(a, claim(method=Method.EVENTS, registers=empty, reading=whole))


async def test_a_later_copy_can_say_that_an_author_is_not_new_and_a_newer_list_cannot() -> None:
    query = count.followers(TARGET)
    first, newer = (held(at, n) for at, n in ((100, 1), (200, 2)))

    async def acts(*received: LiveEvent) -> list[str]:
        async with await WatchRepository.open(":memory:") as book:
            await book.database.write(
                lambda c: note_received(c, _number(c, query), _at(c, received), replaces=True)
            )
            return [one.act for one in (await _people(book, query, 900)).people]

    def live(event: HeldEvent, at: int, *, is_new: bool) -> LiveEvent:
        return LiveEvent(R, event, at, is_new)

    new, copy = live(first, 100, is_new=True), live(first, 101, is_new=False)
    assert await acts(new, copy) == ["follows"]
    assert await acts(copy._replace(at=100), new._replace(at=101)) == ["follows"]
    assert await acts(new, live(newer, 200, is_new=False)) == ["followed"]


def _at(conn: sqlite3.Connection, live: Iterable[LiveEvent]) -> list[tuple[int, LiveEvent]]:
    return [(relay_number(conn, one.url), one) for one in live]


def held(at: int, n: int, author: bytes = A) -> HeldEvent:
    return HeldEvent(at, n.to_bytes(32, "big"), author, 5)


def update(at: int, *found: HeldEvent) -> Update:
    return Update(start=0, end=None, upto=at, at=at, found=found)


async def _people(
    book: WatchRepository, query: count.Query, now: int, figure: Figure | None = None
) -> People:
    return await book.database.read(
        lambda conn: people_rows.read(conn, query, 0, now, figure=figure)
    )


async def test_who_follows_again_by_a_list_of_a_relay_of_the_start_follows() -> None:
    query = count.followers(TARGET)
    asked = asked_of(query)
    both = ("wss://a", "wss://b")
    async with await WatchRepository.open(":memory:") as book:
        a, b = [await book.claims.place(asked, url) for url in both]
        for place in (a, b):
            await place.use(lambda m: m.apply(update(1000, held(100, 1))))
            await place.use(lambda m: m.prove(1000))
        await b.use(lambda m: m.apply(update(2000)))
        gone = Departure(A, 150, OTHER, 4, 5, 2001)
        await book.database.write(
            lambda c: leave(c, _number(c, query), relay_number(c, "wss://b"), [gone])
        )
        assert [one.act for one in (await _people(book, query, 3000)).people] == ["unfollowed"]
        missing = await book.database.read(lambda conn: _missing(conn, asked.key, both, ()))
        assert missing == {}
        await a.use(lambda m: m.apply(update(4000, held(200, 3))))
        (one,) = (await _people(book, query, 5000)).people
        assert (one.act, one.at, one.seen_at) == ("followed", 200, 4000)
        missing = await book.database.read(lambda conn: _missing(conn, asked.key, both, ()))
        assert missing[A].created_at == 200  # an older list proves nothing any more


async def test_the_nameless_are_counted_against_those_whom_the_number_counts_by_name() -> None:
    query, now = count.followers(TARGET), 10 * KEEP
    assert query.offset is not None
    asked, keys = asked_of(query), [signer(n).pubkey for n in range(1, 121)]
    lists = [held(100, n, bytes.fromhex(key)) for n, key in enumerate(keys[:80], 1)]
    left = Retracted(lists={one.id: one.author for one in lists[:40]})
    read = claim(method=Method.EVENTS, count=80, asked_at=now, events_read=80, retracted=left)
    registers = hll.from_pubkeys(keys[40:80] + keys[100:], query.offset)
    async with await WatchRepository.open(":memory:") as book:
        place = await book.claims.place(asked, "wss://b")
        await place.use(lambda m: m.apply(update(1000, *lists)))
        await place.use(lambda m: m.prove(1000))
        nameless = claim(method=Method.HLL, count=60, registers=registers, asked_at=now)
        await book.claims.remember(asked, [("wss://b", read), ("wss://a", nameless)])
        figure = Figure(value=60, low=50, high=70)
        found = await _people(book, query, int(now), figure)
        assert (found.known, found.unnamed) == (80, Figure(value=20, low=10, high=30))
        found = await book.database.read(
            lambda c: people_rows.read(c, query, 0, int(now), figure=figure, excluded=["wss://b"])
        )
        assert found.unnamed == Figure(value=20, low=10, high=70)  # its people may be counted
        silent = msgspec.structs.replace(read, asked_at=now - KEEP - 1)
        await book.claims.remember(asked, [("wss://b", silent)])
        nobody = (await _people(book, query, int(now), figure)).unnamed
        assert nobody is not None
        assert nobody.value <= 20
        assert nobody.high == 70


async def test_registers_count_nobody_again_whom_live_events_name() -> None:
    query, now = count.followers(TARGET), int(10 * KEEP)
    assert query.offset is not None
    asked, keys = asked_of(query), [signer(n).pubkey for n in range(1, 8)]
    lists = [held(100, n, bytes.fromhex(key)) for n, key in enumerate(keys[:6], 1)]
    gone = Departure(bytes.fromhex(keys[5]), 150, OTHER, 4, 5, now)
    registers = hll.from_pubkeys(keys[:5], query.offset)
    nameless = claim(method=Method.HLL, count=5, registers=registers, asked_at=now)
    figure = Figure(value=5, low=5, high=6)
    async with await WatchRepository.open(":memory:") as book:
        await book.claims.remember(asked, [("wss://a", nameless)])
        live = [LiveEvent(R, one, now, True) for one in lists]
        await book.database.write(
            lambda c: note_received(c, _number(c, query), _at(c, live), replaces=True)
        )
        await book.database.write(lambda c: leave(c, _number(c, query), relay_number(c, R), [gone]))
        found = await _people(book, query, now + 1, figure)
    assert len(found.people) == 6
    assert found.unnamed == Figure(value=0, low=0, high=1)


async def test_registers_may_count_the_people_of_the_store() -> None:
    query, now = count.reactions(NOTE), START + 1000
    assert query.offset is not None
    registers = hll.from_pubkeys([signer(1).pubkey, signer(9).pubkey], query.offset)
    nameless = claim(method=Method.HLL, count=2, registers=registers, asked_at=now)
    async with await SqliteStore.open(":memory:", migrations=[CLAIMS, WATCHES]) as store:
        await store.save([stored_event(reaction(n)) for n in (1, 2)])
        await ClaimBook(store.database).remember(asked_of(query), [("wss://a", nameless)])
        found = await store.database.read(
            lambda conn: people_rows.read(
                conn, query, 0, now, figure=Figure(value=2, low=2, high=2)
            )
        )
    assert found.people == ()  # which relay gave these events is not known
    assert found.unnamed == Figure(value=1, low=1, high=2)


def test_a_list_names_each_key_once() -> None:
    tags = (("p", TARGET), ("p", TARGET, "wss://x"), ("p",), ("e", NOTE))
    event = signer(1).sign_now(EventTemplate(kind=3, tags=tags, created_at=1)).event
    assert people_named(event) == {TARGET}
    assert count.followers(TARGET).hold_any(event).amount == 1


async def test_the_store_adds_names_and_no_events_whose_relay_is_not_known() -> None:
    profile = EventTemplate(kind=0, content='{"name":"Ada\u202e"}', created_at=5)
    events = [reaction(1, at=300), reaction(2, at=300), signer(2).sign_now(profile).event]
    query = count.reactions(NOTE)
    given = query.hold(reaction(2, at=300))
    assert given is not None
    live = [LiveEvent(R, given, 300, True)]
    async with await SqliteStore.open(":memory:", migrations=[CLAIMS, WATCHES]) as store:
        await store.save([stored_event(one) for one in events])
        await store.database.write(
            lambda c: note_received(c, _number(c, query), _at(c, live), replaces=False)
        )
        found = await store.database.read(lambda conn: people_rows.read(conn, query, 200, 400))
    (one,) = found.people
    assert (one.act, one.pubkey, one.at, one.name) == (
        "reacted",
        signer(2).pubkey,
        300,
        "Ada\\x202e",
    )
    assert one.person.startswith("Ada\\x202e (npub1")
    more = "and 2 more: nostr-client watch people w"
    assert newest_names([one, one, one], 1, "w") == f"{one.who} reacted; {more}"


def _number(conn: sqlite3.Connection, query: count.Query) -> int:
    return query_number(conn, asked_of(query))


def test_a_zap_says_what_its_receipt_claims() -> None:
    zap = Person(act="zapped", pubkey=A.hex(), at=1, seen_at=1, event="00", amount=21_000)
    assert zap.what == "zapped 21 sats (claimed)"


async def test_of_the_answers_of_a_day_the_last_one_stays_for_a_quarter_year() -> None:
    query = count.followers(TARGET)
    async with await WatchRepository.open(":memory:") as book:
        for at, number in ((10.0, 1), (86_399.0, 2), (86_400.0, 3), (93 * 86_400.0, 4)):
            answer = claim(method=Method.COUNT, count=number, asked_at=at)
            await book.claims.remember(asked_of(query), [("wss://r", answer)])
            found = await book.database.read(
                lambda conn: past_answers(conn, asked_of(query).key, "wss://r")
            )
            assert found[0].count == number
        assert [one.count for one in found] == [4, 3]
        await book.claims.forget(asked_of(query))
        key = asked_of(query).key
        assert await book.database.read(lambda conn: past_answers(conn, key, "wss://r")) == []
