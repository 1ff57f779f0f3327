"""The trust tests: what they see, how seldom they are wrong, and the tails they stand on."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.count import trust
from nostr_client.count.trust.shape import binomial_upper, chi_square_upper, occupied
from nostr_client.errors import InvalidInput
from tests.sketches import draw

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Row = npt.NDArray[np.uint8]
    Forgery = Callable[[np.random.Generator, Row], None]

SEED = 4503
HONEST = (1, 2, 5, 20, 50, 100, 200, 400, 640, 1000, 5000, 20_000, 100_000, 1_000_000)
RANKS = st.binary(min_size=256, max_size=256).map(lambda raw: bytes(b % 58 for b in raw))


# Forgeries: one row of registers, changed in place.


def one_full(rng: np.random.Generator, row: Row) -> None:
    row[rng.integers(256)] = 57


def raised(how_many: int, by: int) -> Forgery:
    def forge(rng: np.random.Generator, row: Row) -> None:
        chosen = rng.choice(256, how_many, replace=False)
        row[chosen] = np.minimum(row[chosen] + by, 57)

    return forge


def lowest_to_median(_rng: np.random.Generator, row: Row) -> None:
    lowest = np.argsort(row, kind="stable")[:64]
    row[lowest] = np.maximum(row[lowest], int(np.median(row)))


def all_one_higher(_rng: np.random.Generator, row: Row) -> None:
    row[:] = np.minimum(row + 1, 57)


def detected(forge: Forgery, n: int, trials: int) -> float:
    rng = np.random.default_rng((SEED, n))
    rows = draw(rng, n, trials)
    for row in rows:
        forge(rng, row)
    return float(np.mean([not trust.shape(row.tobytes()).passed for row in rows]))


@pytest.mark.parametrize("n", [200, 640, 5000, 1_000_000])
@pytest.mark.parametrize(
    ("forge", "least", "most"),
    [
        pytest.param(one_full, 1.0, 1.0, id="one register at 57"),
        pytest.param(raised(64, 4), 0.99, 1.0, id="64 registers +4"),
        pytest.param(raised(32, 4), 0.50, 0.88, id="32 registers +4"),
        pytest.param(lowest_to_median, 0.97, 1.0, id="64 lowest raised to the median"),
    ],
)
def test_shape_detection_table(forge: Forgery, least: float, most: float, n: int) -> None:
    assert least <= detected(forge, n, 400) <= most


@pytest.mark.parametrize("n", [1000, 5000, 1_000_000])
def test_a_clean_doubling_has_the_right_form_and_is_not_seen(n: int) -> None:
    assert detected(all_one_higher, n, 400) <= 0.01


def false_alarms(n: int, trials: int) -> int:
    rows = draw(np.random.default_rng((SEED, 1, n)), n, trials)
    return sum(not trust.shape(row.tobytes()).passed for row in rows)


def test_shape_flags_an_honest_sketch_less_than_once_in_a_thousand() -> None:
    trials = 1500
    assert sum(false_alarms(n, trials) for n in HONEST) <= 0.001 * trials * len(HONEST)


@pytest.mark.long
@pytest.mark.parametrize("n", HONEST)
def test_shape_false_alarms_at_each_size(n: int) -> None:
    assert false_alarms(n, 30_000) <= 0.0008 * 30_000


def test_shape_says_why() -> None:
    row = draw(np.random.default_rng(SEED), 1000)[0]
    honest = trust.shape(row.tobytes())
    assert honest.passed
    assert 800 < honest.robust_n < 1200
    row[0] = 57
    forged = trust.shape(row.tobytes())
    # The forged register is censored: it does not move the estimate that it is held against.
    assert forged.robust_n == pytest.approx(honest.robust_n, rel=0.02)
    assert forged.reasons[0].startswith("hll: too many registers above ")
    assert forged.tail_p < 1e-4


def test_shape_of_the_extremes() -> None:
    assert trust.shape(hll.EMPTY).passed
    assert not trust.shape(bytes([57]) * 256).passed
    assert not trust.shape(bytes([255]) * 256).passed
    assert not trust.shape(bytes([3]) * 256).passed
    assert not trust.shape(bytes([0, 57] * 128)).passed
    with pytest.raises(InvalidInput):
        trust.shape(bytes(255))


@given(st.binary(min_size=256, max_size=256))
def test_no_registers_break_the_shape_test(raw: bytes) -> None:
    result = trust.shape(raw)
    assert 0 <= result.tail_p <= 1
    assert 0 <= result.histogram_p <= 1
    assert result.passed is not bool(result.reasons)


def flagged_counts(n: int, count: int, trials: int, *, one_per_author: bool) -> float:
    rows = draw(np.random.default_rng((SEED, 2, n)), n, trials)
    return float(
        np.mean(
            [
                not trust.count_consistency(
                    count, row.tobytes(), one_per_author=one_per_author
                ).passed
                for row in rows
            ]
        )
    )


@pytest.mark.parametrize("one_per_author", [True, False])
def test_an_honest_count_is_hardly_ever_flagged(one_per_author: bool) -> None:
    rates = [flagged_counts(n, n, 1500, one_per_author=one_per_author) for n in HONEST]
    assert float(np.mean(rates)) <= 0.0005


@pytest.mark.parametrize("n", [100, 640, 5000, 1_000_000])
def test_a_count_that_is_off_by_half_is_seen(n: int) -> None:
    assert flagged_counts(n, round(n / 1.5), 1000, one_per_author=False) >= 0.985
    assert flagged_counts(n, round(n * 1.5), 1000, one_per_author=True) >= 0.975


def test_more_events_than_people_is_no_contradiction_unless_each_has_one() -> None:
    registers = draw(np.random.default_rng(SEED), 1000)[0].tobytes()
    assert trust.count_consistency(90_000, registers, one_per_author=False).passed
    lie = trust.count_consistency(90_000, registers, one_per_author=True)
    assert "90,000 people" in lie.reasons[0]
    assert lie.z < -4


def test_small_counts_are_judged_by_registers_in_use() -> None:
    six = draw(np.random.default_rng(SEED), 6)[0].tobytes()
    assert 256 - six.count(0) == 6
    assert trust.count_consistency(6, six, one_per_author=True).passed
    assert not trust.count_consistency(5, six, one_per_author=False).passed
    assert trust.count_consistency(7, six, one_per_author=True).passed
    assert not trust.count_consistency(12, six, one_per_author=True).passed
    assert trust.count_consistency(12, six, one_per_author=False).passed


def test_zero_and_nobody() -> None:
    someone = draw(np.random.default_rng(SEED), 900)[0].tobytes()
    zero = trust.count_consistency(0, someone, one_per_author=False)
    assert zero.z == math.inf
    assert not zero.passed
    assert trust.count_consistency(0, hll.EMPTY, one_per_author=True).passed
    nobody = trust.count_consistency(900, hll.EMPTY, one_per_author=True)
    assert nobody.z == -math.inf
    assert not nobody.passed
    assert not trust.count_consistency(10**15, bytes([57]) * 256, one_per_author=False).passed
    with pytest.raises(InvalidInput):
        trust.count_consistency(-1, someone, one_per_author=False)


def relays(n: int, coverage: float, how_many: int, seed: int) -> list[bytes]:
    """Sketches of relays that each hold a random part of the same people."""
    rng = np.random.default_rng((SEED, 3, seed))
    keys = rng.integers(0, 256, (n, 32), dtype=np.uint8)
    return [hll.from_raw(keys[rng.random(n) < coverage], 11) for _ in range(how_many)]


def doubled(registers: bytes) -> bytes:
    return bytes(min(rank + 1, 57) for rank in registers)


@given(st.lists(RANKS, max_size=6))
def test_corroborated_is_the_second_highest(sketches: list[bytes]) -> None:
    second = trust.corroborated(sketches)
    if len(sketches) < 2:
        assert second == hll.EMPTY
    else:
        assert second == bytes(sorted(column)[-2] for column in zip(*sketches, strict=True))
    assert hll.merge(second, *sketches) == hll.merge(*sketches)


@pytest.mark.parametrize("coverage", [0.2, 0.5, 0.8])
def test_one_liar_cannot_raise_the_corroborated_figure_over_the_truth(coverage: float) -> None:
    shares, forged = [], []
    for seed in range(40):
        honest = relays(2000, coverage, 5, seed)
        union = hll.estimate(hll.merge(*honest))
        liar = bytes(min(rank + 3, 57) for rank in honest[0])  # eight times as many
        shares.append(hll.estimate(trust.corroborated(honest)) / union)
        forged.append(hll.estimate(trust.corroborated([liar, *honest[1:]])) / union)
    assert 0.5 < float(np.mean(shares)) <= 1
    assert max(forged) <= 1.001


def exact_upper(n: int, p: Fraction, k: int) -> float:
    return float(sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)))


@pytest.mark.parametrize(
    "p", [Fraction(1, 2**10), Fraction(1, 100), Fraction(1, 2), Fraction(15, 16)]
)
def test_binomial_tail_is_exact(p: Fraction) -> None:
    for k in (0, 1, 2, 7, 30, 128, 200, 255, 256, 257):
        expected = exact_upper(256, p, k)
        assert binomial_upper(256, float(p), k) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_binomial_tail_at_the_ends() -> None:
    assert binomial_upper(256, 0.0, 0) == 1
    assert binomial_upper(256, 0.0, 1) == 0
    assert binomial_upper(256, 1.0, 256) == 1
    assert binomial_upper(256, 1.0, 257) == 0


def chi_square_by_integration(x: float, freedom: int) -> float:
    grid = np.linspace(x, x + 400, 400_001)
    density = grid ** (freedom / 2 - 1) * np.exp(-grid / 2)
    return float(np.trapezoid(density, grid)) / (2 ** (freedom / 2) * math.gamma(freedom / 2))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 8, 15])
@pytest.mark.parametrize("x", [0.5, 3.0, 11.0, 30.0, 60.0])
def test_chi_square_tail(freedom: int, x: float) -> None:
    expected = chi_square_by_integration(x, freedom)
    assert chi_square_upper(x, freedom) == pytest.approx(expected, rel=1e-5)


def test_chi_square_at_the_ends() -> None:
    assert chi_square_upper(0.0, 3) == chi_square_upper(5.0, 0) == chi_square_upper(9.0, -1) == 1.0
    assert chi_square_upper(1e6, 5) == 0.0
    for smaller, larger in pairwise(range(1, 40)):
        assert chi_square_upper(20.0, smaller) < chi_square_upper(20.0, larger)


def test_occupied_boxes() -> None:
    assert occupied(0, 256) == (1.0,)
    assert occupied(2, 4) == pytest.approx((0.0, 0.25, 0.75))
    fifty = occupied(50, 256)
    assert sum(fifty) == pytest.approx(1)
    mean = sum(v * p for v, p in enumerate(fifty))
    assert mean == pytest.approx(256 * (1 - (255 / 256) ** 50))


def test_trust_needs_no_numpy_and_no_event_loop() -> None:
    code = (
        "import sys; from nostr_client.count import trust; trust.shape(bytes(256)); "
        "bad = {'asyncio', 'numpy', 'aiohttp'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
