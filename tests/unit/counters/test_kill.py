"""Kill -9 at any moment: a write is there whole, or not at all."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.sqlite import SqliteCounterStore
from nostr_client.store.sqlite import SqliteStore
from tests.unit.counters.engine import counter, source

PROGRAM = [sys.executable, "-m", "tests.unit.counters.kill_program"]
ROOT = Path(__file__).parents[3]


def test_killed_before_any_statement_of_a_write(tmp_path: Path) -> None:
    result = subprocess.run(
        [*PROGRAM, "every", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 25


async def count_until_killed(path: Path, lines: int, program: str = "busy") -> int:
    """Let a program acknowledge some groups, kill it, return the last number it told."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, program, str(path), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    told = 0
    for _ in range(lines):
        told = int(await process.stdout.readline())
    process.kill()
    rest = (await process.stdout.read()).split()
    await process.wait()
    return int(rest[-1]) if rest else told


@pytest.mark.parametrize("seed", range(4))
async def test_killed_while_counting(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "counters.db"
    async with await SqliteCounterStore.open(path) as store:
        await store.create_stream(counter("ES", "es.*"))
        fold = source("ES", "es.*", "all")
        await store.create_stream(counter("AGG", "all", sources=(fold,)))
    acknowledged = await count_until_killed(path, random.Random(seed).randrange(1, 40))
    async with await SqliteCounterStore.open(path) as store:
        each = {s: v async for s, v in (await store.counters("ES")).load_many()}
        aggregate = await store.counters("AGG")
        entry = await aggregate.get("all")
        state = (await store.stream_info("ES")).state
        recounted = await aggregate.recount("all")
    total = sum(each.values())
    # The one group that was under way may be there beyond what was acknowledged.
    assert acknowledged <= total <= acknowledged + 5
    assert entry.value == total
    assert entry.sources == {"ES": each}
    assert state.messages == state.last_seq == total
    assert recounted.holds


@pytest.mark.parametrize("seed", range(4))
async def test_killed_while_storing_events(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "store.db"
    lines = random.Random(seed).randrange(1, 30)
    acknowledged = await count_until_killed(path, lines, "ingest")
    async with await SqliteStore.open(path, migrations=[MIGRATIONS]) as store:
        counters = await SqliteCounterStore.over(store.database)
        counted = await (await counters.counters("INGEST")).load("events.1")
        stored = await store.count([Filter(kinds=[1])])
    assert counted == stored
    assert acknowledged <= stored <= acknowledged + 3
