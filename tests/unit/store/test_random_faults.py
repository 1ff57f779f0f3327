"""Random faults in every write path: nothing acknowledged lost, nothing refused kept, index equal.

Files that may not grow, SQLite's own SQLITE_FULL in store and index, writes that fail, kill -9.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from agent.backup import back_up, restore
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.filters import Filter
from nostr_client.store import index_update
from nostr_client.store.index import Index
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW
from tests.unit.store.fault_process import HOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are found by /proc")

PER_PROCESS = 5
PATIENCE_S = 60.0


class Known:
    """What must be in the store, what must not, and what nobody was told of."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.absent: set[str] = set()
        self.counted = 0
        self.uncounted = 0

    def read(self, lines: list[str]) -> None:
        """Take in what one process printed before it was killed."""
        answered = [line for line in lines if line.startswith(("ok ", "no "))]
        for line in answered:
            self._answer(*line.split(" ", 2))
        open_ = {line[4:] for line in lines if line.startswith("try ")}
        for what in open_ - {line[3:] for line in answered}:
            verb, _, about = what.partition(" ")
            if verb in ("save", "delete"):
                self.held -= set(about.split(","))
        tried = lines.count("try count 1")
        done = sum(line.endswith(" count 1") and line[:3] in ("ok ", "no ") for line in lines)
        self.uncounted += tried - done

    def _answer(self, answer: str, verb: str, about: str = "") -> None:
        ids = set(about.split(","))
        if verb == "save":
            (self.held if answer == "ok" else self.absent).update(ids)
        elif verb == "delete":
            if answer == "ok":
                self.held -= ids
                self.absent |= ids
        elif verb == "count":
            self.counted += answer == "ok"


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


async def check(path: Path, known: Known) -> None:
    async with await SqliteStore.open(path, clock=lambda: NOW, migrations=[MIGRATIONS]) as store:
        await Index.open(store)
        assert (await store.verify()).problems == ()
        held = {event.id for event in await store.query([Filter()])}
        assert known.held <= held
        assert not known.absent & held
        counters = await SqliteCounterStore.over(store.database)
        found = dict([one async for one in (await counters.counters("app")).load_many("app.>")])
        value = found.get("app.hits", 0)
        assert known.counted <= value <= known.counted + known.uncounted


async def fail_often(folder: Path, processes: int, seed: int) -> None:
    sys.stdout.write(f"seed {seed}\n")
    rng, known = random.Random(seed), Known()
    path = folder / "s.db"
    for turn in range(processes):
        known.read(run_faults(path, seed + turn, rng))
        await check(path, known)
        back_up(path, folder / f"{turn}.db", lambda *_: None)
        if turn % 2:
            restore(folder / f"{turn}.db", path, force=True)
            await check(path, known)
    assert known.held
    assert known.absent


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
