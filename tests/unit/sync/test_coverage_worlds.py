"""Coverage equals a brute-force comparison of the relays' full contents, in random worlds."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from nostr_client.codecs import keys
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.keys import stored_event
from nostr_client.network.pool import RelayPool
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.coverage import Coverage, Look, by_ids, look
from nostr_client.sync.coverage.matrix import share
from tests.worlds import behaviours, clock
from tests.worlds.items import Item, Made, made
from tests.worlds.people import START, signer
from tests.worlds.relays import SimRelay
from tests.worlds.running import BEGINNING, OPTIONS, SYNCING
from tests.worlds.wire import MemoryTransport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

AUTHOR = signer(1).pubkey
KINDS = (1, 3, 5, 7)

_checked = functools.lru_cache(200_000)(keys._signature_holds)

WAYS: Sequence[tuple[behaviours.Behaviour, ...]] = (
    (),
    (behaviours.Negentropy(),),
    (behaviours.Negentropy(newest=7),),
    (behaviours.Negentropy(), behaviours.WorksThrough(9)),
    (behaviours.Negentropy(), behaviours.Cap(13)),
    (behaviours.Cap(11), behaviours.Finishes()),
    (behaviours.OldestFirst(of_all=True), behaviours.Cap(17)),
    (behaviours.Counts(), behaviours.Cap(12)),
)
"""Relays that can be read to the end, each in its way."""


class World:
    """Relays with parts of one author's events, and a store with a part, from a seed."""

    def __init__(self, seed: int) -> None:
        rand = random.Random(seed)
        notes = [Item("note", 1, rand.randrange(2_000), n) for n in range(rand.randrange(60))]
        reactions = [Item("reaction", 1, rand.randrange(2_000), n) for n in range(9)]
        follows = [Item("follow", 1, rand.randrange(2_000)) for _ in range(3)]
        gone = rand.sample(notes, min(len(notes), 4))
        deletions = [Item("deletion", 1, one.at + 10, of=one) for one in gone]
        others = [Item("note", 2, rand.randrange(2_000), n) for n in range(5)]
        self.items = [*notes, *reactions, *follows, *deletions, *others]
        self.since = START + 700 if rand.random() < 0.3 else None
        self.relays = [
            SimRelay(f"ws://r{i}.test", rand.choice(WAYS), self._part(rand), 0.01 * (i + 1))
            for i in range(rand.randrange(1, 5))
        ]
        self.local = self._part(rand) if rand.random() < 0.6 else None

    def _part(self, rand: random.Random) -> list[Item]:
        share = rand.choice([0.0, 0.5, 0.9, 1.0])
        part = [one for one in self.items if rand.random() < share]
        rand.shuffle(part)
        return part


class Truth:
    """What a world's relays hold, in plain Python. `known`: all events of the author."""

    def __init__(self, world: World, stored: Iterable[str]) -> None:
        since = world.since or 0
        every = {made(item).id: made(item) for item in world.items}
        self.held = {
            relay.url: {
                one.id: one
                for one in relay.held.values()
                if one.pubkey == AUTHOR and one.created_at >= since
            }
            for relay in world.relays
        }
        known = {key: one for row in self.held.values() for key, one in row.items()}
        known |= {key: every[key] for key in stored}
        self.deleted = {
            tag[1] for one in known.values() if one.kind == 5 for tag in one.tags if tag[0] == "e"
        }
        follows = sorted(
            (one for one in known.values() if one.kind == 3),
            key=lambda one: (-one.created_at, one.id),
        )
        old = {one.id for one in follows[1:]}
        self.known = {
            key: one for key, one in known.items() if key not in self.deleted and key not in old
        }

    def of(self, events: Iterable[Made], kind: int) -> set[str]:
        return {one.id for one in events if one.kind == kind}


async def looked_at(world: World, folder: Path) -> tuple[Coverage, set[str]]:
    """The coverage of a world, and the ids that its store has."""
    hosts = {relay.url: relay for relay in world.relays}
    pool = RelayPool(options=OPTIONS, transport=MemoryTransport(hosts, OPTIONS), rand=lambda: 0.5)
    now = clock.Clock(BEGINNING).now
    store = None
    try:
        if world.local is not None:
            store = await SqliteStore.open(folder / "store.db")
            await store.save([stored_event(parse_event(made(one).text)) for one in world.local])
        question = Look(author=AUTHOR, kinds=KINDS, since=world.since)
        relays = [(url, pool.relay(url)) for url in hosts]
        found = await look(question, relays, store=store, options=SYNCING, now=now)
        mine = await store.query([question.of(kind) for kind in KINDS]) if store else []
        return found, {one.id for one in mine}
    finally:
        await pool.close()
        if store is not None:
            await store.close()


def check(seed: int, folder: Path) -> None:
    """One world: the matrix is what the relays hold, if a list of six ids is long too."""
    world = World(seed)
    cached = mock.patch.object(keys, "_signature_holds", _checked)
    long = mock.patch.object(by_ids, "_LONG", 6 if seed % 2 else 2_000)
    found, stored = clock.run(lambda: looked_at(world, folder), [cached, long])
    truth = Truth(world, stored)
    for kind in KINDS:
        union = truth.of(truth.known.values(), kind)
        assert found.union(kind) == union, (seed, kind)
        for url, held in truth.held.items():
            cell = found.cell(url, kind)
            assert cell.whole, (seed, kind, cell.why)
            assert cell.held == truth.of(held.values(), kind), (seed, kind, url)
            assert found.lacking(url, kind) == frozenset(union - held.keys()), (seed, kind, url)
            assert found.held(url, kind) == len(union & held.keys())
    owed = {key for key, one in truth.known.items() if one.kind in KINDS}
    for url, held in truth.held.items():
        part = len(owed & held.keys()) / len(owed) if owed else None
        assert share(found, url) == part, (seed, url)
        assert found.undeleted(url) == held.keys() & truth.deleted, (seed, url)


@pytest.mark.parametrize("seeds", [range(at, at + 10) for at in range(0, 30, 10)])
def test_coverage_is_what_the_relays_hold(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        check(seed, folder)


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(at, at + 20) for at in range(30, 230, 20)])
def test_coverage_is_what_the_relays_hold_in_200_worlds(seeds: range, tmp_path: Path) -> None:
    test_coverage_is_what_the_relays_hold(seeds, tmp_path)


def test_a_relay_that_is_away_is_not_looked_at(tmp_path: Path) -> None:
    world = World(3)
    world.relays = [*world.relays[:1], SimRelay("ws://r9.test", [behaviours.Away(0)], [], 0.01)]
    world.local = None
    found, _ = clock.run(lambda: looked_at(world, tmp_path))
    assert found.lacking("ws://r9.test", 1) is None
    assert "refused" in found.cell("ws://r9.test", 1).why
    assert found.held("ws://r9.test", 1) == 0
