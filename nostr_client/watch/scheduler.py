"""What is due: a pure function of the tasks, what became of them, and the time.

A task belongs to a lane (a relay, or a kind of work). A lane runs at most so many tasks at once and
never waits for another lane. Nothing here reads a clock or a random source: jitter comes from a
hash of the task's key and a seed, so that it is spread, and the same for the same input.

Two clocks come with every question. Where the wall clock has moved otherwise than the monotonic
one, the machine slept or the clock was set. Forwards: what became overdue meanwhile is spread over
`catch_up` seconds instead of starting at once. Backwards: due times move along, so that nothing
waits for the hours that were taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple

import msgspec

STEP_S: Final = 5.0
"""How far the two clocks may drift apart between two questions before it counts as a step."""

JITTER: Final = 0.1
"""Share of a task's interval by which its next turn may come earlier."""

LONGEST_WAIT_S: Final = 60.0
"""The caller asks again after so long at the latest, so that a step of a clock is seen."""

MOST_DOUBLINGS: Final = 6
"""A failing task's interval grows by a factor of two each time, up to this many times."""


_NEVER: Final = float("inf")


class Moment(NamedTuple):
    """Now: `wall` in Unix seconds, `mono` in seconds of a clock that is never set."""

    wall: float
    mono: float


class Task(msgspec.Struct, frozen=True):
    """Something to be done every `every` seconds. `backs_off`: a failure makes its turns rarer."""

    key: str
    lane: str
    every: float
    backs_off: bool = True


