"""Decide what is due: tasks, their lanes and turns, by the caller's two clocks.

A task belongs to a lane (a relay, or a kind of work). A lane runs a limited number of tasks at once
and never waits for another lane. Nothing here reads a clock or a random source: jitter comes from a
hash of the task's key and a seed, so it is spread, and the same for the same input. A plan reads
only tasks that became due and lanes that have room.

Every call passes two clocks. If the wall clock moved differently from the monotonic one, the
machine slept or the clock was set. After a step forwards, tasks that became overdue are spread over
`catch_up` seconds instead of starting at once. After a step backwards, due times move along, so
that nothing waits for the hours that were taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

import msgspec

STEP_S: Final = 5.0
"""Difference that the two clocks may gain between two calls before it counts as a step."""

JITTER: Final = 0.1
"""Share of a task's interval by which its next turn may come earlier."""

LONGEST_WAIT_S: Final = 60.0
"""The caller asks again after this time at the latest, so that a step of a clock is seen."""

MOST_DOUBLINGS: Final = 6
"""A failing task's interval grows by a factor of two each time, up to this many times."""

STALE: Final = 64
"""Outdated entries, beside one for each task, before they are removed."""

_NEVER: Final = float("inf")


class Moment(NamedTuple):
    """A time: `wall` in Unix seconds, `mono` in seconds of a monotonic clock."""

    wall: float
    mono: float


class Task(msgspec.Struct, frozen=True):
    """Work to do every `every` seconds. `backs_off`: failures make its turns rarer."""

    key: str
    lane: str
    every: float
    backs_off: bool = True


class TaskState(msgspec.Struct, frozen=True):
    """The state of a task: when it is due (wall clock), and whether it runs now."""

    due: float
    running: bool = False
    failures: int = 0
    turns: int = 0


class LaneLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits: `per_lane` tasks of one lane at once, `total` of all lanes; `lanes` has exceptions.

    Of the tasks of a lane that failed before, one at a time runs: a mute relay occupies one place.
    """

    per_lane: int = 2
    total: int = 256
    catch_up: float = 60.0
    lanes: Mapping[str, int] = {}


class TaskPlan(NamedTuple):
    """What to start now, and after how many seconds to ask again if nothing happens before."""

    start: tuple[str, ...]
    wait: float


Entry = tuple[float, str]
"""A due time of a task, and its key; it is outdated if the task's turn has another time."""


class _Lane:
    """What runs in a lane, and what is due, in heaps; tasks that failed before are apart."""

    __slots__ = ("due", "failed", "failing", "running")

    def __init__(self) -> None:
        self.running = 0
        self.failing = 0
        """Of the running tasks, how many failed before."""
        self.due: list[Entry] = []
        self.failed: list[Entry] = []


