"""The second figure: how many of a count's authors are within a web of trust."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.event import Event, EventTemplate, Tags, parse_event
from nostr_client.codecs.keys import VerifiedEvent, stored_event, verify_many
from nostr_client.codecs.web_of_trust import Root
from nostr_client.count import followers, reactions, within, zaps
from nostr_client.count.within import KEYS_AT_ONCE
from nostr_client.errors import InvalidInput
from nostr_client.store.sqlite import SqliteStore
from tests.conftest import shared_path
from tests.faults import Pages
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.worlds import START, Sketches, signer
from tests.zapping import zap_tags

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count import Query
    from nostr_client.count.result import CountResult

ME = signer(0)
TARGET = "ab" * 32
LATER = START + 1_000


def pubkey_of(i: int) -> str:
    return signer(i).pubkey


def made(i: int, kind: int, tags: Tags = (), at: int = START) -> Event:
    template = EventTemplate(kind=kind, content="", tags=tags, created_at=at)
    return signer(i).sign_now(template).event


def follows(i: int, people: list[int], kind: int = 3) -> Event:
    return made(i, kind, tuple(("p", signer(one).pubkey) for one in people))


def fans(numbers: range, at: int = START) -> list[Event]:
    return [made(i, 3, (("p", TARGET),), at) for i in numbers]


async def store_at(path: Path, *events: Event) -> Path:
    async with await SqliteStore.open(path) as store:
        await store.save([stored_event(one) for one in events])
    return path


async def counted(
    store: Path, query: Query, *relays: FaultyRelay, within: str = "me", **how: Any
) -> CountResult:
    for relay in relays:
        await relay.start()
    try:
        async with NostrClient([r.url for r in relays], store=store, signer=ME, **how) as client:
            return await client.count(query, within=within)
    finally:
        for relay in relays:
            await relay.stop()


def newest_lists() -> dict[int, dict[str, Event]]:
    """The newest valid follow and mute list of each author among the shared events."""
    found: dict[int, dict[str, Event]] = {3: {}, 10000: {}}
    for line in shared_path("data/events.jsonl").read_bytes().splitlines():
        event = parse_event(line)
        if event.kind not in found or not isinstance(verify_many([event])[0], VerifiedEvent):
            continue
        known = found[event.kind].get(event.pubkey, event)
        newer = min(known, event, key=lambda one: (-one.created_at, one.id))
        found[event.kind][event.pubkey] = newer
    return found


def named_by(event: Event | None) -> set[str]:
    return set() if event is None else {tag[1] for tag in event.tags if tag[0] == "p"}


@pytest.mark.parametrize("targets", [10, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("behaviour", [Behaviour, Sketches])
async def test_the_figure_equals_a_brute_force_over_the_shared_events(
    tmp_path: Path, behaviour: type[Behaviour], targets: int
) -> None:
    """For the most followed keys at depth 1 and 2, from events and beside registers."""
    lists = newest_lists()
    follow, mute = lists[3], lists[10000]
    events = [*follow.values(), *mute.values()]
    near = {key: named_by(follow[key]) - named_by(mute.get(key)) - {key} for key in follow}
    root = max(near, key=lambda key: (len(near[key] & follow.keys()), key))
    far = set[str]().union(*(named_by(follow.get(one)) for one in near[root]))
    muted = [key for one in near[root] for key in named_by(mute.get(one))]
    follows = [key for one in near[root] for key in named_by(follow.get(one))]
    far = {key for key in far if follows.count(key) > muted.count(key)}
    webs = {1: near[root], 2: near[root] | (far - named_by(mute.get(root)) - {root})}
    often = Counter(key for one in follow.values() for key in named_by(one) if len(key) == 64)
    store = await store_at(tmp_path / "s.db", *events)
    async with (
        FaultyRelay(behaviour(), events=events) as relay,
        NostrClient([relay.url], store=store) as client,
    ):
        for target, _ in often.most_common(targets):
            for depth, web in webs.items():
                result = await client.count(followers(target), within=Root(root, depth))
                truth = sum(target in named_by(follow[key]) for key in web & follow.keys())
                assert result.within is not None
                assert result.within.figure is not None
                assert result.within.figure.value == truth
                assert result.within.people == len(web)


class Closes(Sketches):
    """Registers, and no events for anybody."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("CLOSED", message[1], "restricted: no")


