"""Several filters in one COUNT: asked so where the relay proved that it counts their union."""

from __future__ import annotations

from typing import Any

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.filters import Filter
from nostr_client.count.merge import Figure
from nostr_client.options import Options, Timeouts
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.worlds import START, follow, reaction

# They overlap in the reactions from 1000 s on, and cannot be folded into one.
FILTERS = [Filter(kinds=[7]), Filter(since=START + 1_000)]
EVENTS = [reaction(i) for i in range(150)] + [follow(i, START + 5_000) for i in range(40)]
OTHERS = [Filter(kinds=[3]), Filter(kinds=[7], until=START + 100)]


class PicksOne(Behaviour):
    """Counts one filter of several."""

    def __init__(self, index: int) -> None:
        self.index = index

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        filters = message[2:]
        await super().on_count(peer, [*message[:2], filters[self.index]])


class Adds(Behaviour):
    """Counts an event twice that two filters match."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        numbers = [len(peer.relay.query([Filter.from_json(one)])) for one in message[2:]]
        await peer.send("COUNT", message[1], {"count": sum(numbers)})


class RefusesSeveral(Behaviour):
    """One filter at most; `frames` are sent for more."""

    def __init__(self, *frames: list[Any]) -> None:
        self.frames = frames

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        if len(message) == 3:
            await super().on_count(peer, message)
        for frame in self.frames if len(message) > 3 else ():
            await peer.send(*frame, message[1], "error: one filter at a time")


def matching(filters: list[Filter]) -> int:
    return sum(any(one.matches(event) for one in filters) for event in EVENTS)


async def test_a_true_union_is_found_out_used_and_remembered() -> None:
    async with (
        FaultyRelay(events=EVENTS) as relay,
        NostrClient(relay.url, timeout=10, read=False) as client,
    ):
        first = await client.count(FILTERS)
        asked = relay.verbs()["COUNT"]
        second = await client.count(OTHERS)
        assert client.pool.relay(relay.url).capabilities.union is True
    assert (first.value, first.as_said) == (matching(FILTERS), True)
    assert (second.value, second.as_said) == (matching(OTHERS), True)
    assert relay.verbs()["COUNT"] == asked + 1
    last = [message for message in relay.received if message[0] == "COUNT"][-1]
    assert len(last) == 4


@pytest.mark.parametrize(
    "behaviour",
    [
        PicksOne(0),
        PicksOne(-1),
        Adds(),
        RefusesSeveral(["CLOSED"]),
        RefusesSeveral(),
    ],
    ids=["the first", "the last", "twice", "refuses", "silent"],
)
async def test_a_relay_that_counts_otherwise_is_asked_one_by_one(behaviour: Behaviour) -> None:
    options = Options(timeouts=Timeouts(count=0.5, group=5.0))
    async with (
        FaultyRelay(behaviour, events=EVENTS) as relay,
        NostrClient(relay.url, options=options, read=False) as client,
    ):
        first = await client.count(FILTERS)
        asked = relay.verbs()["COUNT"]
        second = await client.count(FILTERS)
        assert client.pool.relay(relay.url).capabilities.union is False
    assert relay.verbs()["COUNT"] == asked + 2, "tried once"
    alone = [matching([one]) for one in FILTERS]
    for result in (first, second):
        assert result.relays[0].status == "ok"
        assert result.events == Figure.at_least(max(alone), 0)
        assert any(f"{max(alone)} to {sum(alone)}" in text for text in result.relays[0].warnings)
