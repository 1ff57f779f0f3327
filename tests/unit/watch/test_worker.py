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
