"""Push to real nats-servers that are killed, through a network that loses, delays and repeats."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from nostr_client.counters.config import StreamConfig
from nostr_client.counters.jetstream import JetStreamCounterStore, NatsOptions
from nostr_client.counters.push import Pusher, PushOptions, aggregate_stream, own_stream
from nostr_client.counters.push.report import fullness
from nostr_client.counters.sqlite import SqliteCounterStore
from nostr_client.errors import NostrTallyError
from tests.nats_cluster import running_cluster
from tests.nats_peer import NatsServer, running_server, until
from tests.nats_proxy import FaultyNats

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.interop

FAST = NatsOptions(timeout_s=0.3)
SURE = NatsOptions(timeout_s=10)
REST_S = 90.0
ROUNDS = 8


@dataclass
class Agent:
    """One run: a store of its own, and a way to the server that fails by its own seed."""

    seed: int
    local: SqliteCounterStore
    urls: list[str]
    rounds: asyncio.Queue[int]
    values: dict[str, int] = field(default_factory=dict)
    had: dict[str, set[int]] = field(default_factory=dict)

    @property
    def pusher(self) -> Pusher:
        options = PushOptions(agent=f"a{self.seed}", into="AGENTS", total="TOTAL", attempts=2)
        return Pusher(self.local, "app", "hub", options)

    async def live(self) -> None:
        """Count and push, whatever becomes of it."""
        chance = random.Random(self.seed)
        counters = await self.local.counters("app")
        for _ in range(ROUNDS):
            for _ in range(chance.randrange(3)):
                subject, n = f"plays.{chance.choice('abc')}", chance.choice([1, 7, -2, 10**25])
                value = self.values[subject] = await counters.add(subject, n)
                self.had.setdefault(subject, set()).add(value)
            await self.round(FAST)
            self.rounds.put_nowait(self.seed)

    async def round(self, options: NatsOptions) -> bool:
        """One round over a new connection; whether all is there."""
        try:
            async with await JetStreamCounterStore.connect(self.urls, options) as remote:
                report = await self.pusher.push(remote)
        except NostrTallyError:
            return False
        assert not report.stopped, report
        assert not report.refused, report
        return report.settled

    async def rest(self) -> None:
        async def settled() -> bool:
            return await self.round(SURE)

        assert await until(settled, REST_S), self.seed


async def make_streams(url: str | Sequence[str], replicas: int = 1) -> None:
    async with await JetStreamCounterStore.connect(url, SURE) as store:
        for config in (own_stream("AGENTS"), aggregate_stream("TOTAL", "AGENTS")):
            await store.create_stream(replace(config, num_replicas=replicas))


async def new_agents(stack: AsyncExitStack, seeds: Sequence[int]) -> list[Agent]:
    agents: list[Agent] = []
    rounds: asyncio.Queue[int] = asyncio.Queue()
    for seed in seeds:
        local = await stack.enter_async_context(await SqliteCounterStore.open(":memory:"))
        await local.create_stream(
            StreamConfig(name="app", subjects=("plays.*",), allow_msg_counter=True)
        )
        agents.append(Agent(seed, local, [], rounds))
    return agents


async def check(url: str | Sequence[str], agents: Sequence[Agent]) -> None:
    """Each own value is there, none ever was that the agent had not, and the total is the sum."""
    wanted: dict[str, int] = {}
    own: dict[str, int] = {}
    for agent in agents:
        for subject, value in agent.values.items():
            own[f"count.a{agent.seed}.{subject}"] = value
            wanted[f"total.{subject}"] = wanted.get(f"total.{subject}", 0) + value
    async with await JetStreamCounterStore.connect(url, SURE) as store:
        there = await store.counters("AGENTS")
        assert {s: v async for s, v in there.load_many()} == own
        for agent in agents:
            for subject, had in agent.had.items():
                history = there.history(f"count.a{agent.seed}.{subject}")
                assert {entry.value async for entry in history} <= had, (agent.seed, subject)
        total = await store.counters("TOTAL")

        async def summed() -> bool:
            return {s: v async for s, v in total.load_many()} == wanted

        assert await until(summed, REST_S)


async def exact(seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs beside each other at one server, which is killed twice while they go on."""
    monkeypatch.setattr("nostr_client.counters.jetstream.dial.CONNECT_S", 1)
    with running_server() as server:
        await make_streams(server.url)
        async with AsyncExitStack() as stack:
            agents = await new_agents(stack, seeds)
            proxies: list[FaultyNats] = []
            for agent in agents:
                proxy = FaultyNats(lambda: server.port, agent.seed)
                proxies.append(await stack.enter_async_context(proxy))
                agent.urls = [proxy.url]
            living = [asyncio.ensure_future(agent.live()) for agent in agents]
            await kill_twice(server, agents[0].rounds, len(agents) * ROUNDS)
            await asyncio.gather(*living)
            for proxy in proxies:
                proxy.rate = 0
            await asyncio.gather(*(proxy.arrived.wait() for proxy in proxies))
            await asyncio.gather(*(agent.rest() for agent in agents))
            assert sum(sum(proxy.faults.values()) for proxy in proxies) > len(agents)
            await check(server.url, agents)


