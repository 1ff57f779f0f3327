"""Worlds of made-up relays through the real client: nothing is said that is not known.

200 worlds in the normal set and 5,000 with `-m long`; every hundredth runs over real sockets too.
A world that fails is made smaller and printed as the Python that makes it again:

    .venv/bin/python -m tests.worlds 17        # what the world of seed 17 gives, and smaller
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests.worlds.drawing import drawn
from tests.worlds.running import Report, ran
from tests.worlds.shrinking import described, smaller
from tests.worlds.sockets import ran_over_sockets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _pytest.mark import ParameterSet

FEW = tuple(range(start, start + 50) for start in range(0, 200, 50))
MANY = tuple(range(start, start + 500) for start in range(200, 5_200, 500))

PROVEN = 0.98
"""The part of what can be proven that must be called exact or complete."""

COVERS = 0.9
"""The part of intervals that must hold the truth; also beside mined keys and one lying count."""


def each_alone(chunks: Iterable[range]) -> list[ParameterSet]:
    """Each chunk as a parameter, in a process of its own where there are several."""
    return [
        pytest.param(seeds, id=str(seeds), marks=pytest.mark.xdist_group(f"worlds {seeds.start}"))
        for seeds in chunks
    ]


def check(seeds: range) -> None:
    """Fail with the first violation, made small; the seeds of all are printed."""
    reports = [ran(drawn(seed)) for seed in seeds]
    failed = [one for one in reports if one.violations]
    if not failed:
        check_proofs(reports)
        return
    sys.stdout.write(f"seeds that fail: {[one.world.seed for one in failed]}\n")
    small = smaller(failed[0].world, sorted(failed[0].kinds)[0])
    pytest.fail("\n".join([*small.violations, described(small.world)]), pytrace=False)


def check_proofs(reports: Sequence[Report]) -> None:
    """What could be proven was, nearly always: no promise is kept by saying nothing."""
    tally: Counter[str] = sum((one.tally for one in reports), Counter())
    sys.stdout.writelines(f"{n:6} {what}\n" for what, n in sorted(tally.items()))
    could = tally["count: proof was to be had"], tally["sync: proof was to be had"]
    did = tally["count: exact"], tally["sync: complete"]
    assert min(could) > 0
    assert did[0] >= PROVEN * could[0] - 1
    assert did[1] >= PROVEN * could[1] - 1
    assert tally["narrow: is"] >= COVERS * tally["narrow: was to be had"] - 2
    for what in [one for one in tally if one.startswith("interval") and "covers" in one]:
        assert tally[what] >= COVERS * tally[what.replace("covers", "estimated")] - 2, what


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", each_alone(FEW))
def test_nothing_is_said_that_is_not_known_and_what_is_proven_is(seeds: range) -> None:
    check(seeds)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seeds", each_alone(MANY))
def test_many_worlds(seeds: range) -> None:
    check(seeds)


def over_sockets(seed: int) -> None:
    report = ran_over_sockets(drawn(seed))
    assert not report.violations, f"world {seed} over sockets: {report.violations}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [0, 100])
def test_worlds_over_sockets(seed: int) -> None:
    over_sockets(seed)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(200, 5_200, 100))
def test_many_worlds_over_sockets(seed: int) -> None:
    over_sockets(seed)


def test_a_seed_is_one_world_and_one_outcome() -> None:
    for seed in chain(range(3), (1_000_000,)):
        first, second = ran(drawn(seed)), ran(drawn(seed))
        assert first.world == second.world
        assert first.violations == second.violations
        assert first.tally == second.tally
