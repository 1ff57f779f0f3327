"""How many people are new in a sketch, by the registers that rose."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.errors import InvalidInput
from nostr_client.hll.risen import risen

OFFSET = 8


def sketch(rng: random.Random, people: int) -> bytes:
    return hll.from_pubkeys([rng.randbytes(32) for _ in range(people)], OFFSET)


@pytest.mark.parametrize(("before", "new"), [(10_000, 300), (500, 20), (0, 50)])
def test_newcomers_are_seen_in_every_run_and_their_interval_holds(before: int, new: int) -> None:
    rng, runs, held = random.Random(before + new), 40, 0
    values = []
    for _ in range(runs):
        old = sketch(rng, before)
        found = risen(old, hll.merge(old, sketch(rng, new)))
        assert found.registers > 0 or found.high > new
        assert found.low <= found.value <= found.high
        held += found.low <= new <= found.high
        values.append(found.value)
    assert held >= 0.85 * runs
    assert sum(values) / runs == pytest.approx(new, rel=0.25)


def test_three_hundred_on_ten_thousand_are_never_taken_for_nothing() -> None:
    rng = random.Random(7)
    for _ in range(40):
        old = sketch(rng, 10_000)
        assert risen(old, hll.merge(old, sketch(rng, 300))).low > 1


@given(st.binary(min_size=256, max_size=256), st.binary(min_size=256, max_size=256))
def test_any_registers_give_an_interval_in_order(before: bytes, after: bytes) -> None:
    found = risen(before, after)
    assert 0 <= found.low <= found.value <= found.high


@given(st.integers(0, 300), st.integers(0, 2**32))
def test_without_a_rise_nobody_is_new(people: int, seed: int) -> None:
    old = sketch(random.Random(seed), people)
    found = risen(old, old)
    assert (found.value, found.low, found.registers) == (0.0, 0.0, 0)
    assert found.high > 1
    assert risen(old, hll.EMPTY).registers == 0  # what is gone lowers nothing


def test_other_sizes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="256 registers"):
        risen(b"", hll.EMPTY)
