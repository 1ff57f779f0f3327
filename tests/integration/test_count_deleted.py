"""Events that relays still serve beside the request that deletes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs import nip19
from nostr_client.codecs.event import Event, EventTemplate, Tags
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import stored_event
from nostr_client.count.asking import CountRequest
from nostr_client.store.sqlite import SqliteStore
from tests.faulty_relay import FaultyRelay
from tests.negrelay import SpeaksNeg
from tests.worlds import START, signer
from tests.zapping import zap_tags

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count import Query
    from nostr_client.count.result import CountResult
    from tests.faulty_relay import Behaviour

TARGET = "ab" * 32
ALL = (("relay", "ALL_RELAYS"),)


def made(i: int, kind: int, tags: Tags = (), at: int = START) -> Event:
    template = EventTemplate(kind=kind, content="", tags=tags, created_at=at)
    return signer(i).sign_now(template).event


def noted(n: int) -> list[Event]:
    return [made(i, 1, (("t", "x"),), START + i) for i in range(n)]


def reacted(n: int) -> list[Event]:
    return [made(i, 7, (("e", TARGET),), START + i) for i in range(n)]


def followed(n: int) -> list[Event]:
    return [made(i, 3, (("p", TARGET),), START + i) for i in range(n)]


def titled(n: int) -> list[Event]:
    return [made(i, 30_023, (("d", "page"), ("t", "x")), START + i) for i in range(n)]


def zapped(n: int) -> list[Event]:
    receiver = signer(0).pubkey
    return [made(i, 9735, zap_tags("210n", receiver, at=i), START + i) for i in range(n)]


TAGGED = count.query(Filter(kinds=[1], tags={"#t": ["x"]}))
PAGES = count.query(Filter(kinds=[30_023], tags={"#t": ["x"]}))
LATER = START + 10_000


async def counted(
    query: Query, events: list[Event], *behaviours: Behaviour, relays: int = 2, **how: object
) -> CountResult:
    """What a client counts over relays that all serve all of these events."""
    async with NostrClient(**how) as client:
        made_relays = [FaultyRelay(*behaviours, events=events) for _ in range(relays)]
        for relay in made_relays:
            await relay.start()
        try:
            return await client.count(query, relays=[relay.url for relay in made_relays])
        finally:
            for relay in made_relays:
                await relay.stop()


BY_ID = {
    "filters by ids": (TAGGED, noted, [SpeaksNeg()]),
    "filters by events": (TAGGED, noted, []),
    "reactions": (count.reactions(TARGET), reacted, []),
    "followers": (count.followers(TARGET), followed, []),
    "zaps": (count.zaps(nip19.PublicKey(signer(0).pubkey).encode()), zapped, []),
}


@pytest.mark.parametrize("name", BY_ID)
@pytest.mark.parametrize("relays", [1, 2])
@pytest.mark.parametrize("how", ["by id", "vanished"])
async def test_an_event_that_its_author_deleted_comes_off_where_every_relay_serves_it(
    name: str, relays: int, how: str
) -> None:
    query, make, behaviours = BY_ID[name]
    if relays == 1 and query is TAGGED:
        return  # one relay alone says its count
    events = make(40)
    by_id = how == "by id"
    request = made(7, 5, (("e", events[7].id),), LATER) if by_id else made(7, 62, ALL, LATER)
    result = await counted(query, [*events, request], *behaviours, relays=relays)
    assert result.events is not None
    if name == "filters by ids" and not by_id:  # whose events they are is not known
        assert (result.value, result.as_said) == (40, True)
        return
    assert result.events.value == 39
    if result.merged.amount is not None:
        assert result.merged.amount.value == 39 * 21_000


async def test_a_version_that_its_author_deleted_by_its_address_comes_off() -> None:
    events = titled(40)
    address = f"30023:{events[7].pubkey}:page"
    result = await counted(PAGES, [*events, made(7, 5, (("a", address),), LATER)])
    assert result.events is not None
    assert result.events.value == 39
    earlier = await counted(PAGES, [*events, made(7, 5, (("a", address),), START)])
    assert earlier.events is not None
    assert earlier.events.value == 40


LISTS = {
    "profiles": count.query(Filter(kinds=[0])),
    "lists of two filters": count.query([Filter(kinds=[3]), Filter(kinds=[3], since=START)]),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("by", ["e", "a"])
async def test_a_list_that_its_author_deleted_comes_off_in_every_round(
    name: str, by: str, tmp_path: Path
) -> None:
    """The question names no key, so no newest lists are compared."""
    query = LISTS[name]
    (kind,) = query.filters[0].kinds or (0,)
    events = [made(i, kind, (), START + i) for i in range(40)]
    gone = {"e": events[7].id, "a": f"{kind}:{events[7].pubkey}:"}[by]
    request = made(7, 5, ((by, gone),), LATER)
    for _ in range(2):
        result = await counted(query, [*events, request], store=tmp_path / f"{by}.db")
        assert (result.value, result.low) == (39, 39)
        assert result.events == result.authors


async def test_a_version_counts_again_once_no_relay_has_the_newer_one(tmp_path: Path) -> None:
    old, new = titled(15), [made(i, 30_023, (("d", "page"), ("t", "x")), LATER) for i in range(10)]
    async with (
        FaultyRelay(events=new) as one,
        FaultyRelay(events=old) as other,
        NostrClient([one.url, other.url], store=tmp_path / "s.db") as client,
    ):
        assert (await client.count(PAGES)).value == 15
        assert (await client.count(PAGES, relays=[one.url])).value == 10
        assert (await client.count(PAGES)).value == 15
        assert (await client.count(PAGES, relays=[other.url])).value == 15
        one.events.clear()
        result = await client.count(PAGES)
        assert (result.value, result.exact) == (15, True)


async def test_a_version_stays_replaced_while_the_relay_of_the_newer_one_is_silent(
    tmp_path: Path,
) -> None:
    old, new = titled(15), [made(i, 30_023, (("d", "page"), ("t", "x")), LATER) for i in range(10)]
    async with FaultyRelay(events=old) as other:
        async with FaultyRelay(events=new) as one:
            urls = [one.url, other.url]
            async with NostrClient(urls, store=tmp_path / "s.db") as client:
                assert (await client.count(PAGES)).value == 15
        async with NostrClient(urls, store=tmp_path / "s.db") as client:
            result = await client.count(PAGES)
    assert (result.value, result.exact) == (15, False)


async def test_only_the_author_deletes_and_no_deletion_is_deleted() -> None:
    events = noted(40)
    foreign = made(8, 5, (("e", events[7].id),), LATER)
    result = await counted(TAGGED, [*events, foreign])
    assert result.value == 40
    deletions = count.query(Filter(kinds=[5], authors=[signer(9).pubkey]))
    mine = made(9, 5, (("e", events[9].id),), LATER)
    again = made(9, 5, (("e", mine.id),), LATER + 1)
    assert (await counted(deletions, [mine, again])).value == 2


@pytest.mark.parametrize(("n", "as_said"), [(100, False), (120, True)])
async def test_where_not_every_deletion_was_looked_for_the_number_is_what_relays_say(
    n: int, as_said: bool
) -> None:
    result = await counted(count.reactions(TARGET), reacted(n))
    assert (result.value, result.exact, result.as_said) == (n, True, as_said)


async def test_one_deletion_in_the_sample_has_all_looked_for() -> None:
    events = reacted(130)
    deletions = [made(i, 5, (("e", one.id),), LATER) for i, one in enumerate(events) if i % 2]
    result = await counted(count.query(Filter(kinds=[7])), [*events, *deletions])
    assert result.value == 65


async def test_what_was_looked_for_once_is_not_asked_again(tmp_path: Path) -> None:
    events = reacted(40)
    gone = made(7, 5, (("e", events[7].id),), LATER)
    async with (
        FaultyRelay(events=[*events, gone]) as relay,
        NostrClient(relay.url, store=tmp_path / "s.db") as client,
    ):
        first = await client.count(count.reactions(TARGET))
        asked = sum("#e" in one and one.get("kinds") == [5] for one in filters_of(relay))
        second = await client.count(count.reactions(TARGET))
        again = sum("#e" in one and one.get("kinds") == [5] for one in filters_of(relay))
    assert first.events is not None
    assert second.events is not None
    assert (first.events.value, second.events.value) == (39, 39)
    assert again == asked


async def test_later_only_new_events_are_asked_about(tmp_path: Path) -> None:
    *events, new = reacted(40)
    gone = made(39, 5, (("e", new.id),), LATER)
    async with (
        FaultyRelay(events=events) as relay,
        NostrClient(relay.url, store=tmp_path / "s.db") as client,
    ):
        await client.count(count.reactions(TARGET))
        before = len(filters_of(relay))
        relay.events += [new, gone]
        later = await client.count(count.reactions(TARGET))
        asked = [one for one in filters_of(relay)[before:] if one.get("kinds") == [5]]
    assert later.events is not None
    assert later.events.value == 39
    assert asked
    assert all(one["#e"] == [new.id] for one in asked)


async def test_two_counts_at_once_forget_no_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One count begins, another of the same question ends meanwhile: what both prove stays."""
    *events, new = reacted(40)
    gone = made(39, 5, (("e", new.id),), LATER)
    read, begun, going_on = CountRequest._read, asyncio.Event(), asyncio.Event()

    async def held_back(self: CountRequest) -> None:
        if not begun.is_set():
            begun.set()
            await going_on.wait()
        await read(self)

    async with (
        FaultyRelay(events=events) as relay,
        NostrClient(relay.url, store=tmp_path / "s.db") as client,
    ):
        await client.count(count.reactions(TARGET))
        relay.events += [new, gone]
        monkeypatch.setattr(CountRequest, "_read", held_back)
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(client.count(count.reactions(TARGET)))
            await begun.wait()
            quick = await client.count(count.reactions(TARGET))
            going_on.set()
        results = [quick, slow.result(), await client.count(count.reactions(TARGET))]
    assert [one.events and one.events.value for one in results] == [39, 39, 39]


