"""Full and failing disks and kill -9 at every door of a store, as real programs (`doors`).

Nothing acknowledged is lost, nothing refused is kept, and the index equals a rebuilt one.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

from tests.faulting.disk import FOR_EVER, KILLS, Calls, Fault, Kind, build
from tests.faulting.doors import Agent, Doors

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the shim is loaded by LD_PRELOAD"),
]

LOADED_S = 7_200
"""Seconds for a long run beside seven others on two cores: each attempt starts a program."""


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("shim"))


async def fail_often(folder: Path, shim: Path, seed: int, *, lives: int, rounds: int) -> int:
    """Agents that live with faults, then every other door with a fault; how many happened."""
    sys.stdout.write(f"seed {seed}\n")
    doors = Doors(folder, shim, random.Random(seed))
    await doors.begin()
    for _ in range(lives):
        await doors.life_of_an_agent(faults=10)
    for _ in range(rounds):
        await doors.one()
    doors.disk.close()
    sys.stdout.write(f"faults that happened: {doors.fired}\n")
    return sum(doors.fired.values())


async def restore_at_each(folder: Path, shim: Path, kind: Kind, calls: Calls, most: int) -> int:
    """Restore again and again, with one call after the other that fails; `most` of them.

    Each begins with the same store: one that grows has one more call with each that failed.
    """
    doors = Doors(folder, shim, random.Random(7))
    await doors.begin()
    beginning = doors.snapshot()
    for after in range(most):
        doors.go_back_to(beginning)
        fired = doors.disk.fired
        await doors.restoring(Fault(kind, after, 1, calls))
        if doors.disk.fired == fired:
            break
    else:
        after = most
    sys.stdout.write(f"calls that failed: {after}\n")
    assert after > 2
    await doors.truth.check(doors.path)
    doors.disk.close()
    return after


MOST_CALLS = 1_000
"""No restore of a small store has so many: each of them failed once when fewer did."""


async def test_a_restore_that_is_killed_leaves_the_old_store_or_the_new(
    tmp_path: Path, shim: Path
) -> None:
    await restore_at_each(tmp_path, shim, Kind.KILL_AFTER, Calls.NAMES, 12)


@pytest.mark.long
@pytest.mark.timeout(LOADED_S)
@pytest.mark.parametrize("kind", [Kind.KILL_BEFORE, Kind.KILL_HALF, Kind.IO_ERROR, Kind.NO_SPACE])
async def test_a_restore_that_fails_at_any_call(tmp_path: Path, shim: Path, kind: Kind) -> None:
    calls = Calls.WRITES | Calls.SIZES | Calls.SYNCS | Calls.NAMES
    if kind in KILLS:
        calls |= Calls.REMOVALS
    assert await restore_at_each(tmp_path, shim, kind, calls, MOST_CALLS) < MOST_CALLS


async def test_a_commit_whose_sync_failed_is_not_there_after_a_kill(
    tmp_path: Path, shim: Path
) -> None:
    """SQLite has written the whole commit by then, and would read it from the log again."""
    doors = Doors(tmp_path, shim, random.Random(5))
    await doors.begin()
    async with Agent.running(doors, "--set", "store.synchronous=full") as agent:
        await agent.publish()
        async with doors.faulty("agent", Fault(Kind.IO_ERROR, 0, FOR_EVER, Calls.SYNCS)):
            await agent.publish()
            assert doors.truth.absent
            await agent.end(kill=True)
    await doors.truth.check(doors.path)
    doors.disk.close()


async def test_faults_at_every_door(tmp_path: Path, shim: Path) -> None:
    assert await fail_often(tmp_path, shim, 1, lives=1, rounds=1) >= 7


@pytest.mark.long
@pytest.mark.timeout(LOADED_S)
@pytest.mark.parametrize("turn", range(10))
async def test_two_hundred_faults_at_every_door(tmp_path: Path, shim: Path, turn: int) -> None:
    assert await fail_often(tmp_path, shim, 1_000 * (turn + 1), lives=2, rounds=3) >= 15
