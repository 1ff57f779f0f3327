"""Days and a month of the agent: nothing is lost or leaks, and each watch is on time."""

from __future__ import annotations

import asyncio
import gc
import resource
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from agent.service import parts
from nostr_client.codecs.filters import Filter
from nostr_client.count import procedure
from nostr_client.count.merge.repeated import RepeatedMerges
from nostr_client.options import ConnectionOptions, Options, Timeouts
from tests.agent.service.kit import Running, an_agent
from tests.agent.service.soak import DAY, WarpClock, World, config, settle, until_next

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.store.sqlite import SqliteStore

WATCHES = 100
SYNCS = 10
START = 1_750_000_000.0
NIGHT = 8 * 3600.0
LEFT_OUT = {"KeySigner", "PrivateKey", "PublicKey", "PublicKeyXOnly", "LogLine", "Statement"}
"""Names of types: keys of the world's own people, the log in memory, SQLite's cached statements."""


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest cache is full after a day, so that what grows later is no cache."""
    monkeypatch.setattr(procedure, "RepeatedMerges", partial(RepeatedMerges, 20))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that says nothing costs real time: a fraction of a second instead of ten."""
    timeouts = Timeouts(count=0.25, group=0.3, eose=0.25, page=1.0, connect=1.0, heartbeat=600.0)
    quick = Options(timeouts=timeouts, connection=ConnectionOptions(compress=False))
    monkeypatch.setattr(parts, "pool_options", lambda _: quick)


async def test_nine_days(tmp_path: Path) -> None:
    await soak(tmp_path, "2d", days=9, watches=30)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("interval", ["2d", "2h"])
async def test_a_month(tmp_path: Path, interval: str) -> None:
    await soak(tmp_path, interval, days=30, watches=WATCHES)


async def soak(folder: Path, interval: str, *, days: int, watches: int) -> None:
    before = asyncio.all_tasks()
    sizes: list[tuple[int, int]] = []
    async with AsyncExitStack() as stack:
        world, clock = World(watches), WarpClock(START)
        await world.open(stack)
        await world.grow(0, START, watches)
        more = config(world, watches, SYNCS, interval)
        agent = await stack.enter_async_context(an_agent(folder, [], more, clock=clock))
        for day in range(days):
            await a_day(agent, clock, world, day, days)
            world.forget()
            sizes.append(measured())
        await the_end(agent, clock, world)
        text = agent.log.getvalue()
        assert len(text) < 10_000_000
        on_time(agent, world, interval, days)
    assert asyncio.all_tasks() == before
    no_leak(sizes)


async def a_day(agent: Running, clock: WarpClock, world: World, day: int, days: int) -> None:
    """A day with new events, a night asleep, and now and then a clock that is set."""
    worker = agent.service.agent.worker
    end = clock.wall() + DAY - NIGHT
    if day < days - 3:
        await world.grow(day, clock.wall(), 8)
    while clock.wall() < end:
        await settle(worker)
        clock.advance(min(until_next(worker, clock.wall()), max(0.05, end - clock.wall())))
    if day == days // 3:
        clock.advance(0.1, step=-7200.0)
    if day == 2 * days // 3:
        clock.advance(0.1, step=7200.0)
    clock.advance(0.1, asleep=NIGHT)


async def the_end(agent: Running, clock: WarpClock, world: World) -> None:
    """Everything that was published is counted, and stored by the syncs."""
    worker = agent.service.agent.worker
    await settle(worker)
    stored = (await agent.client.store()).events
    assert stored == len({id for s in world.stores.values() for id in await ids(s)})
    wrong = []
    for watch in (await agent.client.watches()).watches:
        n = int(watch.spec.name[1:])
        truth, figure = world.truth(n), watch.figure
        assert figure is not None, watch
        high = truth if figure.high is None else figure.high
        if not figure.low <= truth <= high or (figure.exact and figure.value != truth):
            wrong.append((watch.spec.name, truth, figure))
    assert len(wrong) <= world.topics * 0.07, wrong


async def ids(store: SqliteStore) -> list[str]:
    return [event.id for event in await store.query([Filter(kinds=[3])])]


def on_time(agent: Running, world: World, interval: str, days: int) -> None:
    """Every relay that answers was asked as often as it should; a night's turns fall into one."""
    hours = max({"2d": 48, "2h": 2}[interval], 8)
    least = int(0.8 * days * 24 / hours)
    turns = agent.service.agent.worker.schedule.turns
    late = [
        (key, turn.turns)
        for key, turn in turns.items()
        if key.startswith("watch ") and key.split()[2] in world.good and turn.turns < least
    ]
    assert not late, late[:5]


def measured() -> tuple[int, int]:
    """Objects that Python keeps, but for `LEFT_OUT`, and bytes of the process."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    return sum(type(one).__name__ not in LEFT_OUT for one in gc.get_objects()), resident


def no_leak(sizes: list[tuple[int, int]]) -> None:
    """After the first third no more grows than caches that are bounded fill.

    What is in flight when a day ends only adds objects, so the smallest day of each third counts. A
    leak of one object each time that a relay is asked would be 2,000 in ten days.
    """
    third = len(sizes) // 3
    earlier, later = sizes[third : 2 * third], sizes[2 * third :]
    assert min(objects for objects, _ in later) < min(objects for objects, _ in earlier) + 1_000
    assert sizes[-1][1] < sizes[third][1] + 25 * 2**20
