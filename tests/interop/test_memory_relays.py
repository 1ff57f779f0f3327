"""The 50 most followed and most reacted targets over three relay families, counted with a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.network.paging.snapshot import FEW
from tests.interop.test_count_relays import check, stored, top, truth, world

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count import CountResult, Query

pytestmark = pytest.mark.interop

BOTH = pytest.mark.parametrize("targets", [10, pytest.param(50, marks=pytest.mark.long)])


def read(results: list[CountResult]) -> int:
    return sum(claim.events_read for result in results for claim in result.relays)


@BOTH
@pytest.mark.timeout(400)
async def test_targets_are_right_now_and_when_asked_again(tmp_path: Path, targets: int) -> None:
    path = tmp_path / "kept.db"
    async with world(tmp_path) as made:
        asked: list[tuple[Query, int, int]] = []
        for target in top(made.followers, targets):
            people = len(made.followers[target])
            asked.append((count.followers(target), people, people))
        for note in top(made.reactors, targets):
            numbers = len(made.reactors[note]), len(made.reactions[note])
            asked.append((count.reactions(note), *numbers))
        assert len(asked) == 2 * targets
        rounds: list[list[CountResult]] = []
        for _ in range(2):
            async with NostrClient(timeout=20, store=path) as client:
                rounds.append([await check(client, q, made.all, p, e) for q, p, e in asked])
    first, second = rounds
    assert {str(c.method) for r in first for c in r.relays} == {"hll", "events"}
    for one, two in zip(first, second, strict=True):
        assert two.value is not None
        assert two.value == pytest.approx(one.value, abs=1)
    # One event a query and relay is read twice to find where the last reading ended. What a
    # relay has few of is read whole each time, as that alone proves a number.
    many = [n for n, one in enumerate(first) if read([one]) > 2 * FEW * len(one.relays)]
    assert many
    assert read([second[n] for n in many]) < read([first[n] for n in many]) / 2
    assert read(second) < read(first)


@BOTH
@pytest.mark.timeout(400)
async def test_targets_are_exact_where_every_relay_is_read(tmp_path: Path, targets: int) -> None:
    async with world(tmp_path) as made:
        relays = [made.local, made.silent]
        async with NostrClient(timeout=20, store=tmp_path / "kept.db") as client:
            events = {e.event.id: e.event for e in await stored(client, relays)}
            followers, reactors, reactions = truth(events.values())
            for target in top(followers, targets):
                people = len(followers[target])
                result = await check(client, count.followers(target), relays, people, people)
                assert result.exact
            for note in top(reactors, targets):
                numbers = len(reactors[note]), len(reactions[note])
                assert (await check(client, count.reactions(note), relays, *numbers)).exact