class Turn(msgspec.Struct, frozen=True):
    """Where a task stands: when it is due (wall clock), and whether it runs now."""

    due: float
    running: bool = False
    failures: int = 0
    turns: int = 0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`per_lane` tasks of one lane at once, `total` of all lanes; `lanes` sets some apart.

    Of the tasks of a lane that failed before, one at a time runs: a mute relay holds one place.
    """

    per_lane: int = 2
    total: int = 256
    catch_up: float = 60.0
    lanes: Mapping[str, int] = {}


class State(msgspec.Struct, frozen=True):
    """Everything that is remembered between two questions; make one by `begin`."""

    tasks: Mapping[str, Task]
    turns: Mapping[str, Turn]
    seen: Moment
    seed: int = 0


class Plan(msgspec.Struct, frozen=True):
    """What to start now, and after how many seconds to ask again when nothing happens before."""

    state: State
    start: tuple[str, ...]
    wait: float


def fraction(key: str, seed: int, turn: int) -> float:
    """A number in [0, 1) that is spread over keys and turns, and the same for the same input."""
    digest = blake2b(f"{seed}:{turn}:{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def begin(now: Moment, seed: int = 0) -> State:
    """A state without tasks."""
    return State(tasks={}, turns={}, seen=now, seed=seed)


def with_tasks(
    state: State,
    tasks: Iterable[Task],
    now: Moment,
    limits: Limits,
    last: Mapping[str, float] | None = None,
) -> State:
    """Replace the set of tasks; those that stay keep their turns.

    `last`: when new ones were done before (an earlier run), by key, in Unix seconds. New ones that
    were never done are due at once; those that are overdue are spread over `catch_up`.
    """
    wanted = {task.key: task for task in tasks}
    turns: dict[str, Turn] = {}
    for key, task in wanted.items():
        kept = state.turns.get(key)
        if kept is None:
            turns[key] = Turn(_first_due(task, (last or {}).get(key), now, limits, state.seed))
        elif state.tasks[key].every != task.every and not kept.running:
            soonest = min(kept.due, now.wall + task.every)
            turns[key] = msgspec.structs.replace(kept, due=soonest)
        else:
            turns[key] = kept
    return msgspec.structs.replace(state, tasks=wanted, turns=turns)


def _first_due(task: Task, last: float | None, now: Moment, limits: Limits, seed: int) -> float:
    if last is None:
        return now.wall
    due = min(last, now.wall) + task.every
    if due > now.wall:
        return due
    return now.wall + fraction(task.key, seed, 0) * min(limits.catch_up, task.every)


def nudge(state: State, key: str, at: float) -> State:
    """Make a task due at `at` (wall clock) if it is not due before; unknown and running ones too.

    A nudge for a task that runs is kept: it is due again once it has ended.
    """
    turn = state.turns.get(key)
    if turn is None or turn.due <= at:
        return state
    return _with(state, {key: msgspec.structs.replace(turn, due=at)})


def done(state: State, key: str, now: Moment, *, ok: bool) -> State:
    """A task has ended; one that was removed meanwhile is forgotten."""
    turn, task = state.turns.get(key), state.tasks.get(key)
    if turn is None or task is None:
        return state
    failures = 0 if ok else min(turn.failures + 1, MOST_DOUBLINGS)
    every = task.every * (2**failures if task.backs_off else 1)
    early = JITTER * task.every * fraction(key, state.seed, turn.turns + 1)
    due = now.wall + every - early
    if turn.running and turn.due < _NEVER:  # nudged while it ran
        due = min(due, turn.due)
    after = Turn(due=due, failures=failures, turns=turn.turns + 1)
    return _with(state, {key: after})


def plan(state: State, now: Moment, limits: Limits) -> Plan:
    """What to start now: the most overdue of each lane, lanes in turn, none above its limit."""
    state = _stepped(state, now, limits)
    running = Counter(state.tasks[key].lane for key, t in state.turns.items() if t.running)
    busy = {state.tasks[k].lane for k, t in state.turns.items() if t.running and t.failures}
    picked = [
        _picked(state, lane in busy, keys, limits.lanes.get(lane, limits.per_lane) - running[lane])
        for lane, keys in _waiting(state, now).items()
    ]
    room = limits.total - running.total()
    start = tuple(_in_turn(picked, running, state))[: max(0, room)]
    started = {
        key: msgspec.structs.replace(state.turns[key], running=True, due=_NEVER) for key in start
    }
    after = _with(state, started)
    return Plan(after, start, _wait(after, now))


def _waiting(state: State, now: Moment) -> dict[str, list[tuple[float, str]]]:
    """What is due, by lane."""
    found: dict[str, list[tuple[float, str]]] = {}
    for key, turn in state.turns.items():
        if not turn.running and turn.due <= now.wall:
            found.setdefault(state.tasks[key].lane, []).append((turn.due, key))
    return found


def _picked(state: State, failing: bool, keys: list[tuple[float, str]], free: int) -> list[str]:
    """The most overdue of a lane; of those that failed before, one at a time."""
    chosen: list[str] = []
    for _, key in sorted(keys):
        if len(chosen) >= free:
            break
        if state.turns[key].failures and failing:
            continue
        failing = failing or bool(state.turns[key].failures)
        chosen.append(key)
    return chosen


def _in_turn(picked: list[list[str]], running: Counter[str], state: State) -> Iterable[str]:
    """One of each lane, then the second of each: lanes that run least first."""
    order = sorted((p for p in picked if p), key=lambda p: running[state.tasks[p[0]].lane])
    deepest = max(map(len, order), default=0)
    return chain.from_iterable([p[n] for p in order if n < len(p)] for n in range(deepest))


def _wait(state: State, now: Moment) -> float:
    """Until the next task is due; what is due and has no room is woken by the end of another."""
    coming = [t.due for t in state.turns.values() if not t.running and t.due > now.wall]
    return max(0.0, min(min(coming, default=_NEVER) - now.wall, LONGEST_WAIT_S))


def _stepped(state: State, now: Moment, limits: Limits) -> State:
    """Take the steps of the clocks since the last question into account."""
    moved = now.wall - state.seen.wall
    step = moved - (now.mono - state.seen.mono)
    before = msgspec.structs.replace(state, seen=now)
    if step < -STEP_S:
        shifted = {
            key: msgspec.structs.replace(turn, due=turn.due + step)
            for key, turn in state.turns.items()
            if not turn.running
        }
        return _with(before, shifted)
    if step > STEP_S:
        return _with(before, _caught_up(state, now, limits))
    return before


def _caught_up(state: State, now: Moment, limits: Limits) -> dict[str, Turn]:
    """What became due during the step, spread; what was due before it keeps its place."""
    found: dict[str, Turn] = {}
    for key, turn in state.turns.items():
        if turn.running or not state.seen.wall < turn.due <= now.wall:
            continue
        span = min(limits.catch_up, state.tasks[key].every)
        late = now.wall + fraction(key, state.seed, turn.turns) * span
        found[key] = msgspec.structs.replace(turn, due=late)
    return found


def _with(state: State, turns: Mapping[str, Turn]) -> State:
    return msgspec.structs.replace(state, turns={**state.turns, **turns}) if turns else state
