"""Several relays and a filter without registers: their ids are united (NIP-77), or events read."""

from __future__ import annotations

import functools
import random
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.count.merge import CountUnit, Method
from nostr_client.count.queries import query
from nostr_client.negentropy.reconcile import Responder
from nostr_client.negentropy.storage import seal
from nostr_client.options import Options, ReadBudget, Timeouts
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.negrelay import Liar, SpeaksNeg
from tests.onebyone import OneByOne
from tests.worlds import START, signer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from nostr_client.count import CountResult

BOTH = Filter(kinds=[1, 7])
OPTIONS = Options(timeouts=Timeouts(group=8.0))


@functools.cache
def note(i: int, kind: int = 1) -> Event:
    """Event `i`, of one of 40 people."""
    at = START + 7 * i
    return signer(i % 40).sign_now(EventTemplate(kind=kind, content=f"{i}", created_at=at)).event


def notes(numbers: Collection[int]) -> list[Event]:
    return [note(i, 7 if i % 3 else 1) for i in numbers]


def deletion(i: int, by: int) -> Event:
    """Person `by` asks for the deletion of event `i`."""
    named = notes([i])[0].id
    template = EventTemplate(kind=5, tags=(("e", named),), created_at=START + 100_000)
    return signer(by).sign_now(template).event


class NoCount(SpeaksNeg):
    """NIP-77 without COUNT."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("CLOSED", message[1], "unsupported: no COUNT")


class Snapshot(SpeaksNeg):
    """Answers NIP-77 from its newest `most` events; `counts`: whether it knows COUNT."""

    def __init__(self, most_held: int, *, counts: bool) -> None:
        super().__init__()
        self.most_held = most_held
        self.counts = counts

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        events = peer.relay.query([Filter.from_json(message[2]).replace(limit=self.most_held)])
        engine = Responder(seal([(one.created_at, bytes.fromhex(one.id)) for one in events]))
        self.engines[peer, message[1]] = engine
        await self.answer(peer, message[1], engine, bytes.fromhex(message[3]))

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        if self.counts:
            await super().on_count(peer, message)
        else:
            await peer.send("CLOSED", message[1], "unsupported: no COUNT")


class Invents(SpeaksNeg):
    """Names `number` ids that nobody has, newer than its events, and counts them too."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.made_up = [(START + 10**6 + n, sha256(b"none %d" % n).digest()) for n in range(number)]

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        events = peer.relay.query([Filter.from_json(message[2])])
        items = [(event.created_at, bytes.fromhex(event.id)) for event in events]
        engine = Responder(seal([*items, *self.made_up]))
        self.engines[peer, message[1]] = engine
        await self.answer(peer, message[1], engine, bytes.fromhex(message[3]))

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        held = peer.relay.query([Filter.from_json(one) for one in message[2:]])
        await peer.send("COUNT", message[1], {"count": len(held) + len(self.made_up)})


class SendsSmallPages(SpeaksNeg):
    """Sends no more than `page` events for a REQ."""

    def __init__(self, page: int) -> None:
        super().__init__()
        self.page = page

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        for event in peer.relay.query([Filter.from_json(one) for one in message[2:]])[: self.page]:
            await peer.send_event(message[1], event)
        await peer.send("EOSE", message[1])


class World:
    """Relays with their events, and one client."""

    def __init__(self) -> None:
        self.stack = AsyncExitStack()
        self.relays: list[FaultyRelay] = []

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    async def relay(self, behaviour: Behaviour, events: Sequence[Event]) -> FaultyRelay:
        made = await self.stack.enter_async_context(FaultyRelay(behaviour, events=events))
        self.relays.append(made)
        return made

    async def count(self, asked: Filter = BOTH, **options: Any) -> CountResult:
        urls = [relay.url for relay in self.relays]
        async with NostrClient(urls, options=OPTIONS, **options) as client:
            result = await client.count(asked)
            stats = [client.pool.relay(url).stats for url in urls]
        self.received = sum(one.bytes_received for one in stats)
        return result


def bounds(result: CountResult) -> tuple[int | None, int | None, int | None, bool]:
    return result.value, result.low, result.high, result.exact


async def test_three_relays_are_united_by_their_ids_for_80_kilobytes() -> None:
    rng = random.Random(4)
    parts = [[i for i in range(932) if rng.random() < 0.386] for _ in range(3)]
    truth = len(set().union(*parts))
    twice = sum(sum(i in part for part in parts) > 1 for i in range(932))
    async with World() as world:
        for part in parts:
            await world.relay(SpeaksNeg(), notes(part))
        result = await world.count()
    assert (result.value, result.high, result.unit) == (truth, truth, CountUnit.EVENTS)
    assert result.low is not None
    assert 0.4 * twice < result.low <= twice + 30
    assert world.received <= 80_000
    assert {claim.method for claim in result.relays} == {Method.NEGENTROPY}
    assert f"{truth} events, as these relays say, at least {result.low}" in str(result)