class Capped(Pages):
    """Registers, and pages of seven events."""

    def __init__(self) -> None:
        super().__init__(cap=7)
        self.sketches = Sketches()

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await self.sketches.on_count(peer, message)


@pytest.mark.parametrize("seed", range(12))
async def test_the_figure_never_says_more_than_it_knows(tmp_path: Path, seed: int) -> None:
    """In random worlds: some follow no longer, relays miss lists, cap pages or refuse REQs."""
    rng, people = random.Random(seed), range(1, 60)
    web = set(rng.sample(people, 25))
    store = await store_at(tmp_path / "s.db", follows(0, sorted(web)))
    left = set(rng.sample(people, 10))
    relays: list[FaultyRelay] = []
    gives: set[int] = set()
    gone: set[int] = set()
    for _ in range(rng.randint(1, 3)):
        behaviour = rng.choice([Behaviour, Sketches, Capped, Closes])()
        old = {i for i in people if rng.random() < 0.6}
        new = {i for i in left if rng.random() < 0.6}
        lists = [made(i, 3, (("p", "cd" * 32),), LATER) for i in new]
        lists += [made(i, 3, (("p", TARGET),), START + i) for i in old - new]
        relays.append(FaultyRelay(behaviour, events=lists))
        if not isinstance(behaviour, Closes):
            gives |= old - new
            gone |= new
    result = await counted(store, followers(TARGET), *relays)
    assert result.within is not None
    figure, truth = result.within.figure, len(web & (gives - gone))
    closed = any(isinstance(relay.behaviour, Closes) for relay in relays)
    if figure is None:
        assert closed
        return
    assert figure.low <= truth
    assert figure.high is None or truth <= figure.high
    assert figure.exact != closed
    if figure.exact:
        assert figure.value == truth


class Requests(Sketches):
    """Registers; it remembers the filters of its REQs."""

    def __init__(self) -> None:
        super().__init__()
        self.filters: list[dict[str, Any]] = []

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        self.filters += message[2:]
        await super().on_req(peer, message)


@pytest.mark.parametrize("first", [Sketches, Behaviour])
@pytest.mark.parametrize("second", [Sketches, Behaviour])
async def test_people_one_knows_are_counted_exactly_beside_the_total(
    tmp_path: Path, first: type[Behaviour], second: type[Behaviour]
) -> None:
    """30 of 300 followers are followed by the key, whether relays send registers or events."""
    store = await store_at(tmp_path / "s.db", follows(0, [*range(1, 41)]))
    one = FaultyRelay(first(), events=fans(range(11, 200)))
    other = FaultyRelay(second(), events=fans(range(150, 300)))
    result = await counted(store, followers(TARGET), one, other)
    assert result.within is not None
    assert result.within.figure is not None
    assert (result.within.figure.value, result.within.figure.exact) == (30, True)
    assert (result.within.people, result.within.depth) == (40, 1)
    assert result.authors is not None
    assert result.authors.high is not None
    assert result.authors.low <= 289 <= result.authors.high


async def test_depth_2_and_mutes(tmp_path: Path) -> None:
    lists = [
        follows(0, [1, 2]),
        follows(0, [3], kind=10000),
        follows(1, [3, 4, 5]),
        follows(2, [6, 7]),
        follows(2, [5], kind=10000),
    ]
    store = await store_at(tmp_path / "s.db", *lists)
    relay = FaultyRelay(Sketches(), events=fans(range(2, 10)))
    result = await counted(store, followers(TARGET), relay, within="me:2")
    assert result.within is not None
    assert result.within.figure is not None
    assert (result.within.people, result.within.figure.value) == (5, 4)  # 1 2 4 6 7; not 3, 5
    assert result.within.figure.exact


