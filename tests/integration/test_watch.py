"""Watching a query: rounds, live events in between, relays that come and go."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.network.outbox import RelayChoice
from nostr_client.watch.live import MISSED
from tests.faults import COUNT_REFUSALS, RefusesCount
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.worlds import NOTE, TARGET, Sketches, follow, reaction, signer

if TYPE_CHECKING:
    from collections.abc import Callable

    from nostr_client.codecs.event import Event
    from nostr_client.count.result import CountResult
    from nostr_client.watch import Watching

FOLLOWERS = count.followers(TARGET)
REACTIONS = count.reactions(NOTE)
LONG = 3600.0


def plain() -> Behaviour:
    """A relay that knows no COUNT."""
    return RefusesCount(COUNT_REFUSALS["notice, rnostr"])


async def publish(relay: FaultyRelay, event: Event) -> None:
    """The relay gets an event, and tells whoever listens."""
    relay.events.append(event)
    for peer in relay.peers:
        for name, filters in list(peer.subscriptions.items()):
            if any(one.matches(event) for one in filters):
                await peer.send_event(name, event)


async def until(watching: Watching, value: int) -> CountResult:
    """The first result with this value."""
    async with asyncio.timeout(20):
        async for result in watching:
            if result.value == value:
                return result
    raise AssertionError("it ended")


async def listening(relay: FaultyRelay, times: int = 1) -> None:
    """Wait until somebody has asked for new events so many times."""
    asked = 1
    while True:
        messages = await relay.heard("REQ", asked, within=20)
        live = [m for m in messages if "since" in m[2] and m[2].get("limit") == MISSED]
        if len(live) >= times:
            return
        asked = len(messages) + 1


def reaction_now(person: int) -> Event:
    """A reaction that is written now."""
    template = EventTemplate(kind=7, content="+", tags=(("e", NOTE),), created_at=int(time.time()))
    return signer(person).sign_now(template).event


@pytest.mark.parametrize("behaviour", [plain, Sketches])
async def test_live_events_change_the_number_between_rounds(
    behaviour: Callable[[], Behaviour],
) -> None:
    relay = FaultyRelay(behaviour(), events=[reaction(i) for i in range(20)])
    async with (
        relay,
        NostrClient(relay.url, timeout=5) as client,
        client.watch(REACTIONS, interval=LONG) as watching,
    ):
        first = await anext(watching)
        assert (first.relays[0].count, first.relays[0].registers is not None) == (20, True)
        await listening(relay)
        await publish(relay, reaction_now(77))
        async with asyncio.timeout(20):
            second = await anext(watching)
        assert second.relays[0].count == 21
        assert second.relays[0].registers != first.relays[0].registers


async def test_a_live_event_that_does_not_hold_changes_nothing() -> None:
    relay = FaultyRelay(plain(), events=[reaction(i) for i in range(20)])
    async with (
        relay,
        NostrClient(relay.url, timeout=5) as client,
        client.watch(REACTIONS, interval=LONG) as watching,
    ):
        assert (await anext(watching)).value == 20
        await listening(relay)
        forged = msgspec.structs.replace(reaction_now(78), content="-")
        await publish(relay, forged)
        await publish(relay, reaction_now(79))
        assert (await until(watching, 21)).value == 21


async def test_later_rounds_read_what_is_new_and_see_what_was_removed() -> None:
    relay = FaultyRelay(events=[reaction(i) for i in range(2000)])
    async with (
        relay,
        NostrClient(relay.url, timeout=5) as client,
        client.watch(REACTIONS, interval=LONG, live=False) as watching,
    ):
        first = await anext(watching)
        relay.events.append(reaction(2900))
        del relay.events[3]
        watching.hurry()
        second = await anext(watching)
    assert (first.value, second.value) == (2000, 2000)
    assert second.events is not None
    assert not second.events.exact  # a reaction to something else is counted by the relay too
    assert not second.exact
    assert second.relays[0].events_read < 500  # the overlap of an hour holds 360


async def test_a_relay_that_goes_away_is_counted_with_what_it_said() -> None:
    relay = FaultyRelay(Sketches(), events=[follow(i) for i in range(100)])
    async with (
        relay,
        NostrClient(relay.url, timeout=1) as client,
        client.watch(FOLLOWERS, interval=10.0, live=False) as watching,
    ):
        assert (await anext(watching)).value == 100
        await relay.stop()
        watching.hurry()
        later = await anext(watching)
    assert later.value == 100
    assert later.relays[0].status == "unreachable"


async def test_iterating_without_a_context_ends_with_the_client() -> None:
    async with FaultyRelay(Sketches(), events=[follow(0)]) as relay:
        client = NostrClient(relay.url)
        watching = client.watch(FOLLOWERS, interval=LONG)
        assert (await anext(watching)).value == 1
        waiting = asyncio.ensure_future(anext(watching))
        await client.close()
        with pytest.raises(StopAsyncIteration):
            await waiting


async def test_errors_of_the_caller_come_out_of_the_iteration() -> None:
    async with NostrClient() as client:
        with pytest.raises(InvalidInput):
            client.watch(FOLLOWERS, interval=1.0)
        with pytest.raises(InvalidInput, match="no relay"):
            await anext(client.watch(FOLLOWERS))


async def test_relays_come_from_the_list_of_the_target_and_a_private_one_is_refused() -> None:
    """The stranger's list names a relay of this machine: it is never connected to."""
    author = signer(1)
    asked = count.followers(author.pubkey)
    async with FaultyRelay(Sketches(), events=[]) as trap, FaultyRelay() as index:
        tags = (("r", trap.url), ("r", "wss://relay.invalid", "write"))
        listed = author.sign_now(EventTemplate(kind=10002, tags=tags, created_at=1))
        index.events.append(listed.event)
        choice = RelayChoice(indexers=(index.url,), defaults=(index.url,))
        async with NostrClient(choice=choice, timeout=5) as client:
            result = await client.count(asked)
    assert [claim.relay for claim in result.relays] == [index.url]
    assert trap.connections == 0


async def test_a_name_that_resolves_to_this_machine_is_not_connected_to() -> None:
    """`localhost` by another name: what the resolver says is checked as well."""
    async with FaultyRelay(events=[follow(0)]) as relay, NostrClient(timeout=3) as client:
        stranger = client.pool.relay(relay.url, stranger=True)
        with pytest.raises(NetworkError, match="not a public address"):
            await stranger.count(FOLLOWERS.filters)
    assert relay.connections == 0
