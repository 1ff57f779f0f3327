"""Random trees of stores under a bad network: at rest, the top is the sum of what was counted."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.unit.counters.fleet import Backup, Edge, Store

SUBJECTS = ("hits", "plays", "votes")
STEPS = 120


class Fleet:
    """A tree of 2 to 12 stores in up to three tiers, and the operations that befall it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now = 1_700_000_000
        size = rng.randint(2, 12)
        self.stores = [Store(f"s{n}", rng.choice((-1, -1, 1, 3))) for n in range(size)]
        self.edges: list[Edge] = []
        tiers: list[int] = [0]
        for n in range(1, size):
            above = rng.choice([m for m in range(n) if tiers[m] < 2])
            tiers.append(tiers[above] + 1)
            nostr = rng.random() < 0.4
            self.edges.append(Edge(rng, self.stores[above], self.stores[n], nostr=nostr))
        self.backups: dict[str, Backup] = {}
        self.seen: Counter[str] = Counter()

    def step(self) -> None:
        rng = self.rng
        self.now += rng.randint(0, 30)
        roll = rng.random()
        if roll < 0.35:
            store = rng.choice(self.stores)
            store.add(rng.choice(SUBJECTS), rng.choice((1, 1, 2, 10, -1, -3, 10**30)))
        elif roll < 0.62:
            rng.choice(self.edges).ask(rng, self.now)
        elif roll < 0.92:
            taken = rng.choice(self.edges).deliver(rng)
            self.seen[taken.outcome if taken else "lost"] += 1
        else:
            self.befall(rng.choice(self.stores))

    def befall(self, store: Store) -> None:
        what = self.rng.choice(("restart", "back up", "back up", "restore"))
        if what == "restart":
            store.restart()
        elif what == "back up":
            self.backups[store.name] = store.back_up()
        elif store.name in self.backups:
            store.restore(self.backups[store.name])
            self.seen["restored"] += 1

    def rest(self) -> None:
        """From the leaves up: nodes were made from the top down."""
        self.now += 100_000
        for edge in reversed(self.edges):
            edge.rest(self.now)

    def check(self) -> None:
        for subject in SUBJECTS:
            truth = sum(store.truth.get(subject, 0) for store in self.stores)
            assert self.stores[0].value(subject) == truth, subject

    def close(self) -> None:
        for store in self.stores:
            store.engine.close()


def run(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        fleet = Fleet(seed)
        try:
            for _ in range(STEPS):
                fleet.step()
            fleet.rest()
            fleet.check()
            fleet.rest()  # once more changes nothing
            fleet.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        finally:
            fleet.close()
        seen += fleet.seen
    return seen


def test_forty_fleets_come_to_the_sum_of_their_leaves() -> None:
    seen = run(range(40))
    for outcome in ("taken", "met", "stale", "again", "backwards", "lost", "restored"):
        assert seen[outcome], outcome


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
def test_four_hundred_fleets_come_to_the_sum_of_their_leaves(part: int) -> None:
    run(range(part * 100, part * 100 + 100))