async def kill_twice(server: NatsServer, rounds: asyncio.Queue[int], total: int) -> None:
    """In the midst of the runs: after a quarter of their rounds, and after another."""
    for _ in range(2):
        await passed(rounds, total // 4)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)


async def passed(rounds: asyncio.Queue[int], count: int) -> None:
    for _ in range(count):
        await rounds.get()


async def test_exact_through_faults_and_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    await exact(range(5), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("first", range(5, 105, 20))
async def test_exact_through_faults_and_kills_long(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await exact(range(first, first + 20), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
async def test_exact_on_a_cluster_of_which_a_node_is_killed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.counters.jetstream.dial.CONNECT_S", 2)
    async with AsyncExitStack() as stack:
        nodes = await asyncio.to_thread(stack.enter_context, running_cluster(3))
        urls = [node.url for node in nodes]

        async def ready() -> bool:
            try:
                await make_streams(urls, replicas=3)
            except NostrTallyError:
                return False
            return True

        assert await until(ready, REST_S)
        agents = await new_agents(stack, range(seed * 100, seed * 100 + 8))
        for agent in agents:
            agent.urls = urls
        living = [asyncio.ensure_future(agent.live()) for agent in agents]
        victim = random.Random(seed).choice(nodes)
        await passed(agents[0].rounds, len(agents) * ROUNDS // 4)
        await asyncio.to_thread(victim.kill)
        await passed(agents[0].rounds, len(agents) * ROUNDS // 2)
        await asyncio.to_thread(victim.start)
        await asyncio.gather(*living)
        await asyncio.gather(*(agent.rest() for agent in agents))
        await check(urls, agents)


@pytest.mark.long
async def test_the_warning_comes_before_the_server_stalls() -> None:
    """Some 2,000 agents in one total: its source map has no room for more, and nothing says so."""

    async def agents_of(first: int, last: int) -> list[tuple[str, int]]:
        return [(f"count.agent-{n:04}.plays.a", 1) for n in range(first, last)]

    with running_server() as server:
        await make_streams(server.url)
        async with AsyncExitStack() as stack:
            (agent,) = await new_agents(stack, [1])
            agent.urls = [server.url]
            store = await stack.enter_async_context(
                await JetStreamCounterStore.connect(server.url, SURE)
            )
            there, total = await store.counters("AGENTS"), await store.counters("TOTAL")
            await (await agent.local.counters("app")).add("plays.a", 1)
            assert "64 KB" not in str((await agent.pusher.push(store)).notes)

            async def summed(count: int) -> bool:
                return await total.load("total.plays.a") == count

            await there.add_many(await agents_of(0, 1_799))
            assert await until(lambda: summed(1_800), REST_S)
            await (await agent.local.counters("app")).add("plays.a", 1)
            (note,) = (await agent.pusher.push(store)).notes
            assert "1,800 entries" in note
            await there.add_many(await agents_of(1_799, 2_400))

            async def stalled() -> bool:
                (source,) = (await store.stream_info("TOTAL")).sources
                return source.lag > 0 and fullness(await total.get("total.plays.a")) > 0.99

            assert await until(stalled, REST_S)
            assert await total.load("total.plays.a") < 2_401
