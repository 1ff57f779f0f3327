"""Worlds of made-up relays through the real client: nothing is said that is not known.

200 worlds in the normal set and 5,000 with `-m long`; every hundredth runs over real sockets too.
A world that fails is made smaller and printed as the Python that makes it again:

    .venv/bin/python -m tests.worlds 17        # what the world of seed 17 gives, and smaller
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from itertools import chain

import pytest

from tests.worlds.drawing import drawn
from tests.worlds.running import Report, ran
from tests.worlds.shrinking import described, smaller
from tests.worlds.sockets import ran_over_sockets

CHUNK = 25
FEW = tuple(range(start, start + CHUNK) for start in range(0, 200, CHUNK))
MANY = tuple(range(start, start + 100) for start in range(200, 5_200, 100))

PROVEN = 0.98
"""The part of what can be proven that must be called exact or complete."""


@functools.cache
def reports(seeds: range) -> tuple[Report, ...]:
    return tuple(ran(drawn(seed)) for seed in seeds)


def check(seeds: range) -> None:
    """Fail with the first violation, made small; the seeds of all are printed."""
    failed = [one for one in reports(seeds) if one.violations]
    if not failed:
        return
    sys.stdout.write(f"seeds that fail: {[one.world.seed for one in failed]}\n")
    small = smaller(failed[0].world, sorted(failed[0].kinds)[0])
    pytest.fail("\n".join([*small.violations, described(small.world)]), pytrace=False)


def check_proofs(chunks: tuple[range, ...]) -> None:
    """What could be proven was, nearly always: no promise is kept by saying nothing."""
    tally: Counter[str] = sum((one.tally for c in chunks for one in reports(c)), Counter())
    sys.stdout.writelines(f"{n:6} {what}\n" for what, n in sorted(tally.items()))
    could = tally["count: proof was to be had"], tally["sync: proof was to be had"]
    did = tally["count: exact"], tally["sync: complete"]
    assert min(could) > 0
    assert sum(did) >= PROVEN * sum(could)
    assert did[0] >= PROVEN * could[0] - 1
    assert tally["interval: covers"] >= 0.9 * tally["interval: estimated"] - 2


@pytest.mark.parametrize("seeds", FEW, ids=str)
def test_nothing_is_said_that_is_not_known(seeds: range) -> None:
    check(seeds)


def test_what_can_be_proven_is_called_so() -> None:
    check_proofs(FEW)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", MANY, ids=str)
def test_nothing_is_said_that_is_not_known_in_many_worlds(seeds: range) -> None:
    check(seeds)


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_what_can_be_proven_is_called_so_in_many_worlds() -> None:
    check_proofs(MANY)


def over_sockets(seed: int) -> None:
    report = ran_over_sockets(drawn(seed))
    assert not report.violations, f"world {seed} over sockets: {report.violations}"


@pytest.mark.parametrize("seed", [seeds.start for seeds in FEW[::4]])
def test_worlds_over_sockets(seed: int) -> None:
    over_sockets(seed)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [seeds.start for seeds in MANY])
def test_many_worlds_over_sockets(seed: int) -> None:
    over_sockets(seed)


def test_a_seed_is_one_world_and_one_outcome() -> None:
    for seed in chain(range(3), (1_000_000,)):
        first, second = ran(drawn(seed)), ran(drawn(seed))
        assert first.world == second.world
        assert first.violations == second.violations
        assert first.tally == second.tally
