"""Whether a relay named everything that it holds: the proof by one REQ at each end."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.filters import Filter
from nostr_client.errors import NetworkError
from nostr_client.network.paging.snapshot import FEW, Edge, prove_ceiling, prove_floor
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.syncing import CONNECTION, NOTES, note, notes, plain
from tests.worlds import reaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.relay import Relay

HELD = notes(range(60))


class LeavesOutUntil(Behaviour):
    """Sends what is older than `until`, not what is of that second."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        asked = message[2]
        if "until" in asked:
            asked = asked | {"until": asked["until"] - 1}
        await super().on_req(peer, [*message[:2], asked])


class OldestFirst(Behaviour):
    """Sends the oldest events of a page first, and cuts at the other end."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        asked = Filter.from_json(message[2])
        for event in peer.relay.query([asked.replace(limit=None)])[::-1][: asked.limit]:
            await peer.send_event(message[1], event)
        await peer.send("EOSE", message[1])


class SendsAtMost(Behaviour):
    """Sends so many events of a page at most, whatever the limit is."""

    def __init__(self, most: int) -> None:
        self.most = most

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        for event in peer.relay.query([Filter.from_json(message[2])])[: self.most]:
            await peer.send_event(message[1], event)
        await peer.send("EOSE", message[1])


class HidesEverything(Behaviour):
    """Answers each REQ with EOSE alone, as relays do that keep a kind from strangers."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("EOSE", message[1])


class SendsJunk(Behaviour):
    """Sends an event beside the others that does not match."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await peer.send_event(message[1], reaction(1))
        await super().on_req(peer, message)


class SendsUnreadable(Behaviour):
    """Sends an EVENT frame beside the others that nobody can read."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("EVENT", message[1], {"id": "none"})
        await super().on_req(peer, message)