async def test_what_few_ids_leave_open_is_fetched_and_exact() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(100)))
        await world.relay(NoCount(), notes(range(20, 120)))
        result = await world.count()
    assert bounds(result) == (120, 120, 120, True)
    assert "120 events, as these relays say" in str(result)


async def test_a_relay_without_nip77_is_read_beside_one_with_it() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(100)))
        await world.relay(Behaviour(), notes(range(20, 180)))
        result = await world.count()
        assert bounds(result) == (180, 180, 180, True)
        assert [claim.method for claim in result.relays] == [Method.NEGENTROPY, Method.EVENTS]
        small = await world.count(budget=ReadBudget(events=120))
    assert (small.value, small.high, small.lower_bound) == (160, None, True)


async def test_one_relay_alone_keeps_its_count() -> None:
    async with World() as world:
        relay = await world.relay(SpeaksNeg(), notes(range(100)))
        result = await world.count()
    assert (result.value, result.relays[0].method) == (100, Method.COUNT)
    assert set(relay.verbs()) == {"COUNT"}


async def test_filters_count_events_whoever_answers() -> None:
    mine = Filter(authors=[note(0).pubkey], kinds=[1])
    events = [
        signer(0).sign_now(EventTemplate(kind=1, content=str(n), created_at=START + n)).event
        for n in range(340)
    ]

    class Reads(Behaviour):
        async def on_count(self, peer: Peer, message: list[Any]) -> None:
            await peer.send("CLOSED", message[1], "unsupported: no COUNT")

    for behaviour in (Reads(), Behaviour(), SpeaksNeg()):
        async with World() as world:
            await world.relay(behaviour, events)
            result = await world.count(mine)
        assert (result.value, result.unit) == (340, CountUnit.EVENTS)


async def test_invented_ids_make_a_relay_a_bare_word() -> None:
    async with World() as world:
        for _ in range(2):
            await world.relay(SpeaksNeg(), notes(range(50)))
        liar = await world.relay(Invents(1_000), notes(range(50)))
        result = await world.count()
    assert (result.value, result.low, result.exact) == (50, 50, False)
    assert result.merged.excluded == (liar.url,)
    assert any("no event behind" in text for text in result.relays[2].warnings)


@pytest.mark.parametrize(
    "parts",
    [
        [range(400), range(20, 420)],
        [range(300), range(100, 400)],
        [range(400), range(20, 420), range(15, 415)],
    ],
    ids=["few alone", "many alone", "three relays"],
)
async def test_who_invents_ids_moves_nothing_of_what_the_others_prove(
    parts: list[range],
) -> None:
    found = []
    for lies in (False, True):
        async with World() as world:
            for part in parts:
                await world.relay(SpeaksNeg(), notes(part))
            if lies:
                await world.relay(Invents(1_000), notes(parts[0]))
            result = await world.count()
        found.append((result.value, result.low))
        if lies:
            assert result.merged.excluded == (world.relays[-1].url,)
    assert found[0] == found[1]


async def test_a_list_whose_oldest_id_has_no_event_is_read_instead() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(50)))
        await world.relay(Liar(1_000), notes(range(60)))
        result = await world.count()
    assert bounds(result) == (60, 60, 60, True)
    assert result.relays[1].method is Method.EVENTS


@pytest.mark.parametrize("counts", [True, False])
async def test_a_snapshot_of_the_newest_events_is_not_the_whole(counts: bool) -> None:
    async with World() as world:
        await world.relay(Snapshot(50, counts=counts), notes(range(150)))
        await world.relay(SpeaksNeg(), notes(range(100, 150)))
        result = await world.count()
    assert bounds(result) == (150, 150, 150, True)
    capped = result.relays[0]
    assert capped.method is Method.EVENTS
    assert any("names only 50" in text for text in capped.warnings)


async def test_a_set_that_is_said_to_be_empty_is_proven_by_a_req() -> None:
    async with World() as world:
        await world.relay(Snapshot(0, counts=True), notes(range(30)))
        await world.relay(SpeaksNeg(), [])
        result = await world.count()
        assert (result.value, result.low) == (30, 30)
        world.relays[0].events.clear()
        nothing = await world.count()
    assert bounds(nothing) == (0, 0, 0, True)


