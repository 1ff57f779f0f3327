"""Random faults in every write path: nothing acknowledged lost, nothing refused kept, index equal.

Files that may not grow, SQLite's own SQLITE_FULL in store and index, writes that fail, kill -9.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from agent.maintenance.backup import back_up, restore
from nostr_client.store.index import update as index_update
from tests.faulting.truth import Truth
from tests.unit.store.fault_process import HOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are found by /proc")

PER_PROCESS = 5


def read(lines: list[str], truth: Truth) -> None:
    """Take in what one process printed before it was killed."""
    answered = [line.split(" ", 2) for line in lines if line.startswith(("ok ", "no "))]
    for answer, verb, *about in answered:
        ids = about[0].split(",") if about else []
        if verb == "save":
            (truth.acknowledged if answer == "ok" else truth.refused)(ids)
        elif verb == "delete" and answer == "ok":
            truth.removed(ids)
        elif verb == "count":
            truth.counted += answer == "ok"
    done = [" ".join(words[1:]) for words in answered]
    for line in lines:
        what = line.removeprefix("try ")
        if what != line and what not in done and what.startswith(("save ", "delete ")):
            truth.unanswered(what.split(" ", 1)[1].split(","))
    truth.uncounted += lines.count("try count 1") - done.count("count 1")


def run_faults(path: Path, seed: int, rng: random.Random) -> list[str]:
    """What a process printed until it was killed, some moments after its last fault."""
    command = [sys.executable, "-m", "tests.unit.store.fault_process", str(path), str(seed)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [*command, str(PER_PROCESS)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout is not None
        lines = []
        more = rng.randrange(12)
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if "end" in lines and len(lines) - lines.index("end") > more:
                break
        process.kill()
        lines += [line for line in process.stdout.read().split("\n")[:-1] if line]
    assert "end" in lines, lines[-3:]
    return lines


async def fail_often(folder: Path, processes: int, seed: int) -> None:
    sys.stdout.write(f"seed {seed}\n")
    rng, truth = random.Random(seed), Truth()
    path = folder / "s.db"
    for turn in range(processes):
        read(run_faults(path, seed + turn, rng), truth)
        await truth.check(path)
        back_up(path, folder / f"{turn}.db", lambda *_: None)
        if turn % 2:
            restore(folder / f"{turn}.db", path, force=True)
            await truth.check(path)
    assert truth.held
    assert truth.absent


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", HOT)


async def test_twenty_random_faults(tmp_path: Path) -> None:
    await fail_often(tmp_path, 20 // PER_PROCESS, seed=1)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("turn", range(10))
async def test_two_hundred_random_faults(tmp_path: Path, turn: int) -> None:
    await fail_often(tmp_path, 20 // PER_PROCESS, seed=1_000 * (turn + 1))
