"""The worker: what runs is known, also when a task is removed at the worst moment."""

from __future__ import annotations

import asyncio
import io
import time

from agent.log import Log
from nostr_client.watch.clock import SystemClock
from nostr_client.watch.scheduler import LaneLimits, Task
from nostr_client.watch.worker import Worker


class RemovingClock(SystemClock):
    """Removes every task as soon as one was started, before it could take its first step."""

    worker: Worker

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if self.worker.schedule.tasks and self.worker.running:
            self.worker.set_tasks(())
        return await super().wait(event, min(seconds, 0.01))


async def test_a_task_removed_before_its_first_step_does_not_count_as_running() -> None:
    ran: list[str] = []

    async def runner(rest: str) -> bool:
        ran.append(rest)
        return True

    clock = RemovingClock()
    log = Log(time.time, out=io.StringIO())
    worker = clock.worker = Worker(clock, log, LaneLimits())
    worker.runners["kind"] = runner
    worker.set_tasks([Task("kind one", "lane", 3600)])
    worker.nudge("kind one")
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await worker.settled()
        worker.stop()
        assert await worker.drain(5) == 0
    assert (worker.started, worker.failed, worker.running, ran) == (1, 1, 0, [])


async def test_a_stop_waits_for_no_task_that_is_only_a_help() -> None:
    """A task of such a kind ends at once; another one is waited for."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def never(_: str) -> bool:
        begun.set()
        await asyncio.Event().wait()
        return True

    async def later(_: str) -> bool:
        await ended.wait()
        return True

    worker = Worker(SystemClock(), Log(time.time, out=io.StringIO()), LaneLimits())
    worker.runners |= {"help": never, "work": later}
    worker.not_awaited.add("help")
    worker.set_tasks([Task("help one", "a", 3600), Task("work one", "b", 3600)])
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await begun.wait()
        worker.stop()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not worker.is_running("help one")
        assert worker.is_running("work one")
        ended.set()
        assert await worker.drain(3600) == 0
