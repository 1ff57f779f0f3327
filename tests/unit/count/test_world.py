"""Thirty days over twelve relays, many times: is the interval right, is exact exact, is all read?

A tenth of the worlds by default, all of them with `-m long`. Each world's seed stands in its id.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import pytest

from nostr_client.count.claims.coverage import DAY
from tests.simulated_world import DAYS, STEP, SimPeer, World

if TYPE_CHECKING:
    from nostr_client.count.result import CountResult

ROUNDS = DAYS * DAY // STEP
FEW, MANY = range(20), range(20, 220)


class Seen(NamedTuple):
    """What a world looked like on its last day, for three choices of relays, and a week later."""

    seed: int
    numbers: dict[str, tuple[CountResult, int]]
    skipped: dict[str, int]
    read_most: float
    lying_used: tuple[str, ...]
    skipped_later: dict[str, int]
    left_later: dict[str, int]


@functools.cache
def seen(seed: int) -> Seen:
    world = World(seed)
    for _ in range(ROUNDS):
        world.round()
    world.round(claims=True)
    choices: dict[str, list[SimPeer]] = {
        "all": world.peers,
        "read": [p for p in world.peers if p.by_events],
        "counting": [p for p in world.peers if p.name == "counting1"],
    }
    results = {name: world.result(peers) for name, peers in choices.items()}
    numbers = {n: (r, world.truth(r, choices[n])) for n, r in results.items()}
    skipped, read_most = world.skipped(), world.read_most / world.read_first
    lying = next(p.used for p in results["all"].merged.parts if p.relay == "lying")
    world.changing = False
    for _ in range(8 * DAY // STEP):
        world.round()
    return Seen(seed, numbers, skipped, read_most, lying, world.skipped(), world.left())


def is_covered(result: CountResult, truth: int) -> bool:
    low, high = result.low, result.high
    return low is not None and low <= truth and (high is None or truth <= high)


def check_worlds(seeds: range) -> None:
    worlds = [seen(seed) for seed in seeds]
    for name in ("all", "read", "counting"):
        missed = [w.seed for w in worlds if not is_covered(*w.numbers[name])]
        assert len(missed) <= 0.07 * len(worlds), f"{name}: not covered in the worlds {missed}"
    for world in worlds:
        for name, (result, truth) in world.numbers.items():
            if result.exact:
                assert result.value == truth, f"world {world.seed}, {name}: not exact"


def test_numbers_hold_on_the_last_day() -> None:
    check_worlds(FEW)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_numbers_hold_on_the_last_day_of_many_worlds() -> None:
    check_worlds(MANY)
    for seed in MANY:
        check_reading(seed)


def check_reading(seed: int) -> None:
    world = seen(seed)
    # What comes days late can be unseen for a week at most; nothing else, ever.
    punctual = {name: n for name, n in world.skipped.items() if name not in ("late", "away")}
    assert not any(punctual.values()), f"world {seed}: {world.skipped}"
    assert not any(world.skipped_later.values()), f"world {seed}: {world.skipped_later}"
    assert not any(world.left_later.values()), f"world {seed}: {world.left_later}"
    assert world.read_most < 0.05, f"world {seed}: a round read {world.read_most:.1%} of the first"


@pytest.mark.parametrize("seed", FEW)
def test_no_event_is_skipped_and_little_is_read_twice(seed: int) -> None:
    check_reading(seed)


def test_the_worlds_say_exact_and_their_liars_are_found() -> None:
    """A test of the test: the worlds have both kinds of numbers, and relays that lie."""
    worlds = [seen(seed) for seed in FEW]
    exact = [w.numbers["counting"][0].exact for w in worlds]
    assert sum(exact) > 5
    assert sum("registers" in w.lying_used for w in worlds) <= len(worlds) / 3
