"""The scheduler: limits, fairness, sleep, clocks that are set; simulated over random worlds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nostr_client.watch.scheduler import (
    JITTER,
    LONGEST_WAIT_S,
    Limits,
    Moment,
    State,
    Task,
    begin,
    done,
    fraction,
    nudge,
    plan,
    with_tasks,
)

LIMITS = Limits(per_lane=2, total=64, catch_up=60.0)
T0 = 1_700_000_000.0


def at(seconds: float, wall: float = 0.0) -> Moment:
    """`seconds` after the start, with the wall clock set `wall` seconds ahead."""
    return Moment(T0 + seconds + wall, 1000.0 + seconds)


def tasks(lanes: int, each: int, every: float = 600.0) -> list[Task]:
    return [Task(f"w{n} r{lane}", f"r{lane}", every) for n in range(each) for lane in range(lanes)]


def world(lanes: int = 3, each: int = 4, every: float = 600.0) -> State:
    return with_tasks(begin(at(0)), tasks(lanes, each, every), at(0), LIMITS)


def settled(state: State, second: float, *, wall: float = 0.0) -> State:
    """Everything that is due at `second` has run, in no time."""
    while (found := plan(state, at(second, wall), LIMITS)).start:
        state = found.state
        for key in found.start:
            state = done(state, key, at(second, wall), ok=True)
    return found.state


def test_new_tasks_start_at_once_lane_by_lane() -> None:
    first = plan(world(lanes=3, each=4), at(0), LIMITS)
    assert len(first.start) == 6
    assert {key.split()[1] for key in first.start[:3]} == {"r0", "r1", "r2"}


def test_a_stuck_lane_holds_up_nobody() -> None:
    state = world(lanes=3, each=10)
    ran: set[str] = set()
    for _ in range(20):
        found = plan(state, at(0), LIMITS)
        state = found.state
        for key in found.start:
            if not key.endswith("r0"):
                ran.add(key)
                state = done(state, key, at(0), ok=True)
    assert len(ran) == 20


def test_of_what_failed_one_runs_at_a_time() -> None:
    state = world(lanes=1, each=4)
    while (found := plan(state, at(0), LIMITS)).start:
        state = found.state
        for key in found.start:
            state = done(state, key, at(0), ok=False)
    late = plan(state, at(10_000), LIMITS)
    assert len(late.start) == 1
    assert not plan(late.state, at(10_001), LIMITS).start


def test_a_task_comes_back_after_its_interval_less_some_jitter() -> None:
    state = settled(world(), 0)
    early = 600 * (1 - JITTER)
    assert not plan(state, at(early - 1), LIMITS).start
    dues = [turn.due - T0 for turn in state.turns.values()]
    assert all(early <= due <= 600 for due in dues)
    assert max(dues) - min(dues) > 600 * JITTER / 4


def test_failures_make_turns_rarer_unless_told_not_to() -> None:
    rare, steady = Task("a", "x", 100.0), Task("b", "y", 100.0, backs_off=False)
    state = with_tasks(begin(at(0)), [rare, steady], at(0), LIMITS)
    for _ in range(10):
        state = done(done(state, "a", at(0), ok=False), "b", at(0), ok=False)
    assert state.turns["a"].due - T0 > 100 * 2**6 * (1 - JITTER)
    assert state.turns["b"].due - T0 <= 100
    assert done(state, "a", at(0), ok=True).turns["a"].due - T0 <= 100


def test_after_a_sleep_the_overdue_is_spread() -> None:
    """Eight hours: the wall clock moved, the monotonic one did not."""
    state = settled(world(lanes=10, each=20), 0)
    night = 8 * 3600.0
    woken = plan(state, at(1, wall=night), LIMITS)
    assert len(woken.start) <= 3
    started, second = len(woken.start), 1.0
    state, most = woken.state, 0
    while second < 1 + LIMITS.catch_up + 1:
        second += 1
        found = plan(state, at(second, wall=night), LIMITS)
        state, most = found.state, max(most, len(found.start))
        for key in found.start:
            state = done(state, key, at(second, wall=night), ok=True)
        started += len(found.start)
    assert started == 200
    assert most <= 20


def test_a_clock_set_back_makes_nothing_wait() -> None:
    state = settled(world(), 0)
    back = plan(state, at(1, wall=-86_400), LIMITS)
    assert not back.start
    again = plan(back.state, at(601, wall=-86_400), LIMITS)
    assert len(again.start) == 6


def test_a_restart_goes_on_where_the_last_run_stopped() -> None:
    made = tasks(2, 2)
    last = {made[0].key: T0 - 100, made[1].key: T0 - 100_000}
    state = with_tasks(begin(at(0)), made, at(0), LIMITS, last)
    dues = [state.turns[task.key].due - T0 for task in made]
    assert dues[0] == 500
    assert 0 <= dues[1] <= LIMITS.catch_up
    assert dues[2:] == [0, 0]


def test_a_last_time_in_the_future_is_not_believed() -> None:
    made = tasks(1, 1)
    state = with_tasks(begin(at(0)), made, at(0), LIMITS, {made[0].key: T0 + 1e6})
    assert state.turns[made[0].key].due <= T0 + 600


def test_nudged_while_running_runs_again() -> None:
    state = plan(world(lanes=1, each=1), at(0), LIMITS).state
    state = nudge(state, "w0 r0", T0 + 2)
    state = done(state, "w0 r0", at(1), ok=True)
    assert not plan(state, at(1), LIMITS).start
    assert plan(state, at(2), LIMITS).start == ("w0 r0",)


def test_a_shorter_interval_takes_effect_and_removed_tasks_are_forgotten() -> None:
    state = settled(world(lanes=1, each=2), 0)
    state = with_tasks(state, tasks(1, 1, every=30.0), at(0), LIMITS)
    assert plan(state, at(30), LIMITS).start == ("w0 r0",)
    assert done(state, "w1 r0", at(1), ok=True) is state
    assert nudge(state, "nothing", T0) is state


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
    limits = Limits(per_lane=per_lane, total=total)
    state, mono, wall = world(), 0.0, 0.0
    for what, one, other in steps:
        now = at(mono, wall)
        running = sorted(key for key, turn in state.turns.items() if turn.running)
        if what == "pass":
            mono, wall = mono + one, wall + other
        elif what == "end" and running:
            state = done(state, running[int(one) % len(running)], now, ok=bool(other))
        elif what == "nudge":
            keys = sorted(state.turns)
            state = nudge(state, keys[int(one) % len(keys)], now.wall + other)
        elif what == "tasks":
            state = with_tasks(state, tasks(int(one), int(other)), now, limits)
        before = state
        found = plan(state, at(mono, wall), limits)
        state = found.state
        check(before, found.start, state, limits)
        assert 0 <= found.wait <= LONGEST_WAIT_S


def check(before: State, start: tuple[str, ...], after: State, limits: Limits) -> None:
    running = [key for key, turn in after.turns.items() if turn.running]
    lanes = [after.tasks[key].lane for key in running]
    assert len(set(start)) == len(start)
    assert not any(before.turns[key].running for key in start)
    kept = {key for key, turn in before.turns.items() if turn.running}
    if start:
        assert len(running) <= max(limits.total, len(kept))
    new = {after.tasks[key].lane for key in start}
    assert all(lanes.count(lane) <= limits.per_lane for lane in new)


@given(st.lists(st.floats(-1e5, 1e5), max_size=8), st.integers(1, 5))
def test_whatever_the_clock_did_everything_runs_within_an_interval(
    steps: list[float], lanes: int
) -> None:
    """After the last step of the clock, one interval and the catch-up, each task had its turn."""
    state, mono, wall = settled(world(lanes=lanes, each=3), 0), 0.0, 0.0
    for step in steps:
        mono, wall = mono + 1, wall + step
        state = settled(state, mono, wall=wall)
    turns = {key: turn.turns for key, turn in state.turns.items()}
    until = mono + 600 + LIMITS.catch_up + 1
    while mono < until:
        mono += 1
        state = settled(state, mono, wall=wall)
    assert all(state.turns[key].turns > n for key, n in turns.items())


def test_a_plan_over_many_lanes_leaves_nothing_out() -> None:
    found = plan(world(lanes=200, each=10), at(0), Limits(per_lane=2, total=1000))
    assert len(found.start) == 400
