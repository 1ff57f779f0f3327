"""Counting again where the relay speaks NIP-77: only what changed is read, the claims stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.client import NostrClient
from nostr_client.count import queries
from nostr_client.count.merge import Method
from tests.faulty_relay import FaultyRelay
from tests.negrelay import NEG_REFUSALS, RefusesNeg, SpeaksNeg
from tests.syncing import CONNECTION
from tests.worlds import NOTE, START, TARGET, follow, reaction

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from tests.faulty_relay import Peer

FOLLOWERS, REACTIONS = queries.followers(TARGET), queries.reactions(NOTE)


async def test_the_second_count_reads_what_changed_and_sees_what_is_gone(tmp_path: Path) -> None:
    behaviour = SpeaksNeg()
    async with (
        FaultyRelay(behaviour, events=[follow(i) for i in range(60)]) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        first = await client.count(FOLLOWERS)
        assert (first.value, behaviour.opened) == (60, [])
        server.events = [follow(i) for i in range(10, 75)]
        behaviour.sent.clear()
        again = await client.count(FOLLOWERS)
        assert (again.value, again.exact) == (65, True)
        (claim,) = again.relays
        assert claim.method is first.relays[0].method is Method.EVENTS
        assert claim.events_read == 15 + 2  # and the events at both ends, which prove them
        assert set(behaviour.sent) == {follow(i).id for i in range(60, 75)}
        assert len(behaviour.opened) == 1
        same = await client.count(FOLLOWERS)
        assert (same.value, same.exact, len(behaviour.sent)) == (65, True, 15)
        assert same.relays[0].events_read == 2


async def test_old_events_that_came_late_leave_a_compared_relay_exact(tmp_path: Path) -> None:
    held = [follow(i, START + 600 * i) for i in range(60)]
    async with (
        FaultyRelay(SpeaksNeg(), events=held[20:]) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        assert (await client.count(FOLLOWERS)).value == 40
        server.events = held
        for _ in range(2):
            again = await client.count(FOLLOWERS)
            assert (again.value, again.low, again.high, again.exact) == (60, 60, 60, True)


@pytest.mark.parametrize("name", ["notice, strfry disabled", "silence", "closed, empty", "error"])
async def test_a_relay_that_refuses_is_read_by_pages_as_before(name: str, tmp_path: Path) -> None:
    behaviour = RefusesNeg(NEG_REFUSALS[name])
    async with (
        FaultyRelay(behaviour, events=[reaction(i) for i in range(30)]) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        assert (await client.count(REACTIONS)).value == 30
        server.events += [reaction(i) for i in range(30, 40)]
        for _ in range(2):
            again = await client.count(REACTIONS)
            assert (again.value, again.exact, again.high) == (40, False, None)
        if name in ("notice, strfry disabled", "silence"):
            assert len(behaviour.opened) == 1, "asked again what it does not know"


@pytest.mark.parametrize("cap", [10, 25, 40, 59])
async def test_a_capped_snapshot_takes_nothing_away_and_hides_nothing(
    cap: int, tmp_path: Path
) -> None:
    """Old events that came late and events that are gone lie below its floor."""
    behaviour = SpeaksNeg(snapshot=cap)
    async with (
        FaultyRelay(behaviour, events=[follow(i) for i in range(5, 65)]) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        assert (await client.count(FOLLOWERS)).value == 60
        server.events += [follow(i) for i in range(5)]
        del server.events[7], server.events[50]
        for _ in range(2):
            again = await client.count(FOLLOWERS)
            assert (again.value, again.exact) == (63, True)


async def test_a_snapshot_that_is_old_is_made_up_for_at_its_top(tmp_path: Path) -> None:
    behaviour = OldSnapshot([follow(i) for i in range(30)])
    async with (
        FaultyRelay(behaviour, events=[follow(i) for i in range(30)]) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        assert (await client.count(FOLLOWERS)).value == 30
        server.events += [follow(i) for i in range(30, 34)]
        for _ in range(2):
            again = await client.count(FOLLOWERS)
            assert (again.value, again.exact) == (34, True)
        assert behaviour.opened


async def test_a_relay_that_names_nothing_has_not_lost_everything(tmp_path: Path) -> None:
    """Strfry compares nothing for some kinds after AUTH."""
    behaviour = SpeaksNeg(snapshot=0)
    async with (
        FaultyRelay(behaviour, events=[follow(i) for i in range(30)]) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        for _ in range(3):
            assert (await client.count(FOLLOWERS)).value == 30
        server.events.clear()
        gone = await client.count(FOLLOWERS)
        assert (gone.value, gone.exact) == (0, True)


async def test_a_relay_that_names_what_it_does_not_send_is_not_exact(tmp_path: Path) -> None:
    hidden = follow(40)
    behaviour = SpeaksNeg(hides=[hidden.id])
    async with (
        FaultyRelay(behaviour, events=[follow(i) for i in range(30)]) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        assert (await client.count(FOLLOWERS)).value == 30
        server.events += [follow(33), hidden]
        again = await client.count(FOLLOWERS)
        assert (again.value, again.exact, again.high) == (31, False, None)


class CutsPages(SpeaksNeg):
    """Sends seven events of a page at most."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        asked = message[2] | {"limit": min(message[2].get("limit", 7), 7)}
        await super().on_req(peer, [*message[:2], asked])


async def test_a_page_of_ids_that_the_relay_cuts_makes_nothing_gone(tmp_path: Path) -> None:
    behaviour = CutsPages(snapshot=20)
    events = [follow(i) for i in range(60)]
    async with (
        FaultyRelay(behaviour, events=events) as server,
        NostrClient(server.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        first = await client.count(FOLLOWERS)
        assert first.value == 60
        behaviour.snapshot = 0
        assert (await client.count(FOLLOWERS)).value == 60


class OldSnapshot(SpeaksNeg):
    """Compares what it held some time ago."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        self.then = events

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        return [event for event in self.then if any(one.matches(event) for one in filters)]
