"""The scheduler: limits, fairness, sleep, clocks that are set; simulated over random worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from nostr_client.watch.scheduler import (
    JITTER,
    LONGEST_WAIT_S,
    STALE,
    LaneLimits,
    Moment,
    Schedule,
    Task,
    TaskState,
    fraction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMITS = LaneLimits(per_lane=2, total=64, catch_up=60.0)
T0 = 1_700_000_000.0


def at(seconds: float, wall: float = 0.0) -> Moment:
    """`seconds` after the start, with the wall clock set `wall` seconds ahead."""
    return Moment(T0 + seconds + wall, 1000.0 + seconds)


def tasks(lanes: int, each: int, every: float = 600.0) -> list[Task]:
    return [Task(f"w{n} r{lane}", f"r{lane}", every) for n in range(each) for lane in range(lanes)]


def of(made: list[Task], last: Mapping[str, float] | None = None) -> Schedule:
    schedule = Schedule(at(0))
    schedule.set_tasks(made, at(0), LIMITS, last)
    return schedule


def world(lanes: int = 3, each: int = 4, every: float = 600.0) -> Schedule:
    return of(tasks(lanes, each, every))


def settle(schedule: Schedule, second: float, *, wall: float = 0.0, ok: bool = True) -> Schedule:
    """Run everything that is due at `second`, in no time."""
    while start := schedule.plan(at(second, wall), LIMITS).start:
        for key in start:
            schedule.done(key, at(second, wall), ok=ok)
    return schedule


def test_new_tasks_start_at_once_lane_by_lane() -> None:
    first = world(lanes=3, each=4).plan(at(0), LIMITS)
    assert len(first.start) == 6
    assert {key.split()[1] for key in first.start[:3]} == {"r0", "r1", "r2"}


def test_a_stuck_lane_holds_up_nobody() -> None:
    schedule = world(lanes=3, each=10)
    ran: set[str] = set()
    for _ in range(20):
        for key in schedule.plan(at(0), LIMITS).start:
            if not key.endswith("r0"):
                ran.add(key)
                schedule.done(key, at(0), ok=True)
    assert len(ran) == 20


def test_of_what_failed_one_runs_at_a_time() -> None:
    schedule = settle(world(lanes=1, each=4), 0, ok=False)
    (only,) = schedule.plan(at(10_000), LIMITS).start
    assert not schedule.plan(at(10_001), LIMITS).start
    schedule.done(only, at(10_002), ok=False)
    assert len(schedule.plan(at(10_003), LIMITS).start) == 1


def test_a_task_comes_back_after_its_interval_less_some_jitter() -> None:
    schedule = settle(world(), 0)
    early = 600 * (1 - JITTER)
    assert not schedule.plan(at(early - 1), LIMITS).start
    dues = [turn.due - T0 for turn in schedule.turns.values()]
    assert all(early <= due <= 600 for due in dues)
    assert max(dues) - min(dues) > 600 * JITTER / 4


def test_failures_make_turns_rarer_unless_told_not_to() -> None:
    rare, steady = Task("a", "x", 100.0), Task("b", "y", 100.0, backs_off=False)
    schedule = of([rare, steady])
    for _ in range(10):
        schedule.done("a", at(0), ok=False)
        schedule.done("b", at(0), ok=False)
    assert schedule.turns["a"].due - T0 > 100 * 2**6 * (1 - JITTER)
    assert schedule.turns["b"].due - T0 <= 100
    schedule.done("a", at(0), ok=True)
    assert schedule.turns["a"].due - T0 <= 100


def test_after_a_sleep_the_overdue_is_spread() -> None:
    """Eight hours: the wall clock moved, the monotonic one did not."""
    schedule = settle(world(lanes=10, each=20), 0)
    night = 8 * 3600.0
    woken = schedule.plan(at(1, wall=night), LIMITS)
    assert len(woken.start) <= 3
    started, second, most = len(woken.start), 1.0, 0
    while second < 1 + LIMITS.catch_up + 1:
        second += 1
        start = schedule.plan(at(second, wall=night), LIMITS).start
        most = max(most, len(start))
        for key in start:
            schedule.done(key, at(second, wall=night), ok=True)
        started += len(start)
    assert started == 200
    assert most <= 20


def test_a_clock_set_back_makes_nothing_wait() -> None:
    schedule = settle(world(), 0)
    assert not schedule.plan(at(1, wall=-86_400), LIMITS).start
    assert len(schedule.plan(at(601, wall=-86_400), LIMITS).start) == 6


def test_a_restart_goes_on_where_the_last_run_stopped() -> None:
    made = tasks(2, 2)
    schedule = of(made, {made[0].key: T0 - 100, made[1].key: T0 - 100_000})
    dues = [schedule.turns[task.key].due - T0 for task in made]
    assert dues[0] == 500
    assert 0 <= dues[1] <= LIMITS.catch_up
    assert dues[2:] == [0, 0]


def test_a_last_time_in_the_future_is_not_believed() -> None:
    made = tasks(1, 1)
    schedule = of(made, {made[0].key: T0 + 1e6})
    assert schedule.turns[made[0].key].due <= T0 + 600


def test_nudged_while_running_runs_again() -> None:
    schedule = world(lanes=1, each=1)
    schedule.plan(at(0), LIMITS)
    schedule.nudge("w0 r0", T0 + 2)
    schedule.done("w0 r0", at(1), ok=True)
    assert not schedule.plan(at(1), LIMITS).start
    assert schedule.plan(at(2), LIMITS).start == ("w0 r0",)


def test_a_shorter_interval_takes_effect_and_removed_tasks_are_forgotten() -> None:
    schedule = settle(world(lanes=1, each=2), 0)
    schedule.set_tasks(tasks(1, 1, every=30.0), at(0), LIMITS)
    assert schedule.plan(at(30), LIMITS).start == ("w0 r0",)
    schedule.done("w1 r0", at(1), ok=True)
    schedule.nudge("nothing", T0)
    assert schedule.turns.keys() == {"w0 r0"}


def test_a_running_task_that_is_removed_leaves_its_place() -> None:
    schedule = world(lanes=1, each=3)
    first = schedule.plan(at(0), LIMITS).start
    schedule.set_tasks(tasks(1, 3)[2:], at(0), LIMITS)
    assert schedule.plan(at(0), LIMITS).start == ("w2 r0",)
    for key in first:
        schedule.done(key, at(0), ok=False)
    assert schedule.turns.keys() == {"w2 r0"}


def test_nudges_leave_nothing_behind() -> None:
    schedule = settle(world(lanes=1, each=1), 0)
    for second in range(10 * STALE):
        schedule.nudge("w0 r0", T0 + second)
        settle(schedule, second)
    assert len(schedule._coming) <= STALE + 3


def test_jitter_is_the_same_for_the_same_input() -> None:
    assert fraction("a", 1, 0) == fraction("a", 1, 0)
    assert fraction("a", 1, 0) != fraction("a", 2, 0) != fraction("b", 2, 0)


STEP = st.one_of(
    st.tuples(st.just("pass"), st.floats(0, 900), st.just(0.0)),
    st.tuples(st.just("pass"), st.floats(0, 10), st.floats(-1e6, 1e6)),
    st.tuples(st.just("end"), st.integers(0, 50), st.booleans()),
    st.tuples(st.just("nudge"), st.integers(0, 50), st.floats(0, 100)),
    st.tuples(st.just("tasks"), st.integers(1, 4), st.integers(1, 6)),
)


@given(st.lists(STEP, max_size=60), st.integers(1, 3), st.integers(1, 9))
def test_no_world_breaks_the_limits(
    steps: list[tuple[str, float, float]], per_lane: int, total: int
) -> None:
    limits = LaneLimits(per_lane=per_lane, total=total)
    schedule, mono, wall = world(), 0.0, 0.0
    for what, one, other in steps:
        now = at(mono, wall)
        running = sorted(key for key, turn in schedule.turns.items() if turn.running)
        if what == "pass":
            mono, wall = mono + one, wall + other
        elif what == "end" and running:
            schedule.done(running[int(one) % len(running)], now, ok=bool(other))
        elif what == "nudge":
            keys = sorted(schedule.turns)
            schedule.nudge(keys[int(one) % len(keys)], now.wall + other)
        elif what == "tasks":
            schedule.set_tasks(tasks(int(one), int(other)), now, limits)
        before = dict(schedule.turns)
        found = schedule.plan(at(mono, wall), limits)
        check(before, found.start, schedule, limits)
        nothing_left_out(schedule, at(mono, wall), found.wait, limits)
        assert 0 <= found.wait <= LONGEST_WAIT_S


def check(
    before: Mapping[str, TaskState], start: tuple[str, ...], after: Schedule, limits: LaneLimits
) -> None:
    running = [key for key, turn in after.turns.items() if turn.running]
    lanes = [after.tasks[key].lane for key in running]
    assert len(set(start)) == len(start)
    assert not any(before[key].running for key in start)
    kept = {key for key, turn in before.items() if turn.running}
    assert kept | set(start) == set(running)
    if start:
        assert len(running) <= max(limits.total, len(kept))
    new = {after.tasks[key].lane for key in start}
    assert all(lanes.count(lane) <= limits.per_lane for lane in new)


def nothing_left_out(schedule: Schedule, now: Moment, wait: float, limits: LaneLimits) -> None:
    """What waits though it is due has no room; the rest is due after `wait`, not earlier."""
    turns = schedule.turns
    running = [key for key, turn in turns.items() if turn.running]
    for key, turn in turns.items():
        if turn.running:
            continue
        if turn.due > now.wall:
            assert turn.due - now.wall >= wait
            continue
        beside = [other for other in running if lane_of(schedule, other) == lane_of(schedule, key)]
        held_up = turn.failures and any(turns[other].failures for other in beside)
        assert held_up or len(beside) >= limits.per_lane or len(running) >= limits.total


def lane_of(schedule: Schedule, key: str) -> str:
    return schedule.tasks[key].lane


@given(st.lists(st.floats(-1e5, 1e5), max_size=8), st.integers(1, 5))
def test_whatever_the_clock_did_everything_runs_within_an_interval(
    steps: list[float], lanes: int
) -> None:
    """After the last step of the clock, one interval and the catch-up, each task had its turn."""
    schedule, mono, wall = settle(world(lanes=lanes, each=3), 0), 0.0, 0.0
    for step in steps:
        mono, wall = mono + 1, wall + step
        settle(schedule, mono, wall=wall)
    turns = {key: turn.turns for key, turn in schedule.turns.items()}
    until = mono + 600 + LIMITS.catch_up + 1
    while mono < until:
        mono += 1
        settle(schedule, mono, wall=wall)
    assert all(schedule.turns[key].turns > n for key, n in turns.items())


def test_a_plan_over_many_lanes_leaves_nothing_out() -> None:
    found = world(lanes=200, each=10).plan(at(0), LaneLimits(per_lane=2, total=1000))
    assert len(found.start) == 400