async def test_small_pages_of_an_honest_relay_are_no_lie() -> None:
    async with World() as world:
        await world.relay(SendsSmallPages(7), notes(range(60)))
        await world.relay(SpeaksNeg(), notes(range(40)))
        result = await world.count()
    assert bounds(result) == (60, 60, 60, True)


async def test_what_its_author_deleted_elsewhere_comes_off() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(60)))
        await world.relay(SpeaksNeg(), [*notes(range(50)), deletion(55, 15), deletion(56, 3)])
        await world.relay(Behaviour(), notes(range(60)))
        result = await world.count()
    assert bounds(result) == (59, 59, 59, True), "56 is deleted by a stranger only"


async def test_of_many_that_a_relay_lacks_a_deletion_in_the_sample_asks_about_all() -> None:
    gone = range(100, 250)
    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(300)))
        await world.relay(SpeaksNeg(), notes(range(300)))
        await world.relay(SpeaksNeg(), [*notes(range(100)), *(deletion(i, i % 40) for i in gone)])
        result = await world.count()
    assert bounds(result) == (150, 150, 150, True)


def article(i: int, at: int) -> Event:
    """A version of article `i`."""
    tags = (("d", f"{i}"),)
    template = EventTemplate(kind=30023, content=str(at), tags=tags, created_at=START + at)
    return signer(1).sign_now(template).event


async def test_of_two_versions_on_one_relay_alone_the_newer_counts() -> None:
    versions = [article(i, at) for at in (1, 2, 3) for i in range(12)]
    async with World() as world:
        await world.relay(NoCount(), [*versions, article(12, 1)])
        result = await world.count(Filter(kinds=[30023]))
    assert bounds(result) == (13, 13, 13, True)


async def test_of_two_versions_the_newer_counts() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(), [article(i, 1) for i in range(20)])
        await world.relay(SpeaksNeg(), [article(i, 2) for i in range(10, 25)])
        result = await world.count(Filter(kinds=[30023]))
    assert bounds(result) == (25, 25, 25, True)
    assert {claim.method for claim in result.relays} == {Method.EVENTS}


async def test_a_relay_that_says_it_has_too_many_is_neither_listed_nor_read() -> None:
    async with World() as world:
        big = await world.relay(SpeaksNeg(), notes(range(300)))
        await world.relay(SpeaksNeg(), notes(range(100)))
        result = await world.count(budget=ReadBudget(events=200))
        assert "NEG-OPEN" not in big.verbs()
    assert (result.lower_bound, result.relays[0].method) == (True, Method.COUNT)


async def test_a_silent_relay_does_not_keep_the_others_from_being_judged() -> None:
    class Silent(Behaviour):
        async def on_message(self, peer: Peer, message: list[Any]) -> None:
            return

    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(40)))
        await world.relay(SpeaksNeg(), notes(range(60)))
        await world.relay(Silent(), [])
        result = await world.count(timeout=4.0)
    assert (result.value, result.low, result.lower_bound) == (60, 60, True)


async def test_with_a_store_ids_are_listed_too_and_the_next_round_lists_them_again(
    tmp_path: Path,
) -> None:
    async with World() as world:
        first = await world.relay(SpeaksNeg(), notes(range(30)))
        await world.relay(SpeaksNeg(), notes(range(20, 60)))
        for number in (60, 65):
            result = await world.count(store=tmp_path / "s.db")
            assert bounds(result) == (number, number, number, True)
            assert {claim.method for claim in result.relays} == {Method.NEGENTROPY}
            assert not any(claim.events_read for claim in result.relays)
            first.events += notes(range(100, 105))


class LeavesOut(NoCount):
    """Leaves some ids out of its later lists, and still sends the events."""

    left_out: frozenset[str] = frozenset()

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        held = await super().neg_items(peer, filters)
        return [event for event in held if event.id not in self.left_out]


async def test_ids_that_a_later_list_leaves_out_are_asked_for(tmp_path: Path) -> None:
    behaviour = LeavesOut()
    amid = frozenset(note.id for note in notes(range(50, 60)))
    numbers, asked = [], []
    async with World() as world:
        one = await world.relay(behaviour, notes(range(300)))
        two = await world.relay(NoCount(), notes(range(280)))
        for round_ in range(5):
            if round_ == 2:  # amid the list, and not named any more
                behaviour.left_out = amid
                two.events[:] = notes([*range(50), *range(60, 280)])
            if round_ == 3:  # and gone
                one.events[:] = notes([*range(50), *range(60, 300)])
            one.received.clear()
            result = await world.count(store=tmp_path / "s")
            assert result.exact
            numbers.append(result.value)
            wanted = [set(m[2].get("ids", ())) for m in one.received if m[0] == "REQ"]
            asked.append(sum(amid <= ids for ids in wanted))
    assert numbers == [300, 300, 300, 290, 290]
    assert asked == [0, 0, 1, 1, 0], "a relay that names what it has pays nothing"