class RefusesReq(Behaviour):
    """Closes each REQ."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("CLOSED", message[1], "restricted: not for you")


def pairs(events: Sequence[VerifiedEvent]) -> list[tuple[int, bytes]]:
    return [(one.event.created_at, bytes.fromhex(one.event.id)) for one in events]


def lowest(events: Sequence[VerifiedEvent]) -> Edge | None:
    return Edge.lowest(pairs(events))


@asynccontextmanager
async def asked(
    behaviour: Behaviour, events: Sequence[Event]
) -> AsyncIterator[tuple[Relay, FaultyRelay]]:
    async with (
        FaultyRelay(behaviour, events=events) as server,
        NostrClient(server.url, options=CONNECTION) as client,
    ):
        yield client.pool.relay(server.url), server


@pytest.mark.parametrize("behaviour", [Behaviour(), OldestFirst(), LeavesOutUntil()])
@pytest.mark.parametrize("named", [60, 59, 55, 30, 1])
async def test_a_floor_is_proven_only_where_nothing_lies_below(
    behaviour: Behaviour, named: int
) -> None:
    async with asked(behaviour, plain(HELD)) as (relay, server):
        proof = await prove_floor(relay, NOTES, lowest(HELD[-named:]))
        assert proof.proven is (named == 60)
        assert {one.event.id for one in proof.beyond} <= {
            one.event.id for one in HELD[: 60 - named]
        }
        assert bool(proof.beyond) is (named < 60)
        assert proof.whole is (60 - named < FEW)
        assert server.verbs()["REQ"] <= 1 + isinstance(behaviour, LeavesOutUntil)


async def test_a_relay_that_named_nothing_is_asked_for_anything() -> None:
    async with asked(Behaviour(), plain(HELD)) as (relay, _):
        assert (await prove_floor(relay, NOTES, None)).beyond
        assert (await prove_floor(relay, Filter(kinds=[9]), None)).proven
        assert (await prove_floor(relay, Filter(), None)).beyond
        assert (await prove_ceiling(relay, NOTES, None)).beyond


async def test_ids_of_unknown_times_are_known_wherever_they_come() -> None:
    keys = {at: frozenset(key for _, key in pairs(HELD[:at])) for at in (4, 5)}
    async with asked(Behaviour(), plain(HELD)) as (relay, _):
        at_shared = lowest(HELD[5:])
        assert (await prove_floor(relay, NOTES, at_shared, needed=keys[5])).proven
        (beyond,) = (await prove_floor(relay, NOTES, at_shared, needed=keys[4])).beyond
        assert beyond.event.id == HELD[4].event.id
        several = [NOTES, Filter(kinds=[7])]
        assert (await prove_floor(relay, several, at_shared, needed=keys[5])).proven


@pytest.mark.parametrize("held", [0, 4, 5])
async def test_named_ids_without_times_must_come_where_nothing_else_is_known(held: int) -> None:
    needed = frozenset(key for _, key in pairs(HELD[:5]))
    async with asked(Behaviour(), plain(HELD[:held])) as (relay, _):
        assert (await prove_floor(relay, NOTES, None, needed=needed)).proven is (held == 5)


def test_the_oldest_of_several_edges_has_the_ids_of_its_second() -> None:
    one, other, later = Edge(5, frozenset({b"a"})), Edge(5, frozenset({b"b"})), Edge(6, frozenset())
    assert Edge.oldest([later, one, None, other]) == Edge(5, frozenset({b"a", b"b"}))
    assert Edge.oldest([None]) is None


async def test_a_snapshot_that_was_cut_within_a_second_is_seen() -> None:
    second = [note(number, at=1_700_000_000) for number in range(5)]
    async with asked(Behaviour(), plain([*second, *HELD[:0]])) as (relay, _):
        proof = await prove_floor(relay, NOTES, lowest(second[:3]))
        assert {one.event.id for one in proof.beyond} == {one.event.id for one in second[3:]}
        assert (await prove_floor(relay, NOTES, lowest(second))).proven


async def test_a_dense_second_proves_nothing_unless_the_relay_sends_larger_pages() -> None:
    second = [note(number, at=1_700_000_000) for number in range(20)]
    async with asked(SendsAtMost(20), plain(second)) as (relay, _):
        doubted = await prove_floor(relay, NOTES, lowest(second))
        assert not doubted.proven
        assert not doubted.beyond
        assert doubted.why
        assert (await prove_floor(relay, NOTES, lowest(second), largest=21)).proven


@pytest.mark.parametrize(
    "behaviour", [HidesEverything(), SendsJunk(), SendsUnreadable(), RefusesReq()]
)
async def test_an_answer_that_says_nothing_proves_nothing(behaviour: Behaviour) -> None:
    async with asked(behaviour, plain(HELD)) as (relay, _):
        for proof in (
            await prove_floor(relay, NOTES, lowest(HELD)),
            await prove_ceiling(relay, NOTES, Edge.highest(pairs(HELD))),
        ):
            assert not proof.proven
            assert proof.why


async def test_the_bounds_of_the_filter_hold() -> None:
    async with asked(Behaviour(), plain(HELD)) as (relay, _):
        since, until = HELD[20].event.created_at, HELD[40].event.created_at
        window = NOTES.replace(since=since, until=until)
        assert (await prove_floor(relay, window, lowest(HELD[20:41]))).proven
        assert (await prove_ceiling(relay, window, Edge.highest(pairs(HELD[20:41])))).proven
        assert not (await prove_floor(relay, window, lowest(HELD[22:41]))).proven


async def test_a_ceiling_shows_what_an_old_snapshot_lacks() -> None:
    async with asked(Behaviour(), plain(HELD)) as (relay, _):
        proof = await prove_ceiling(relay, NOTES, Edge.highest(pairs(HELD[:57])))
        assert {one.event.id for one in proof.beyond} == {one.event.id for one in HELD[57:]}
        assert proof.whole
        assert not (await prove_ceiling(relay, NOTES, Edge.highest(pairs(HELD[:30])))).whole


async def test_a_relay_that_is_gone_raises() -> None:
    async with asked(Behaviour(), plain(HELD)) as (relay, server):
        await server.stop()
        with pytest.raises(NetworkError):
            await prove_floor(relay, NOTES, lowest(HELD))
