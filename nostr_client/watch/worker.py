"""Run what the scheduler says is due: one asyncio task for each, all in one group.

A runner receives the rest of the key and returns whether it succeeded; a relay's failure is never
an exception. An error of ours is logged, and the task gets its next turn; an unexpected or `fatal`
error ends the worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from nostr_client.errors import NostrTallyError, StoreFull
from nostr_client.network.waiting import task_group
from nostr_client.watch.scheduler import Schedule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from nostr_client.watch.clock import Clock
    from nostr_client.watch.scheduler import LaneLimits, Task

    Runner = Callable[[str], Awaitable[bool]]


PLAN_EVERY: Final = 9
"""Pause after planning, as a multiple of its duration: planning reads all tasks, and many end at
once."""

LONGEST_REST_S: Final = 0.05

SETTLE_S: Final = 1.0
"""Tasks due within this time are due now: a number is merged after its claims."""


class WorkerLog(Protocol):
    """The log of a run: an event's name and its fields."""

    def debug(self, event: str, **fields: Any) -> None: ...

    def warning(self, event: str, **fields: Any) -> None: ...

    def error(self, event: str, **fields: Any) -> None: ...


class LibraryLog:
    """A log that writes to `logging` at a low level: results have the failures of relays."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("nostr_client.watch")

    def debug(self, event: str, **fields: Any) -> None:
        self._logger.debug("%s %s", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._logger.info("%s %s", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._logger.warning("%s %s", event, fields)


class TaskSource(Protocol):
    """A source of tasks for a worker; it knows when an earlier run last did each (Unix seconds)."""

    def tasks(self) -> Iterable[Task]: ...

    async def last(self) -> Mapping[str, float]: ...


class Worker:
    """Runs tasks by key; a key is `kind rest`, and each kind has its runner.

    `sources` have the tasks; call `refresh` when these change. `ended` receives each task that has
    ended, by key, with the seconds that it took.
    """

    def __init__(
        self,
        clock: Clock,
        log: WorkerLog,
        limits: LaneLimits,
        *,
        fatal: tuple[type[NostrTallyError], ...] = (),
        ended: Callable[[str, float], None] = lambda key, seconds: None,
    ) -> None:
        self.clock = clock
        self.runners: dict[str, Runner] = {}
        self.sources: list[TaskSource] = []
        self.not_awaited: set[str] = set()
        """Kinds whose tasks `stop` cancels: what they do is only a help."""
        self.schedule = Schedule(clock.moment())
        self.limits = limits
        self.started = 0
        self.failed = 0
        self._log = log
        self._fatal = fatal
        self._ended_task = ended
        self._running: dict[str, asyncio.Task[bool]] = {}
        self._nudged: set[str] = set()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = asyncio.Event()
        self.is_stopping = False

    @property
    def running(self) -> int:
        """Tasks that run now."""
        return len(self._running)

    @property
    def overdue(self) -> int:
        """Tasks that are due and wait for room."""
        now = self.clock.wall()
        return sum(not t.running and t.due <= now for t in self.schedule.turns.values())

    async def settled(self, keys: Collection[str] | None = None) -> None:
        """Wait until every due task had its turn, and the tasks that followed from it too.

        `keys`: only those tasks, by default all.
        """
        while self._is_busy(self.schedule.tasks.keys() if keys is None else keys):
            if keys is None and self._running:  # not at the end of each of thousands
                await self.clock.wait(self._idle, SETTLE_S)
                continue
            self._ended.clear()
            await self.clock.wait(self._ended, SETTLE_S)

    def _is_busy(self, keys: Collection[str]) -> bool:
        """Whether one of these tasks runs, or is due soon for a first turn, or since a nudge."""
        soon = self.clock.wall() + SETTLE_S
        return not self._running.keys().isdisjoint(keys) or any(
            key in keys and not t.running and t.due <= soon and (not t.turns or key in self._nudged)
            for key, t in self.schedule.turns.items()
        )

    async def refresh(self) -> None:
        """Replace all tasks with those of all sources."""
        last: dict[str, float] = {}
        for source in self.sources:
            last |= await source.last()
        self.set_tasks([task for source in self.sources for task in source.tasks()], last)

    def set_tasks(self, tasks: Iterable[Task], last: Mapping[str, float] | None = None) -> None:
        """Replace the set of tasks; cancel running ones that are removed."""
        now = self.clock.moment()
        self.schedule.set_tasks(tasks, now, self.limits, last)
        self._nudged &= self.schedule.tasks.keys()
        for key in self._running.keys() - self.schedule.tasks.keys():
            self._running[key].cancel()
        self._changed.set()

    def nudge(self, key: str, delay: float = 0.0) -> None:
        """Run a task soon."""
        self.schedule.nudge(key, self.clock.wall() + delay)
        self._nudged.add(key)
        self._changed.set()

    def is_running(self, key: str) -> bool:
        """Whether a task runs now."""
        return key in self._running

    def cancel(self, key: str) -> bool:
        """Stop a running task; it comes again at its next turn. Return False if it did not run."""
        task = self._running.get(key)
        return task is not None and task.cancel()

    async def run(self) -> None:
        """Start what is due until `stop`; if cancelled, cancel what runs."""
        async with task_group() as group:
            while not self.is_stopping:
                self._changed.clear()
                began = time.perf_counter()
                found = self.schedule.plan(self.clock.moment(), self.limits)
                for key in found.start:
                    self._start(group, key)
                planned = time.perf_counter() - began
                await self.clock.wait(self._changed, found.wait)
                await asyncio.sleep(min(PLAN_EVERY * planned, LONGEST_REST_S))

    def stop(self) -> None:
        """Start no more tasks; cancel those that nobody waits for."""
        self.is_stopping = True
        for key, task in self._running.items():
            if key.partition(" ")[0] in self.not_awaited:
                task.cancel()
        self._changed.set()

    async def drain(self, seconds: float) -> int:
        """Wait for running tasks this long, then cancel them; return how many were cancelled."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            cut = list(self._running.values())
            for task in cut:
                task.cancel()
            return len(cut)
        return 0

    def _start(self, group: asyncio.TaskGroup, key: str) -> None:
        self._idle.clear()
        self._nudged.discard(key)
        self.started += 1
        task = self._running[key] = group.create_task(self._one(key), name=key)
        # A callback, as a task that is cancelled before its first step runs no `finally`.
        task.add_done_callback(self._over)

    async def _one(self, key: str) -> bool:
        kind, _, rest = key.partition(" ")
        began = self.clock.moment().mono
        try:
            return await self.runners[kind](rest)
        except self._fatal:
            raise
        except StoreFull:
            return False  # the agent reports a full disk, once
        except NostrTallyError as error:
            self._log.warning("task_failed", task=key, error=str(error))
            return False
        finally:
            self._ended_task(key, self.clock.moment().mono - began)

    def _over(self, task: asyncio.Task[bool]) -> None:
        key = task.get_name()
        ok = not task.cancelled() and task.exception() is None and task.result()
        self.failed += not ok
        self._ended.set()
        self._running.pop(key, None)
        self.schedule.done(key, self.clock.moment(), ok=ok)
        if not self._running:
            self._idle.set()
        self._changed.set()