async def test_with_a_store_messages_are_read_and_not_listed(tmp_path: Path) -> None:
    def message(i: int) -> Event:
        return signer(1).sign_now(EventTemplate(kind=4, created_at=START + i)).event

    async with World() as world:
        await world.relay(SpeaksNeg(), [message(i) for i in range(20)])
        await world.relay(Behaviour(), [message(i) for i in range(10, 30)])
        result = await world.count(Filter(kinds=[4]), store=tmp_path / "s.db")
    assert bounds(result) == (30, 30, 30, True)
    assert {claim.method for claim in result.relays} == {Method.EVENTS}


async def test_with_a_store_what_was_read_is_compared_and_not_listed(tmp_path: Path) -> None:
    async with World() as world:
        first = await world.relay(SpeaksNeg(), notes(range(60)))
        async with NostrClient(first.url, options=OPTIONS, store=tmp_path / "s.db") as client:
            first.behaviour = Behaviour()
            named = client.pool.relay(first.url)
            named.learn(negentropy=False)
            await client.count(BOTH, relays=[first.url, "ws://127.0.0.1:9"])
            first.behaviour = SpeaksNeg()
            named.learn(negentropy=True)
            first.events += notes(range(100, 105))
            result = await client.count(BOTH, relays=[first.url, "ws://127.0.0.1:9"])
    assert (result.relays[0].method, result.relays[0].count) == (Method.EVENTS, 65)
    assert result.relays[0].events_read < 40


async def test_a_relay_that_compares_few_events_at_once_is_listed_by_windows() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(most=30), notes(range(200)))
        await world.relay(NoCount(most=50), notes(range(20, 220)))
        result = await world.count()
    assert bounds(result) == (220, 220, 220, True)
    assert {claim.method for claim in result.relays} == {Method.NEGENTROPY}
    assert not any(claim.events_read for claim in result.relays)


async def test_a_list_above_the_budget_is_a_lower_bound() -> None:
    async with World() as world:
        await world.relay(NoCount(), notes(range(400)))
        await world.relay(SpeaksNeg(), notes(range(100)))
        result = await world.count(budget=ReadBudget(events=200))
    long = result.relays[0]
    assert (long.method, long.count, long.limited, long.events_read) == ("negentropy", 200, True, 0)
    assert (result.exact, result.lower_bound, result.high) == (False, True, None)
    assert result.value is not None
    assert 200 <= result.value <= 300
    assert result.low is not None
    assert result.low <= 300


async def test_relays_that_are_asked_one_by_one_are_united_by_their_ids() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(40)))
        await world.relay(SpeaksNeg(), notes(range(20, 60)))
        async with OneByOne(world.relays, query(BOTH)) as one_by_one:
            first = await one_by_one.ask(0, 1)
            assert (first.value, first.exact) == (60, False), "the first was asked about nothing"
            result = await one_by_one.ask(0)
    assert bounds(result) == (60, 60, 60, True)
    assert {claim.method for claim in result.relays} == {Method.NEGENTROPY}
    assert not any(claim.events_read for claim in result.relays)


async def test_deletions_come_off_where_relays_are_asked_one_by_one() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(60)))
        await world.relay(SpeaksNeg(), [*notes(range(50)), deletion(55, 15), deletion(56, 3)])
        await world.relay(Behaviour(), notes(range(60)))
        async with OneByOne(world.relays, query(BOTH)) as one_by_one:
            result = await one_by_one.ask(0, 1, 2, 0, 1)
    assert bounds(result) == (59, 59, 59, True), "56 is deleted by a stranger only"


async def test_what_a_relay_was_not_asked_about_keeps_a_number_from_being_exact() -> None:
    async with World() as world:
        first = await world.relay(SpeaksNeg(), notes(range(30)))
        await world.relay(SpeaksNeg(), notes(range(30)))
        async with OneByOne(world.relays, query(BOTH)) as one_by_one:
            assert (await one_by_one.ask(0, 1)).exact
            first.events += notes(range(30, 35))
            late = await one_by_one.ask(0)
            assert (late.value, late.exact, late.low) == (35, False, 30)
            assert bounds(await one_by_one.ask(1)) == (35, 35, 35, True)


async def test_one_relay_alone_keeps_its_count_where_no_other_stands_beside_it() -> None:
    async with World() as world:
        await world.relay(SpeaksNeg(), notes(range(60)))
        async with OneByOne(world.relays, query(BOTH)) as one_by_one:
            result = await one_by_one.ask(0)
    assert result.relays[0].method is Method.COUNT