@pytest.mark.parametrize("name", BY_ID)
@pytest.mark.parametrize("relays", [1, 2])
async def test_a_deletion_that_only_our_own_store_holds_counts(
    name: str, relays: int, tmp_path: Path
) -> None:
    query, make, behaviours = BY_ID[name]
    if relays == 1 and query is TAGGED:
        return  # one relay alone says its count
    events = make(40)
    foreign = made(8, 5, (("e", events[9].id),), LATER)
    mine = made(7, 5, (("e", events[7].id),), LATER)
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.save([stored_event(mine), stored_event(foreign)])
        result = await counted(query, events, *behaviours, relays=relays, store=store)
    assert result.events is not None
    assert result.events.value == 39


@pytest.mark.parametrize("how", ["by id", "vanished"])
async def test_a_deletion_that_comes_into_the_store_later_counts_and_costs_no_request(
    how: str, tmp_path: Path
) -> None:
    events = reacted(40)
    tags, kind = ((("e", events[7].id),), 5) if how == "by id" else (ALL, 62)
    counts, asked = [], []
    async with FaultyRelay(events=events) as relay:
        for requests in ([], [made(7, kind, tags, LATER)], []):
            async with await SqliteStore.open(tmp_path / "s.db") as store:
                await store.save([stored_event(one) for one in requests])
            async with NostrClient(relay.url, store=tmp_path / "s.db") as client:
                result = await client.count(count.reactions(TARGET))
                assert result.events is not None
                counts.append(result.events.value)
                asked.append(len(filters_of(relay)))
    assert counts == [40, 39, 39]
    assert asked[1] - asked[0] == asked[2] - asked[1]


def filters_of(relay: FaultyRelay) -> list[dict[str, object]]:
    return [one for message in relay.received if message[0] == "REQ" for one in message[2:]]