async def test_a_missing_follow_list_makes_it_a_lower_bound(tmp_path: Path) -> None:
    store = await store_at(tmp_path / "s.db", follows(0, [1, 2]), follows(1, [3]))
    relay = FaultyRelay(Behaviour(), events=fans(range(1, 5)))
    result = await counted(store, followers(TARGET), relay, within="me:2")
    assert result.within is not None
    assert result.within.figure is not None
    assert result.within.figure.lower_bound
    assert "at least 3" in str(result.within)
    assert "1 follow list of 2 not stored" in str(result.within)


async def test_a_relay_that_fails_makes_it_a_lower_bound_and_none_of_all_is_not_known(
    tmp_path: Path,
) -> None:
    store = await store_at(tmp_path / "s.db", follows(0, [*range(1, 5)]))
    good, bad = FaultyRelay(Sketches(), events=fans(range(1, 9))), FaultyRelay(Closes())
    result = await counted(store, followers(TARGET), good, bad)
    assert result.within is not None
    assert result.within.figure is not None
    assert (result.within.figure.value, result.within.figure.exact) == (4, False)
    assert result.within.figure.lower_bound
    alone = FaultyRelay(Closes(), events=fans(range(1, 9)))
    result = await counted(store, followers(TARGET), alone)
    assert result.authors is not None
    assert result.within is not None
    assert result.within.figure is None
    assert "not known" in str(result.within)
    assert result.to_dict()["within"]["figure"] is None


async def test_who_left_by_a_newer_list_elsewhere_is_not_counted(tmp_path: Path) -> None:
    """One relay missed an unfollow; both send registers, so only asking by author shows it."""
    store = await store_at(tmp_path / "s.db", follows(0, [1, 2, 3]))
    left = made(1, 3, (("p", "cd" * 32),), LATER)
    old = FaultyRelay(Sketches(), events=fans(range(1, 6)))
    new = FaultyRelay(Sketches(), events=[left, *fans(range(2, 6))])
    result = await counted(store, followers(TARGET), old, new)
    assert result.within is not None
    assert result.within.figure is not None
    assert result.within.figure.value == 2


async def test_the_same_where_the_other_relay_was_read_anyway(tmp_path: Path) -> None:
    store = await store_at(tmp_path / "s.db", follows(0, [1, 2, 3]))
    left = made(1, 3, (("p", "cd" * 32),), LATER)
    old = FaultyRelay(Sketches(), events=fans(range(1, 6)))
    new = FaultyRelay(Behaviour(), events=[left, *fans(range(2, 6))])
    result = await counted(store, followers(TARGET), old, new)
    assert result.within is not None
    assert result.within.figure is not None
    assert result.within.figure.value == 2


async def test_only_public_follows_leave_in_requests_of_bounded_size(tmp_path: Path) -> None:
    people = [*range(1, 2 * KEYS_AT_ONCE + 50)]
    store = await store_at(tmp_path / "s.db", follows(0, people), follows(0, [3], kind=10000))
    requests = Requests()
    relay = FaultyRelay(requests, events=fans(range(1, 50)))
    result = await counted(store, followers(TARGET), relay)
    asked = [one["authors"] for one in requests.filters if one["kinds"] == [3]]
    assert asked
    assert max(map(len, asked)) <= KEYS_AT_ONCE
    named = {key for authors in asked for key in authors}
    assert named == {signer(one).pubkey for one in people if one != 3}
    assert result.within is not None
    assert result.within.figure is not None
    assert result.within.figure.value == 48


async def test_a_relay_that_the_user_did_not_name_does_not_learn_whom_he_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await store_at(tmp_path / "s.db", follows(0, [1, 2, 3]))
    requests = Requests()
    async with (
        FaultyRelay(requests, events=fans(range(1, 40))) as other,
        FaultyRelay(events=fans(range(1, 3))) as own,
        NostrClient([own.url, other.url], store=store, signer=ME) as client,
    ):
        monkeypatch.setattr(client.pool, "is_named", lambda url: url == own.url)
        result = await client.count(followers(TARGET), within="me")
    assert not [one for one in requests.filters if "authors" in one and one["kinds"] == [3]]
    assert result.within is not None
    assert result.within.figure is not None
    assert result.within.figure.lower_bound
    assert result.within.figure.low == 2


