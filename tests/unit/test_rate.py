"""How fast is too fast."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nostr_client.network.pacing import RateWindow, TokenBucket

STEPS = st.lists(st.floats(0, 2), min_size=1, max_size=200)


@given(STEPS, st.floats(0.5, 100), st.floats(1, 50))
def test_who_waits_as_told_never_exceeds_rate_and_burst(
    steps: list[float], rate: float, burst: float
) -> None:
    bucket, now, times = TokenBucket(rate, burst), 0.0, []
    for step in steps:
        now += step
        now += bucket.take(now)
        times.append(now)
    for first in range(0, len(times), 7):
        for last in range(first, len(times), 11):
            most = burst + rate * (times[last] - times[first]) + 1e-6
            assert last - first + 1 <= most + 1


def test_a_bucket_lets_a_burst_through_and_then_paces() -> None:
    bucket = TokenBucket(10, 5, now=100.0)
    assert [bucket.take(100.0) for _ in range(5)] == [0.0] * 5
    assert [round(bucket.take(100.0), 3) for _ in range(3)] == [0.1, 0.2, 0.3]
    assert bucket.take(200.0) == 0


def allowed(bucket: TokenBucket, now: float, tries: int = 100) -> int:
    return sum(bucket.allow(now) for _ in range(tries))


def test_a_bucket_gives_its_rate_and_saves_a_burst() -> None:
    bucket = TokenBucket(10, 20)
    assert [allowed(bucket, now) for now in (0, 0.5, 1_000)] == [20, 5, 20]


def test_a_clock_that_jumps_back_gives_nothing_and_harms_nothing() -> None:
    bucket = TokenBucket(10, 10, now=100)
    assert [allowed(bucket, now) for now in (100, 50, 50.5)] == [10, 0, 5]


@given(STEPS, st.floats(0.5, 100), st.floats(1, 50), st.floats(0, 1e9))
def test_who_waits_as_long_as_it_says_is_allowed(
    steps: list[float], rate: float, burst: float, now: float
) -> None:
    bucket = TokenBucket(rate, burst, now=now)
    for step in steps:
        now += step
        wait = bucket.wait(now)
        assert bucket.allow(now) is not bool(wait)
        if wait:
            now += wait
            assert bucket.wait(now) < 1e-6 * max(1.0, now)


def test_a_bucket_owes_no_more_than_it_may() -> None:
    bucket = TokenBucket(10, 20, debt=50)
    assert bucket.take(0, 1e9) == 5
    assert bucket.wait(0, 0) == 5
    assert bucket.wait(4, 0) == 1


@given(STEPS, st.integers(1, 20), st.floats(0.1, 5))
def test_a_window_judges_as_counting_does(steps: list[float], most: int, seconds: float) -> None:
    window, now, times = RateWindow(most, seconds), 0.0, []
    for step in steps:
        now += step
        times.append(now)
        recent = sum(1 for time in times if now - time < seconds)
        assert window.exceeded(now) == (recent > most)
