"""A crowd in one process, the relay in another: nothing lost, memory bounded, no one delayed."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.relay.test_command import started

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTIONS, SUBSCRIPTIONS, RATE, PER_EVENT = 500, 5, 2_000, 5
MEMORY_MB = 500

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def peak_memory_mb(pid: int) -> float:
    """The most memory that a running process has held so far."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


async def crowd(url: str, seconds: int) -> dict[str, Any]:
    """Run the crowd and return its figures."""
    command = [sys.executable, "-m", "tests.agent.relay.load", url, "--deaf"]
    command += ["--connections", str(CONNECTIONS), "--subs", str(SUBSCRIPTIONS)]
    command += ["--rate", str(RATE), "--seconds", str(seconds)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-3_000:]
    return dict(json.loads(out))


def milliseconds(figures: Mapping[str, Any], name: str) -> str:
    return f"{name} {1e3 * figures[name]:.1f} ms"


async def under_load(tmp_path: Path, seconds: int) -> None:
    """`seconds` of 2,000 events a second, each for 5 of 2,500 live subscriptions."""
    async with started("--store", str(tmp_path / "store.db")) as (process, said):
        figures = await crowd(said["url"], seconds)
        memory = peak_memory_mb(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    told = err.decode()
    shown = ", ".join(
        milliseconds(figures, name) for name in ("count_p50", "count_p99", "live_p50", "live_p99")
    )
    print(f"{figures['sent']} events, {memory:.0f} MB; as clients saw it: {shown}\n{told}")  # noqa: T201
    events = RATE * seconds
    assert figures["errors"] == []
    assert (figures["sent"], figures["accepted"]) == (events, events)
    assert figures["live"] == events * PER_EVENT
    assert figures["last_count"] > 0
    assert "slow_readers 1" in told
    assert memory < MEMORY_MB


async def test_4_seconds(tmp_path: Path) -> None:
    await under_load(tmp_path, 4)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_60_seconds(tmp_path: Path) -> None:
    await under_load(tmp_path, 60)