async def test_its_lists_are_not_compared_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unnamed relay gives events; whom it lacks of the web is no question for it."""
    store = await store_at(tmp_path / "s.db", follows(0, [1, 2, 3]))
    asked: list[dict[str, Any]] = []

    class Events(Behaviour):
        async def on_req(self, peer: Peer, message: list[Any]) -> None:
            asked.extend(message[2:])
            await super().on_req(peer, message)

    async with (
        FaultyRelay(Events(), events=fans(range(3, 40))) as other,
        FaultyRelay(Sketches(), events=fans(range(1, 30))) as own,
        NostrClient([own.url, other.url], store=store, signer=ME) as client,
    ):
        monkeypatch.setattr(client.pool, "is_named", lambda url: url == own.url)
        result = await client.count(followers(TARGET), within="me")
    assert asked
    assert not [
        one for one in asked if {ME.pubkey, *map(pubkey_of, (1, 2))} & {*one.get("authors", ())}
    ]
    assert result.within is not None
    assert result.within.figure is not None
    assert (result.within.figure.value, result.within.figure.lower_bound) == (3, True)


async def test_a_web_of_more_people_than_are_asked_for_gives_a_lower_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(within, "MOST_KEYS", 20)
    store = await store_at(tmp_path / "s.db", follows(0, [*range(1, 41)]))
    relay = FaultyRelay(Sketches(), events=fans(range(1, 41)))
    result = await counted(store, followers(TARGET), relay)
    assert result.within is not None
    assert result.within.figure is not None
    assert (result.within.figure.value, result.within.figure.exact) == (20, False)
    assert result.within.figure.lower_bound


async def test_a_deletion_that_a_relay_serves_beside_the_event_is_no_person(tmp_path: Path) -> None:
    store = await store_at(tmp_path / "s.db", follows(0, [1, 2, 3]))
    lists = fans(range(1, 6))
    gone = made(1, 5, (("e", lists[0].id),), LATER)
    relay = FaultyRelay(Sketches(), events=[*lists, gone])
    result = await counted(store, followers(TARGET), relay)
    assert result.within is not None
    assert result.within.figure is not None
    assert result.within.figure.low <= 2


async def test_reactions_and_payers_of_zaps_are_people_too(tmp_path: Path) -> None:
    note = made(9, 1)
    store = await store_at(tmp_path / "s.db", follows(0, [1, 2, 3]))
    likes = [made(i, 7, (("e", note.id),), START + i) for i in range(2, 8)]
    result = await counted(store, reactions(note.id), FaultyRelay(Sketches(), events=likes))
    assert result.within is not None
    assert result.within.figure is not None
    assert (result.within.figure.value, result.within.figure.exact) == (2, True)
    receipts = [
        made(100, 9735, zap_tags("210n", note.pubkey, ("e", note.id), at=i)) for i in (1, 2)
    ]
    result = await counted(store, zaps(note.id), FaultyRelay(events=[note, *receipts]))
    assert result.within is not None
    assert result.within.figure is not None
    assert result.within.figure.value <= 2


async def test_without_a_follow_list_nothing_is_asked(tmp_path: Path) -> None:
    store = await store_at(tmp_path / "s.db")
    relay = FaultyRelay(events=fans(range(1, 3)))
    with pytest.raises(InvalidInput, match="no follow list"):
        await counted(store, followers(TARGET), relay)
    assert not relay.received


async def test_without_a_store_or_reading_it_is_refused(tmp_path: Path) -> None:
    async with NostrClient(["ws://127.0.0.1:1"], signer=ME) as client:
        with pytest.raises(InvalidInput, match="store"):
            await client.count(followers(TARGET), within="me")
    store = await store_at(tmp_path / "s.db", follows(0, [1]))
    async with NostrClient(["ws://127.0.0.1:1"], store=store, signer=ME, read=False) as client:
        with pytest.raises(InvalidInput, match="reading"):
            await client.count(followers(TARGET), within="me")