def fraction(key: str, seed: int, turn: int) -> float:
    """Return a number in [0, 1), spread over keys and turns, and the same for the same input."""
    digest = blake2b(f"{seed}:{turn}:{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Schedule:
    """Tasks by key and the turn of each; empty at first."""

    def __init__(self, now: Moment, seed: int = 0) -> None:
        self.tasks: Mapping[str, Task] = {}
        self._turns: dict[str, TaskState] = {}
        self._seen = now
        self._seed = seed
        self._coming: list[Entry] = []
        self._lanes: dict[str, _Lane] = {}
        self._open: dict[str, None] = {}
        """Lanes that may have room for a due task, in the order in which they got it."""
        self._running = 0

    @property
    def turns(self) -> Mapping[str, TaskState]:
        """Return the state of each task, by key."""
        return self._turns

    def set_tasks(
        self,
        tasks: Iterable[Task],
        now: Moment,
        limits: LaneLimits,
        last: Mapping[str, float] | None = None,
    ) -> None:
        """Replace the set of tasks; those that stay keep their turns.

        `last`: when new ones were done before (an earlier run), by key, in Unix seconds. New tasks
        that were never done are due at once; overdue ones are spread over `catch_up`.
        """
        wanted = {task.key: task for task in tasks}
        turns: dict[str, TaskState] = {}
        for key, task in wanted.items():
            turn = self._turns.get(key)
            if turn is None:
                turn = TaskState(_first_due(task, (last or {}).get(key), now, limits, self._seed))
            elif self.tasks[key].every != task.every and not turn.running:
                turn = _due(turn, min(turn.due, now.wall + task.every))
            turns[key] = turn
        self.tasks, self._turns = wanted, turns
        self._arrange()

    def nudge(self, key: str, at: float) -> None:
        """Make a task due at `at` (wall clock) if it is not due before; ignore an unknown one.

        A nudge for a running task is kept: it is due again once it has ended.
        """
        turn = self._turns.get(key)
        if turn is not None and at < turn.due:
            self._set(key, _due(turn, at))

    def done(self, key: str, now: Moment, *, ok: bool) -> None:
        """End a task; forget it if it was removed meanwhile."""
        turn, task = self._turns.get(key), self.tasks.get(key)
        if turn is None or task is None:
            return
        failures = 0 if ok else min(turn.failures + 1, MOST_DOUBLINGS)
        every = task.every * (2**failures if task.backs_off else 1)
        early = JITTER * task.every * fraction(key, self._seed, turn.turns + 1)
        due = now.wall + every - early
        if turn.running:
            self._count(task, turn, -1)
            if turn.due < due:  # nudged while it ran
                due = turn.due
        self._set(key, TaskState(due=due, failures=failures, turns=turn.turns + 1))

    def plan(self, now: Moment, limits: LaneLimits) -> TaskPlan:
        """Start the most overdue task of each lane, lanes in turn, within their limits."""
        self._step(now, limits)
        while self._coming and self._coming[0][0] <= now.wall:
            self._wait_in_lane(heappop(self._coming))
        start = tuple(self._start(limits))
        return TaskPlan(start, self._wait(now))

    # What is due.

    def _set(self, key: str, turn: TaskState) -> None:
        self._turns[key] = turn
        if not turn.running:
            heappush(self._coming, (turn.due, key))
            if len(self._coming) > 2 * len(self._turns) + STALE:
                self._arrange()

    def _arrange(self) -> None:
        """Build the heaps and the lanes from the turns."""
        self._coming = [(turn.due, key) for key, turn in self._turns.items() if not turn.running]
        heapify(self._coming)
        self._lanes, self._open, self._running = {}, {}, 0
        for key, turn in self._turns.items():
            if turn.running:
                self._count(self.tasks[key], turn, 1)

    def _wait_in_lane(self, entry: Entry) -> None:
        """Move tasks that became due into their lanes."""
        if self._is_current(entry):
            name = self.tasks[entry[1]].lane
            lane = self._lane(name)
            heappush(lane.failed if self._turns[entry[1]].failures else lane.due, entry)
            self._open[name] = None

    def _is_current(self, entry: Entry) -> bool:
        turn = self._turns[entry[1]]
        return turn.due == entry[0] and not turn.running

    def _wait(self, now: Moment) -> float:
        """Return the time until the next task is due; an ending task starts those that wait for
        room."""
        while self._coming and not self._is_current(self._coming[0]):
            heappop(self._coming)
        soonest = self._coming[0][0] if self._coming else _NEVER
        return max(0.0, min(soonest - now.wall, LONGEST_WAIT_S))

    # What starts.

    def _lane(self, name: str) -> _Lane:
        return self._lanes.get(name) or self._lanes.setdefault(name, _Lane())

    def _count(self, task: Task, turn: TaskState, change: int) -> None:
        """Count a task that starts or ends in its lane."""
        lane = self._lane(task.lane)
        self._running += change
        lane.running += change
        if turn.failures:
            lane.failing += change
        if change < 0 and (lane.due or lane.failed):
            self._open[task.lane] = None

    def _start(self, limits: LaneLimits) -> list[str]:
        """Start one task of each lane, then the second of each: lanes that run least first."""
        started: list[str] = []
        room = limits.total - self._running
        lanes = sorted(self._open, key=lambda name: self._lanes[name].running) if room > 0 else []
        while lanes and room > len(started):
            for name in lanes[: room - len(started)]:
                most = limits.lanes.get(name, limits.per_lane)
                key = self._next(self._lanes[name], most)
                if key is None:
                    self._open.pop(name)
                else:
                    started.append(key)
                    self._run(key)
            lanes = [name for name in lanes if name in self._open]
        return started

    def _next(self, lane: _Lane, most: int) -> str | None:
        """Return the most overdue task of a lane that has room; of those that failed before, one at
        a time."""
        if lane.running >= most:
            return None
        for heap in (lane.due, lane.failed):
            while heap and not self._is_current(heap[0]):
                heappop(heap)
        heaps = [lane.due] if lane.failing else [lane.due, lane.failed]
        found = min((heap for heap in heaps if heap), key=lambda heap: heap[0], default=None)
        return None if found is None else heappop(found)[1]

    def _run(self, key: str) -> None:
        before = self._turns[key]
        turn = self._turns[key] = TaskState(_NEVER, True, before.failures, before.turns)
        self._count(self.tasks[key], turn, 1)

    # Steps of the clocks.

    def _step(self, now: Moment, limits: LaneLimits) -> None:
        """Account for steps of the clocks since the last call."""
        seen, self._seen = self._seen, now
        step = (now.wall - seen.wall) - (now.mono - seen.mono)
        if step < -STEP_S:
            for key, turn in self._turns.items():
                if not turn.running:
                    self._turns[key] = _due(turn, turn.due + step)
        elif step > STEP_S:
            self._catch_up(seen, now, limits)
        elif now.wall >= seen.wall:
            return
        self._arrange()

    def _catch_up(self, seen: Moment, now: Moment, limits: LaneLimits) -> None:
        """Spread tasks that became due during a step; those due before it keep their place."""
        for key, turn in self._turns.items():
            if not turn.running and seen.wall < turn.due <= now.wall:
                span = min(limits.catch_up, self.tasks[key].every)
                late = now.wall + fraction(key, self._seed, turn.turns) * span
                self._turns[key] = _due(turn, late)


def _due(turn: TaskState, at: float) -> TaskState:
    return TaskState(at, turn.running, turn.failures, turn.turns)


def _first_due(task: Task, last: float | None, now: Moment, limits: LaneLimits, seed: int) -> float:
    if last is None:
        return now.wall
    due = min(last, now.wall) + task.every
    if due > now.wall:
        return due
    return now.wall + fraction(task.key, seed, 0) * min(limits.catch_up, task.every)
