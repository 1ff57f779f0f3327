"""Followers and reactions over relays of three families, against the truth from the file."""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from agent.relay.server import serve
from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs.event import Event, parse_event
from nostr_client.codecs.keys import VerifiedEvent, verify
from nostr_client.network.pool import RelayPool
from nostr_client.store.sqlite import SqliteStore
from tests.conftest import shared_path
from tests.peers.servers import local_relay, python_nostr_relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from nostr_client.count import CountResult, Query

pytestmark = pytest.mark.interop

LARGEST = 60_000  # bytes of an event: LocalRelay takes no more
TARGETS = 25
SEED = 2


class World(NamedTuple):
    """Three relays with parts of the events, and who follows and reacted on any of them."""

    own: str
    local: str
    silent: str
    followers: dict[str, set[str]]
    reactors: dict[str, set[str]]
    reactions: dict[str, set[str]]

    @property
    def all(self) -> list[str]:
        return [self.own, self.local, self.silent]


def chosen() -> list[VerifiedEvent]:
    """The newest contact list of everybody, and every reaction."""
    lists: dict[str, Event] = {}
    found: list[Event] = []
    with shared_path("data/events.jsonl").open("rb") as lines:
        for line in lines:
            event = parse_event(line)
            if len(line) > LARGEST or event.kind not in (3, 7) or event.first_tag("expiration"):
                continue
            if event.kind == 7:
                found.append(event)
            elif event.created_at > lists.get(event.pubkey, event).created_at - 1:
                lists[event.pubkey] = event
    return [verify(event) for event in [*lists.values(), *found]]


def truth(events: Iterable[Event]) -> tuple[dict[str, set[str]], ...]:
    followers: dict[str, set[str]] = defaultdict(set)
    reactors: dict[str, set[str]] = defaultdict(set)
    reactions: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.kind == 3:
            for pubkey in event.tag_values("p"):
                followers[pubkey].add(event.pubkey)
        else:
            for note in list(event.tag_values("e"))[-1:]:  # NIP-25: the last one is reacted to
                reactors[note].add(event.pubkey)
                reactions[note].add(event.id)
    return followers, reactors, reactions


def top(found: dict[str, set[str]], most: int = TARGETS) -> list[str]:
    """The most counted targets that a query can name: 64 lower-case hex digits."""
    fit = [t for t in found if len(t) == 64 and not t.strip("0123456789abcdef")]
    return sorted(fit, key=lambda t: (-len(found[t]), t))[:most]


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    events = chosen()
    rng = random.Random(SEED)
    parts = [[e for e in events if rng.random() < 0.6] for _ in range(3)]
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await SqliteStore.open(":memory:"))
        server = await stack.enter_async_context(serve(store, port=0))
        local = await stack.enter_async_context(local_relay())
        silent = await stack.enter_async_context(python_nostr_relay(folder))
        pool = await stack.enter_async_context(RelayPool())
        await store.save(parts[0])
        for url, part in zip((local, silent), parts[1:], strict=True):
            for event in part:
                await pool.relay(url).publish(event, 30)
        held = {e.event.id: e.event for part in parts for e in part}.values()
        yield World(server.url, local, silent, *truth(held))


async def check(
    client: NostrClient, query: Query, relays: list[str], people: int, events: int
) -> CountResult:
    result = await client.count(query, relays=relays)
    assert [str(claim.status) for claim in result.relays] == ["ok"] * len(relays), result
    for figure, true in ((result.authors, people), (result.events, events)):
        assert figure is not None
        assert figure.low <= true, (query, figure, true)
        assert figure.high is None or true <= figure.high, (query, figure, true)
        assert not figure.exact or figure.value == true
    return result


async def test_the_most_followed_and_reacted_targets(tmp_path: Path) -> None:
    async with world(tmp_path) as made, NostrClient(timeout=20) as client:
        methods = set()
        for target in top(made.followers):
            true = len(made.followers[target])
            result = await check(client, count.followers(target), made.all, true, true)
            methods |= {str(claim.method) for claim in result.relays}
            assert result.value == pytest.approx(true, abs=max(3, 0.2 * true))
        for note in top(made.reactors):
            true, events = len(made.reactors[note]), len(made.reactions[note])
            result = await check(client, count.reactions(note), made.all, true, events)
            assert result.value == pytest.approx(true, abs=max(2, 0.2 * true))
        assert methods == {"hll", "events"}


async def test_read_by_events_alone_the_number_is_exact(tmp_path: Path) -> None:
    async with world(tmp_path) as made, NostrClient(timeout=20) as client:
        events = {e.event.id: e.event for e in await stored(client, [made.local, made.silent])}
        followers, reactors, reactions = truth(events.values())
        relays = [made.local, made.silent]
        for target in top(followers):
            true = len(followers[target])
            assert (await check(client, count.followers(target), relays, true, true)).exact
        for note in top(reactors):
            query = count.reactions(note)
            result = await check(client, query, relays, len(reactors[note]), len(reactions[note]))
            assert result.exact


async def stored(client: NostrClient, relays: list[str]) -> list[VerifiedEvent]:
    from nostr_client.codecs.filters import Filter

    async with client.subscribe(Filter(kinds=[3, 7]), relays=relays, live=False) as events:
        return [event async for event in events]
