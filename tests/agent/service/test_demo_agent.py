"""The demonstration ends well, and says so."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


async def test_the_demo_counts_syncs_and_adds_up(tmp_path: Path) -> None:
    (tmp_path / "nostr-agent-demo-of-one-that-was-killed").mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent", "demo", "--seconds", "5", "--json"),
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, talk = await process.communicate()
    assert process.returncode == 0, talk.decode()
    assert not [name for name in os.listdir(tmp_path) if name.startswith("nostr-")]
    told = json.loads(said)
    assert told["right"] is True
    assert told["stored"] == told["truth"]["followers"] + told["truth"]["reactions"] + 1
    assert told["counters"]["events.3"] == str(told["truth"]["followers"])


async def test_the_demo_of_counters_ends_at_one_total(tmp_path: Path) -> None:
    (tmp_path / "nostr-fleet-of-one-that-was-killed").mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent", "demo", "counters", "--seconds", "5", "--json"),
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, talk = await process.communicate()
    assert process.returncode == 0, talk.decode()
    assert not [name for name in os.listdir(tmp_path) if name.startswith("nostr-")]
    told = json.loads(said)
    assert told["right"] is True
    assert told["total"] == told["truth"] == sum(told["agents"].values())
    assert told["hub"] in (None, told["truth"])
    assert {state for state, _, _ in told["sources"].values()} == {"ok"}


@pytest.mark.parametrize("words", [["demo"], ["demo", "counters"]], ids=" ".join)
async def test_told_to_end_it_leaves_nothing(words: list[str], tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent", *words),
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    await process.stdout.readline()  # everything runs
    process.terminate()
    _, talk = await process.communicate()
    assert process.returncode == 130
    assert talk.decode().split() == ["nostr-agent:", "interrupted"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith("nostr-")]
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
