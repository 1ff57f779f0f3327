"""What a digest may say: only what was asked in its time, and from when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from nostr_client import count, hll
from nostr_client.count.figures import LARGEST
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.count.remembering import asked_of
from nostr_client.counters.shown import StreamMoves
from nostr_client.watch import (
    Watch,
    WatchRepository,
    digest_rows,
    people_rows,
    points,
    repository,
)
from nostr_client.watch.digest import (
    MOST_NAMED,
    MOST_WATCHES,
    Digest,
    Newcomers,
    UnfinishedSync,
    WatchDigest,
    low_coverage,
)
from nostr_client.watch.history import Point
from nostr_client.watch.people import People, Person
from tests.agent.states import coverage_run
from tests.worlds import TARGET, signer

if TYPE_CHECKING:
    import sqlite3

DAY = 86_400
QUERY = count.followers(TARGET)
ASKED = asked_of(QUERY)
RELAY = "wss://r.example"


def answer(at: float, people: int) -> Claim:
    assert QUERY.offset is not None
    keys = [signer(n).pubkey for n in range(1, people + 1)]
    return given(at, hll.from_pubkeys(keys, QUERY.offset))


def given(at: float, registers: bytes) -> Claim:
    return Claim(
        relay=RELAY, status=ClaimStatus.OK, method=Method.HLL, registers=registers, asked_at=at
    )


def failure(at: float) -> Claim:
    return Claim(relay=RELAY, status=ClaimStatus.TIMEOUT, asked_at=at)


async def digest_of(
    *claims: Claim, since: float, now: float, exact: Point | None = None
) -> WatchDigest:
    async with await WatchRepository.open(":memory:") as book:
        await book.add(Watch(name="w", query="followers", target=TARGET))
        for one in claims:
            await book.claims.remember(ASKED, [(RELAY, one)])
        if exact is not None:
            await book.database.write(lambda conn: repository.asked(conn, "w", exact.at, exact))
        return await book.database.read(
            lambda conn: digest_rows.read(conn, "w", QUERY, int(since), int(now))
        )


async def test_a_watch_that_was_not_asked_has_no_change() -> None:
    point = Point.sample(10 * DAY, 5, 5, 5, exact=True, unit="distinct_authors")
    found = await digest_of(answer(10 * DAY, 5), since=20 * DAY, now=21 * DAY, exact=point)
    assert (found.new, found.asked_at, found.since) == (None, 10 * DAY, 20 * DAY)
    assert found.now == found.then == point
    assert found.lines[1:] == ["not asked since 1970-01-11 00:00"]


async def test_a_number_of_before_is_no_number_of_now() -> None:
    point = Point.sample(10 * DAY, 5, 5, 5, exact=True, unit="distinct_authors")
    claims = answer(10 * DAY, 5), failure(20 * DAY + 9)
    found = await digest_of(*claims, since=20 * DAY, now=21 * DAY, exact=point)
    assert found.asked_at == 20 * DAY + 9
    assert "no change" not in " ".join(found.lines)
    assert found.went == (RELAY,)


async def test_a_change_that_began_earlier_says_when() -> None:
    claims = answer(10 * DAY, 60), answer(90 * DAY, 160)
    found = await digest_of(*claims, since=90 * DAY - 3600, now=90 * DAY + 1)
    assert found.new is not None
    assert found.new.since == 10 * DAY
    assert " since 1970-01-11 00:00, as " in found.lines[1]
    found = await digest_of(*claims, since=10 * DAY, now=90 * DAY + 1)
    assert "since" not in found.lines[1]
    found = await digest_of(
        answer(10 * DAY, 60), answer(90 * DAY, 60), since=80 * DAY, now=91 * DAY
    )
    assert found.lines[1].startswith("no change seen; up to ")  # nor since the tenth day


async def test_three_digests_of_one_day_name_each_newcomer_once() -> None:
    day, found = 10 * DAY, []
    for hour in range(3):
        until = day + (hour + 1) * 3600
        said = [answer(at, 90 if at >= day + 5400 else 60) for at in range(day, until + 1, 900)]
        found.append(await digest_of(*said, since=until - 3600, now=until))
    assert [one.change for one in found] == ["same", "changed", "same"]
    new = found[1].new
    assert new is not None
    assert new.low <= 30 <= new.high
    assert (new.since, found[1].lines[1].count("since")) == (day + 3600, 0)


async def test_a_relay_that_goes_and_comes_is_named_once_a_day_for_each() -> None:
    day = 10 * DAY
    answers = [
        failure(day + at) if 3600 < at < 2 * 3600 + 60 else answer(day + at, 60)
        for at in range(0, 4 * 3600, 600)
    ]

    async def moves(hour: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        since, now = day + hour * 3600, day + (hour + 1) * 3600
        said = [one for one in answers if (one.asked_at or 0) <= now]
        found = await digest_of(*said, since=since, now=now)
        return found.came, found.went

    assert [await moves(hour) for hour in range(4)] == [
        ((), ()),
        ((), (RELAY,)),
        ((RELAY,), ()),
        ((), ()),
    ]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (5, "no change since 1970-01-11 00:00, exact"),
        (8, "+3 since 1970-01-11 00:00, exact then and now"),
    ],
)
def test_exact_numbers_say_from_when(value: int, line: str) -> None:
    then = Point.sample(10 * DAY, 5, 5, 5, exact=True, unit="distinct_authors")
    now = msgspec.structs.replace(then, at=21 * DAY, value=value)
    one = WatchDigest(
        name="w", query="followers", since=20 * DAY, asked_at=21 * DAY, now=now, then=then
    )
    assert one.lines[1] == line
    moved = msgspec.structs.replace(one, since=10 * DAY)
    assert " since " not in moved.lines[1]


async def test_a_failure_does_not_replace_the_registers_of_its_day() -> None:
    claims = answer(10 * DAY, 60), failure(10 * DAY + 9), answer(20 * DAY, 160)
    found = await digest_of(*claims, since=15 * DAY, now=21 * DAY)
    assert found.new is not None
    assert found.new.low <= 100 <= found.new.high
    assert (found.came, found.went) == ((RELAY,), ())
    later = await digest_of(*claims, failure(20 * DAY + 9), since=15 * DAY, now=21 * DAY)
    assert later.new == found.new
    assert (later.came, later.went) == ((), ())
    went = await digest_of(*claims, failure(20 * DAY + 9), since=20 * DAY, now=21 * DAY)
    assert (went.came, went.went) == ((), (RELAY,))
    gone = await digest_of(*claims, failure(20 * DAY + 9), since=21 * DAY, now=22 * DAY)
    assert (gone.asked_at, gone.went) == (20 * DAY + 9, ())


async def test_impossible_registers_give_no_impossible_number() -> None:
    claims = given(10 * DAY, bytes(256)), given(20 * DAY, b"\xff" * 256)
    found = await digest_of(*claims, since=15 * DAY, now=21 * DAY)
    assert found.new is not None
    assert found.new.low <= found.new.value <= found.new.high <= LARGEST


def point(at: int, value: int) -> Point:
    return Point.sample(at, value, value, value, exact=True, unit="distinct_authors")


RISEN = Newcomers(value=9, low=1, high=20, registers=2, since=1)
QUIET = Newcomers(value=0, low=0, high=9, registers=0, since=1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"new": RISEN}, "changed"),
        ({"new": QUIET}, "same"),
        ({"new": QUIET, "asked_at": 5}, "unknown"),
        ({"acts": {"followed": 1}, "asked_at": 5}, "changed"),
        ({"went": (RELAY,)}, "changed"),
        ({"then": point(5, 7), "now": point(15, 7)}, "same"),
        ({"then": point(5, 7), "now": point(15, 8)}, "changed"),
        ({"then": point(5, 7), "now": point(5, 7)}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_what_is_not_known_is_no_change_and_not_the_same(
    found: dict[str, Any], expected: str
) -> None:
    one = WatchDigest(**{"name": "w", "query": "followers", "since": 10, "asked_at": 20} | found)
    assert one.change == expected


async def test_people_who_are_not_named_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    person = Person(act="followed", pubkey="ab" * 32, at=15, seen_at=15, event="cd" * 32)
    found = People(since=10, people=(person,) * (MOST_NAMED + 2), more=30)
    monkeypatch.setattr(people_rows, "read", lambda *_, **__: found)
    one = await digest_of(since=10, now=20)
    assert (len(one.people), one.more) == (MOST_NAMED, 32)
    assert one.lines[-1] == f"and 32 more people: nostr-client watch people {one.name} --since 10"
    assert "and 32 more people" in Digest(since=0, until=60, watches=(one,)).summary[1]
    all_named = msgspec.structs.replace(one, more=0)
    assert not any("more" in line for line in all_named.lines)


def test_a_coverage_below_its_line_and_one_that_is_not_known() -> None:
    found = low_coverage("home", coverage_run(1.0, 0.98, 0.9499, None), 0.99)
    assert found is not None
    assert found.lines == [
        "home: wss://r1.example has 98.0 %, below 99.0 %",
        "home: wss://r2.example has 94.9 %, below 99.0 %",
        "home: how much wss://r3.example has is not known",
    ]
    assert low_coverage("home", coverage_run(1.0, 0.95)) is None
    assert low_coverage("home", None) is None
    failed = low_coverage("home", None, why="the store is full")
    assert failed is not None
    assert failed.lines == ["home failed: the store is full"]


def changed(name: str, value: int, of: int, **more: Any) -> WatchDigest:
    now = Point.sample(20, of, of, of, exact=False, unit="distinct_authors")
    new = msgspec.structs.replace(RISEN, value=value, high=value, registers=int(value > 0))
    return WatchDigest(name=name, query="followers", since=10, now=now, new=new, **more)


def test_watches_are_in_the_order_of_their_changes_and_those_without_are_one_line() -> None:
    watches = (
        changed("a-quiet", 0, 10),
        changed("b-tenth", 100, 1_000),
        changed("c-gone", 0, 10, went=(RELAY,)),
        WatchDigest(name="d-unknown", query="followers", since=10),
        changed("e-half", 10, 20),
        changed("f-quiet", 0, 10),
        changed("g-people", 0, 10, acts={"unfollowed": 2}),
    )
    digest = Digest(since=0, until=60, watches=watches)
    assert [title.split()[0] for title, _ in digest.sections()] == [
        *("e-half", "g-people", "b-tenth", "c-gone", "d-unknown"),
        "no",
    ]
    assert digest.sections()[-1].lines == [
        "2 watches: a-quiet (up to 0 may be new unseen), f-quiet (up to 0 may be new unseen)"
    ]
    assert [line.split(":")[0] for line in digest.summary[1:]] == [
        *("e-half", "g-people", "b-tenth", "c-gone"),
    ]


@pytest.mark.parametrize("value", [0, 7])
def test_the_text_of_200_watches_is_short_and_names_the_command_for_all(value: int) -> None:
    watches = tuple(changed(f"w{n:03}", value, 100) for n in range(200))
    digest = Digest(since=77, until=600, watches=watches)
    text = [line for title, lines in digest.sections() for line in (title, *lines)]
    assert len(text) <= 4 * MOST_WATCHES
    assert max(map(len, text)) < 80 * MOST_WATCHES
    assert sum(f"w{n:03}" in " ".join(text) for n in range(200)) == MOST_WATCHES
    (more,) = [line for line in text if f"and {200 - MOST_WATCHES} more" in line]
    assert more.endswith(": nostr-client digest --since 77 --format json")
    assert len(msgspec.json.decode(msgspec.json.encode(digest))["watches"]) == 200


def test_sections_begin_with_what_changed() -> None:
    quiet, moved = (WatchDigest(name=name, query="followers", since=10) for name in "ab")
    digest = Digest(
        since=0,
        until=60,
        watches=(quiet, msgspec.structs.replace(moved, went=(RELAY,))),
        counters=(StreamMoves(stream="app", counters=2, changed=0),),
        syncs=(UnfinishedSync(name="mine", outcome="partial", relays=(RELAY,)),),
    )
    assert digest.title == "from 1970-01-01 00:00 to 1970-01-01 00:01"
    assert [title for title, _ in digest.sections()] == [
        "b (followers)",
        "a (followers)",
        "counters of app",
        "syncs that are not complete",
    ]
    assert digest.sections()[-1].lines == [f"mine ended partial: {RELAY}"]


async def test_a_digest_begins_at_a_known_number_and_counts_no_change_twice() -> None:
    """Numbers of one minute may be one point: which of them was the first is not known."""
    minute = 600_000 * 60

    def point(at: int, value: int) -> Point:
        return Point.sample(at, value, value, value, exact=True, unit="distinct_authors")

    async with await WatchRepository.open(":memory:") as book:
        database = book.database
        await book.add(Watch(name="w", query="followers", target=TARGET))

        def record(conn: sqlite3.Connection) -> None:
            for at, value in ((3, 15), (6, 18), (16, 18), (56, 18), (70, 18), (130, 21)):
                repository.asked(conn, "w", minute + at, point(minute + at, value))

        await database.write(record)
        found = {
            at: await database.read(lambda conn, at=at: points.number_at(conn, "w", minute + at))
            for at in (0, 28, 60, 100, 200)
        }
    known = {at: one and (one.at - minute, one.value) for at, one in found.items()}
    assert known == {0: (3, 15), 28: (56, 18), 60: (56, 18), 100: (70, 18), 200: (130, 21)}


def test_a_young_watch_says_its_first_number() -> None:
    then = Point.sample(20 * DAY + 60, 18, 18, None, exact=False, unit="distinct_authors")
    now = msgspec.structs.replace(then, at=20 * DAY + 600, value=16, low=16)
    one = WatchDigest(name="w", query="followers", since=20 * DAY, now=now, then=then)
    told = "how far it changed is not known: at least 18 at 1970-01-21 00:01"
    assert one.lines[1] == told
    only = msgspec.structs.replace(one, then=now)
    assert only.lines[1] == "how far it changed is not known: there is no earlier number"
