"""Error, interval and overlap, measured on seeded sketches and held against what is documented."""

from __future__ import annotations

import numpy as np
import pytest

from nostr_client import hll
from nostr_client.hll.overlap import jaccard_interval, overlap_intervals
from tests.sketches import draw

SEED = 4501


def estimates(n: int, trials: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rows = draw(np.random.default_rng((SEED, n)), n, trials)
    return np.array([hll.estimate(row.tobytes()) for row in rows])


def rmse_percent(values: np.ndarray[tuple[int], np.dtype[np.float64]], truth: float) -> float:
    return 100 * float(np.sqrt(np.mean((values / truth - 1) ** 2)))


@pytest.mark.parametrize("n", [1, 3, 40, 700, 20_000])
def test_drawn_sketches_are_like_those_of_real_keys(n: int) -> None:
    rng = np.random.default_rng((SEED, n))
    rounds = min(400, 400_000 // n)
    keys = rng.integers(0, 256, (rounds, n, 32), dtype=np.uint8)
    real = np.array([list(hll.from_raw(batch, 13)) for batch in keys])
    drawn = draw(rng, n, rounds)
    for rank in range(20):
        a, b = np.mean(real <= rank), np.mean(drawn <= rank)
        pooled = (a + b) / 2
        assert abs(a - b) <= 5 * np.sqrt(2 * pooled * (1 - pooled) / real.size) + 1 / real.size


TABLE = [(50, 4.5), (256, 4.9), (640, 5.4), (1000, 5.8), (100_000, 6.5)]


@pytest.mark.parametrize(("n", "percent"), TABLE)
def test_relative_error(n: int, percent: float) -> None:
    assert rmse_percent(estimates(n, 10_000), n) == pytest.approx(percent, rel=0.03)


@pytest.mark.long
@pytest.mark.parametrize(("n", "percent"), TABLE)
def test_relative_error_over_many_trials(n: int, percent: float) -> None:
    assert rmse_percent(estimates(n, 100_000), n) == pytest.approx(percent, rel=0.03)


@pytest.mark.parametrize("n", [20, 100, 500, 5000, 1_000_000])
def test_error_is_close_to_the_bound_and_has_next_to_no_bias(n: int) -> None:
    values = estimates(n, 10_000)
    assert rmse_percent(values, n) == pytest.approx(100 * hll.sigma(n), rel=0.04)
    assert abs(float(np.mean(values)) / n - 1) < 0.008


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 9, 12, 20, 50, 200, 1000, 30_000, 1_000_000])
def test_interval_covers_the_truth_as_often_as_it_says(n: int) -> None:
    ranges = [hll.interval(float(value)) for value in estimates(n, 5_000)]
    covered = 100 * np.mean([low <= n <= high for low, high in ranges])
    assert covered >= 94
    assert covered <= 99 or n < 100  # whole numbers, rounded outward


def overlaps(n: int, shared: int, trials: int) -> list[hll.Overlap]:
    rng = np.random.default_rng((SEED, n, shared))
    a, b = draw(rng, n - shared, trials), draw(rng, n - shared, trials)
    both = draw(rng, shared, trials)
    left, right = np.maximum(a, both), np.maximum(b, both)
    return [hll.overlap(x.tobytes(), y.tobytes()) for x, y in zip(left, right, strict=True)]


@pytest.mark.parametrize("n", [100, 2000, 100_000])
@pytest.mark.parametrize(("share", "percent"), [(0.0, 3.2), (0.3, 6.0), (0.6, 6.5), (0.9, 7.0)])
def test_overlap_error(n: int, share: float, percent: float) -> None:
    shared = int(n * share)
    found = overlaps(n, shared, 150)
    error = [result.intersection - shared for result in found]
    assert 100 * float(np.sqrt(np.mean(np.square(error)))) / n < percent


MIXES = [
    (70, 70, 30), (1400, 1400, 600), (2000, 2000, 0), (50, 5000, 1000), (200, 200, 1800),
    (0, 0, 3), (3, 3, 3), (0, 0, 100_000), (0, 700, 100_000), (300, 300, 100_000),
    (50_000, 50_000, 500), (10, 100_000, 0), (0, 9000, 1000), (100, 10_000, 100),
]  # fmt: skip


