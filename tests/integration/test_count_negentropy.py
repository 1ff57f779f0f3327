"""Counting again where the relay speaks NIP-77: only what changed is read, the claims stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nostr_client.client import NostrClient
from nostr_client.count import queries
from nostr_client.merge import Method
from tests.faulty_relay import FaultyRelay
from tests.negrelay import NEG_REFUSALS, RefusesNeg, SpeaksNeg
from tests.syncing import CONNECTION
from tests.worlds import NOTE, TARGET, follow, reaction

if TYPE_CHECKING:
    from pathlib import Path

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
        assert set(behaviour.sent) == {follow(i).id for i in range(60, 75)}
        assert len(behaviour.opened) == 1
        same = await client.count(FOLLOWERS)
        assert (same.value, len(behaviour.sent)) == (65, 15)


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
            assert (again.value, again.exact) == (40, True)
        if name in ("notice, strfry disabled", "silence"):
            assert len(behaviour.opened) == 1, "asked again what it does not know"
