"""The agent as a service manager runs it, killed again and again while real relays fill up."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from agent.api.address import RunFile
from agent.api.client import AgentClient, ApiError
from agent.commands import service_files
from nostr_client.codecs.keys import verify
from nostr_client.errors import DeadlineExceeded, NetworkError
from nostr_client.network.pool import PublishStatus, RelayPool
from tests.agent.service.kit import eventually
from tests.agent.service.supervisor import Supervisor
from tests.peers.servers import local_relay, python_nostr_relay
from tests.worlds import NOTE, TARGET, follow, reaction

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event

ROOT = Path(__file__).parents[3]

READY_CPU_S = 2.0
"""What a start may cost; by CPU, since the machine of a test run has other things to do."""

CONFIG = """
[api]
listen = "127.0.0.1:0"
[relay]
listen = "127.0.0.1:0"
[relays]
default = [{relays}]
[[watches]]
name = "followers"
query = "followers"
target = "{target}"
interval = "10s"
[[watches]]
name = "likes"
query = "reactions"
target = "{note}"
interval = "10s"
[[syncs]]
name = "all"
filters = [{{ kinds = [3, 7] }}]
interval = "10s"
"""


@pytest.mark.interop
async def test_kill_9_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    await killed(tmp_path, times=3, every=2.0)


@pytest.mark.long
@pytest.mark.interop
@pytest.mark.timeout(1200)
async def test_kill_9_every_20_s_for_10_minutes(tmp_path: Path) -> None:
    await killed(tmp_path, times=30, every=20.0)


async def killed(folder: Path, *, times: int, every: float) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(local_relay())
        (folder / "peer").mkdir()
        other = await stack.enter_async_context(python_nostr_relay(folder / "peer"))
        supervisor = await stack.enter_async_context(_supervised(folder, [one, other]))
        world = World(folder, [one, other], int(times * every))
        filling = asyncio.create_task(world.fill())
        try:
            for _ in range(times):
                await supervisor.ready()
                await asyncio.sleep(every)
                if filling.done():
                    filling.result()
                supervisor.kill()
            await supervisor.ready()
            await filling
        finally:
            filling.cancel()
        await eventually(world.is_whole, 60)
        assert len(supervisor.starts) == times + 1
        assert set(supervisor.codes) == {-9}
        assert supervisor.fed > times
    assert supervisor.codes[-1] == 0
    assert statistics.median(supervisor.cpu) < READY_CPU_S, supervisor.cpu
    print(f"starts: {supervisor.starts}, CPU until ready: {supervisor.cpu}")  # noqa: T201


def _supervised(folder: Path, relays: list[str]) -> Supervisor:
    names = ", ".join(f'"{url}"' for url in relays)
    config = folder / "agent.toml"
    config.write_text(CONFIG.format(relays=names, target=TARGET, note=NOTE))
    command = (sys.executable, "-m", "agent", "run", "--config", str(config))
    unit = folder / "nostr-agent.service"
    unit.write_text(service_files.systemd(command, user=True))
    left_out = ("XDG_", "NOSTR_", "PYTHONDONTWRITEBYTECODE")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    own = {
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),  # as an installed package has it
        "HOME": str(folder),
    }
    return Supervisor(unit, folder, environ | own)


class World:
    """What is published, and added to a counter, while the agent dies and comes back."""

    def __init__(self, folder: Path, relays: list[str], seconds: int) -> None:
        self._addresses = folder / "state" / "agent.json"
        self._relays = relays
        self._seconds = seconds
        self._people = 0
        self._added = 0

    async def fill(self) -> None:
        """Four people a second: each follows on one relay or both, and reacts on one."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with RelayPool() as pool:
            for n in range(4 * self._seconds):
                await asyncio.sleep(began + n / 4 - loop.time())
                both = n % 3 == 0
                where = self._relays if both else [self._relays[n % 2]]
                await self._publish(pool, follow(n), where)
                await self._publish(pool, reaction(n), [self._relays[n % 2]])
                self._people = n + 1
                await self._add(n)

    async def _publish(self, pool: RelayPool, event: Event, where: list[str]) -> None:
        told = await pool.publish(verify(event), where, 30.0)
        assert {one.status for one in told.values()} == {PublishStatus.OK}, told

    async def _add(self, n: int) -> None:
        """Add one until the agent says so; by its id, trying again adds nothing."""
        while True:
            try:
                async with self._client() as client:
                    await client.add("app", "app.people", "1", f"person-{n}")
                    self._added += 1
                    return
            except (NetworkError, DeadlineExceeded, ApiError, OSError):
                await asyncio.sleep(0.1)

    def _client(self) -> AgentClient:
        found = msgspec.json.decode(self._addresses.read_bytes(), type=RunFile)
        token = Path(found.token).read_text().strip()
        return AgentClient(found.api, token, timeout=5.0)

    async def is_whole(self) -> bool:
        """Whether watches, store and counter all have the truth."""
        try:
            async with self._client() as client:
                values = {w.spec.name: w.figure for w in (await client.watches()).watches}
                events = (await client.store()).events
                counter = (await client.counters("app", "app.people")).counters
        except (NetworkError, DeadlineExceeded, ApiError, OSError):
            return False
        known = {name: f.value for name, f in values.items() if f is not None}
        values_told = [one.value for one in counter]
        return (
            known == {"followers": self._people, "likes": self._people}
            and events == 2 * self._people
            and values_told == [str(self._added)]
        )