def overlap_coverage(parts: tuple[int, int, int], trials: int) -> list[float]:
    """Return how many of 100 ranges of each number hold its truth."""
    rng = np.random.default_rng((SEED, *parts))
    only_a, only_b, both = (draw(rng, n, trials) for n in parts)
    union = sum(parts)
    truth = (union, parts[2], parts[0], parts[1], parts[2] / union)
    covered = np.zeros(5)
    for x, y, shared in zip(only_a, only_b, both, strict=True):
        sketches = np.maximum(x, shared).tobytes(), np.maximum(y, shared).tobytes()
        found, ranges = hll.overlap(*sketches), overlap_intervals(*sketches)
        assert all(low <= one <= high for one, (low, high) in zip(found, ranges, strict=False))
        assert ranges.jaccard == jaccard_interval(*sketches)
        covered += [low <= one <= high for one, (low, high) in zip(truth, ranges, strict=True)]
    return [100 * float(number) / trials for number in covered]


@pytest.mark.parametrize("parts", MIXES)
def test_overlap_intervals_cover_the_truth(parts: tuple[int, int, int]) -> None:
    """At least 92 times in 100, and by chance a few less of 150 trials."""
    assert min(overlap_coverage(parts, 150)) >= 88


@pytest.mark.long
@pytest.mark.parametrize("parts", MIXES)
def test_overlap_intervals_cover_the_truth_over_many_trials(parts: tuple[int, int, int]) -> None:
    assert min(overlap_coverage(parts, 1500)) >= 92


def test_the_index_of_equal_sketches_follows_from_what_they_may_hide() -> None:
    one = draw(np.random.default_rng(SEED), 100_000)[0].tobytes()
    ranges = overlap_intervals(one, one)
    both = ranges.union[0]
    hidden = ranges.only_a[1] + ranges.only_b[1]
    assert hidden > 0
    assert both / (both + hidden) - 0.02 <= ranges.jaccard[0] <= 1 - hidden / (ranges.union[1] * 2)


@pytest.mark.parametrize("parts", [(0, 0, 0), (5, 0, 0), (0, 300, 0), (40, 60, 20), (2, 9, 9_000)])
def test_the_union_is_that_of_the_merged_sketches(parts: tuple[int, int, int]) -> None:
    rng = np.random.default_rng((SEED, *parts))
    only_a, only_b, both = (draw(rng, n, 1)[0] if n else np.zeros(hll.M, np.uint8) for n in parts)
    a, b = np.maximum(only_a, both).tobytes(), np.maximum(only_b, both).tobytes()
    found, union = hll.overlap(a, b), hll.estimate(hll.merge(a, b))
    assert found.union == union
    assert found.intersection + found.only_a + found.only_b == pytest.approx(union)
    assert overlap_intervals(a, b).union == hll.interval(union)


FULL = bytes([hll.MAX_RANK]) * hll.M


def test_the_parts_of_a_full_union_are_at_most_as_large_as_the_sets() -> None:
    few = hll.from_pubkeys([bytes([n]) * 32 for n in range(9)], 8)
    ranges, most = overlap_intervals(FULL, few), hll.interval(hll.estimate(few))[1]
    assert ranges.union[1] == ranges.only_a[1] == np.inf
    assert ranges.only_a[0] > 1e19
    assert ranges.intersection == ranges.only_b == (0.0, most)
    assert ranges.jaccard == (0.0, 1.0)
    assert overlap_intervals(FULL, FULL).intersection == (0.0, np.inf)


def test_nobody_is_shared_with_an_empty_sketch_even_by_a_full_one() -> None:
    ranges = overlap_intervals(hll.EMPTY, FULL)
    assert ranges.intersection == ranges.only_a == ranges.jaccard == (0.0, 0.0)
    assert ranges.only_b == ranges.union == hll.interval(np.inf)


def test_overlap_says_noise_where_there_is_next_to_nothing() -> None:
    assert np.mean([result.noise for result in overlaps(2000, 0, 200)]) > 0.95
    assert np.mean([result.noise for result in overlaps(2000, 40, 200)]) > 0.9
    assert not any(result.noise for result in overlaps(2000, 600, 200))
