"""Runs what the scheduler says is due: one asyncio task for each, all in one group.

A runner gets the rest of the key and says whether it went well; what a relay did is never an
exception. An error that is not ours ends the agent: the supervisor starts it again, from a store
that is whole.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from agent import scheduler
from nostr_client.errors import NostrTallyError, StoreFull
from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from agent.clock import Clock
    from agent.journal import Journal
    from agent.scheduler import Limits, State, Task

    Runner = Callable[[str], Awaitable[bool]]


SETTLE_S: Final = 1.0
"""What is due within this time belongs to what is due now: a number is merged after its claims."""


class Worker:
    """Tasks by key; a key is `kind rest`, and each kind has its runner."""

    def __init__(
        self, clock: Clock, journal: Journal, runners: Mapping[str, Runner], limits: Limits
    ) -> None:
        self.state: State = scheduler.begin(clock.moment())
        self.limits = limits
        self.started = 0
        self.failed = 0
        self._clock = clock
        self._journal = journal
        self._runners = runners
        self._running: dict[str, asyncio.Task[bool]] = {}
        self._nudged: set[str] = set()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = asyncio.Event()
        self._stopping = False

    @property
    def running(self) -> int:
        """Tasks that run now."""
        return len(self._running)

    @property
    def overdue(self) -> int:
        """Tasks that are due and wait for room."""
        now = self._clock.wall()
        return sum(not t.running and t.due <= now for t in self.state.turns.values())

    async def settled(self) -> None:
        """Until every task that was due had its turn, and what followed from it too."""
        while self._running or self._first_turns():
            self._ended.clear()
            await self._clock.wait(self._ended, SETTLE_S)

    def _first_turns(self) -> bool:
        """Whether a task is due, or soon, that had no turn in this run, or was nudged since."""
        soon = self._clock.wall() + SETTLE_S
        return any(
            not t.running and t.due <= soon and (not t.turns or key in self._nudged)
            for key, t in self.state.turns.items()
        )

    def set_tasks(self, tasks: Iterable[Task], last: Mapping[str, float] | None = None) -> None:
        """Replace the set of tasks; those that run and are gone are cancelled."""
        now = self._clock.moment()
        self.state = scheduler.with_tasks(self.state, tasks, now, self.limits, last)
        self._nudged &= self.state.tasks.keys()
        for key in self._running.keys() - self.state.tasks.keys():
            self._running[key].cancel()
        self._changed.set()

    def nudge(self, key: str, delay: float = 0.0) -> None:
        """Have a task run soon."""
        self.state = scheduler.nudge(self.state, key, self._clock.wall() + delay)
        self._nudged.add(key)
        self._changed.set()

    def is_running(self, key: str) -> bool:
        """Whether a task runs now."""
        return key in self._running

    def cancel(self, key: str) -> bool:
        """Stop a task that runs; it comes again at its next turn. False if it did not run."""
        task = self._running.get(key)
        return task is not None and task.cancel()

    async def run(self) -> None:
        """Start what is due until `stop`; cancelled, it cancels what runs."""
        async with task_group() as group:
            while not self._stopping:
                self._changed.clear()
                found = scheduler.plan(self.state, self._clock.moment(), self.limits)
                self.state = found.state
                for key in found.start:
                    self._start(group, key)
                await self._clock.wait(self._changed, found.wait)

    def stop(self) -> None:
        """Start nothing any more."""
        self._stopping = True
        self._changed.set()

    async def drain(self, seconds: float) -> int:
        """Let what runs end, for so long, then cancel it; how many had to be cancelled."""
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
        try:
            return await self._runners[kind](rest)
        except StoreFull:
            return False  # the ticker reports a full disk, once
        except NostrTallyError as error:
            self._journal.warning("task_failed", task=key, error=str(error))
            return False

    def _over(self, task: asyncio.Task[bool]) -> None:
        key = task.get_name()
        ok = not task.cancelled() and task.exception() is None and task.result()
        self.failed += not ok
        self._ended.set()
        self._running.pop(key, None)
        self.state = scheduler.done(self.state, key, self._clock.moment(), ok=ok)
        if not self._running:
            self._idle.set()
        self._changed.set()
