"""Registers, estimates and overlaps beyond the vectors: laws, hostile input, life without numpy."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.errors import InvalidInput, InvalidKey

RANKS = st.binary(min_size=256, max_size=256).map(lambda raw: bytes(b % 58 for b in raw))
KEYS = st.lists(st.binary(min_size=32, max_size=32), max_size=80)
OFFSETS = st.integers(8, 23)


@given(RANKS, RANKS, RANKS)
def test_merge_is_a_join(a: bytes, b: bytes, c: bytes) -> None:
    assert hll.merge(a, b) == bytes(map(max, a, b)) == hll.merge(b, a)
    assert hll.merge(a, a) == a == hll.merge(a) == hll.merge(a, hll.EMPTY)
    assert hll.merge(hll.merge(a, b), c) == hll.merge(a, hll.merge(b, c)) == hll.merge(a, b, c)


def test_merge_of_nothing_is_empty() -> None:
    assert hll.merge() == hll.EMPTY


@given(KEYS, KEYS, OFFSETS)
def test_merging_sketches_is_the_sketch_of_all_keys(
    a: list[bytes], b: list[bytes], offset: int
) -> None:
    merged = hll.merge(hll.from_pubkeys(a, offset), hll.from_pubkeys(b, offset))
    assert merged == hll.from_raw(b"".join([*a, *b]), offset)


def zero_led_keys(offset: int) -> list[bytes]:
    """Windows at every place where rounding or a cap could slip by one."""
    windows = [0, 1, 2**56 - 1]
    for bit in range(1, 56):
        windows += [2**bit - 1, 2**bit, 2**bit + 1, 2**56 - 2**bit]
    tail = b"\xff" * (24 - offset)
    return [b"\xff" * offset + b"\x07" + w.to_bytes(7, "big") + tail for w in windows]


@pytest.mark.parametrize("offset", [8, 15, 23])
def test_the_batch_counts_zeros_like_the_single_add(offset: int) -> None:
    for key in zero_led_keys(offset):
        single = bytearray(hll.M)
        hll.add(single, key, offset)
        assert single == hll.from_raw(key, offset)
        assert single[7] == 57 - int.from_bytes(key[offset + 1 : offset + 8], "big").bit_length()


def test_a_batch_may_be_a_view_with_gaps() -> None:
    keys = np.random.default_rng(7).integers(0, 256, (90, 32), dtype=np.uint8)
    assert hll.from_raw(keys[::3], 9) == hll.from_raw(keys[::3].tobytes(), 9)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ab",
        "AB" * 32,
        " " + "ab" * 31 + "a",
        "ab" * 31 + " ab",
        "xy" * 32,
        "ab" * 33,
        b"",
        b"a" * 31,
    ],
)
def test_what_is_no_pubkey_is_refused_and_changes_nothing(key: str | bytes) -> None:
    registers = bytearray(hll.M)
    with pytest.raises(InvalidKey):
        hll.add(registers, key, 8)
    assert not any(registers)


@pytest.mark.parametrize("offset", [-1, 7, 24, 300])
def test_an_offset_that_no_filter_has_is_refused(offset: int) -> None:
    with pytest.raises(InvalidInput):
        hll.add(bytearray(hll.M), bytes(32), offset)
    with pytest.raises(InvalidInput):
        hll.from_raw(bytes(32), offset)
    with pytest.raises(InvalidInput):
        hll.from_pubkeys([], offset)


def test_wrong_sizes_are_refused() -> None:
    for call in (hll.estimate, hll.merge, hll.to_hex, lambda r: hll.overlap(r, hll.EMPTY)):
        with pytest.raises(InvalidInput):
            call(bytes(255))
    with pytest.raises(InvalidInput):
        hll.add(bytearray(255), bytes(32), 8)
    with pytest.raises(InvalidInput):
        hll.from_raw(bytes(33), 8)
    for shape, dtype in (((4, 31), np.uint8), ((32,), np.uint8), ((4, 32), np.int64)):
        with pytest.raises(InvalidInput):
            hll.from_raw(np.zeros(shape, dtype), 8)


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        (None, None),
        ("", None),
        (5, "not a string"),
        (["00"], "not a string"),
        ("00" * 255, "bad length"),
        ("0" * 511, "bad length"),
        ("00" * 10_000_000, "bad length"),
        ("zz" * 256, "not hex"),
        (" 0" * 256, "not hex"),
        ("é0" * 256, "not hex"),
        ("00 " * 170 + "00", "not hex"),
    ],
)
def test_from_hex_never_raises(value: object, warning: str | None) -> None:
    registers, warnings = hll.from_hex(value)
    assert registers is None
    assert [w for w in warnings if warning and warning in w] == list(warnings)
    assert len(warnings) == (warning is not None)


@given(st.one_of(st.none(), st.integers(), st.text(), st.binary(), st.lists(st.text())))
def test_from_hex_takes_anything(value: object) -> None:
    registers, warnings = hll.from_hex(value)
    assert registers is None or len(registers) == hll.M
    assert all(isinstance(w, str) for w in warnings)


@given(st.binary(min_size=256, max_size=256))
def test_hostile_registers_are_clamped_everywhere(raw: bytes) -> None:
    clamped = bytes(min(b, 57) for b in raw)
    registers, warnings = hll.from_hex(raw.hex().upper())
    assert registers == clamped
    assert bool(warnings) is (raw != clamped)
    assert hll.merge(raw) == clamped
    assert hll.to_hex(raw) == clamped.hex()
    assert math.isclose(hll.estimate(raw), hll.estimate(clamped))


@given(RANKS)
def test_estimate_is_a_number_above_the_registers_in_use(registers: bytes) -> None:
    used = sum(1 for rank in registers if rank)
    assert hll.estimate(registers) >= used * 0.99


@given(RANKS, RANKS)
def test_estimate_grows_with_the_sketch(a: bytes, b: bytes) -> None:
    assert hll.estimate(hll.merge(a, b)) >= hll.estimate(a) * (1 - 1e-12)


def test_intervals_hold_their_estimate() -> None:
    assert hll.interval(0.0) == (0.0, 0.0)
    low, high = hll.interval(math.inf)
    assert 1e19 < low < high == math.inf
    for n in (1.0, 3.5, 100.0, 1e6, 1e18, 1e20):
        low, high = hll.interval(n, sigma=hll.sigma(n))
        assert low < n < high
        assert math.isclose(low * high, n * n)
        wide = hll.interval(n, z=3.0, sigma=hll.sigma(n))
        assert wide[0] < low
        assert wide[1] > high
        whole = hll.interval(n)
        assert whole == (max(math.floor(low), 1), math.ceil(high))


@pytest.mark.parametrize(
    ("n", "percent"),
    [(20, 4.45), (50, 4.50), (100, 4.58), (256, 4.83), (500, 5.18), (640, 5.35), (1000, 5.68),
     (5000, 6.32), (1_000_000, 6.48)],
)  # fmt: skip
def test_sigma_is_the_cramer_rao_value(n: int, percent: float) -> None:
    assert 100 * hll.sigma(n) == pytest.approx(percent, abs=0.006)


def test_sigma_at_the_ends() -> None:
    assert hll.sigma(0) == pytest.approx(hll.sigma(1), abs=1e-4)
    assert hll.sigma(1e-9) == hll.sigma(0)
    assert hll.sigma(1e19) < 0.1 < hll.sigma(1e20) < hll.sigma(1e300)


def test_several_values_of_one_attribute_may_be_merged_and_several_attributes_not() -> None:
    a, b = "0" * 32 + "1" + "0" * 31, "0" * 32 + "2" + "0" * 31
    assert hll.mergeable({"kinds": [7], "#e": [a, b]})
    assert hll.offset({"kinds": [7], "#e": [a, b]}) == 9
    assert not hll.mergeable({"#e": [a], "#p": [b]})
    assert not hll.mergeable({"#e": [a, 5]})
    assert not hll.mergeable({"#e": []})
    assert not hll.mergeable({})


def test_offset_takes_the_first_attribute_in_the_order_of_the_mapping() -> None:
    a, b = "0" * 32 + "1" + "0" * 31, "0" * 32 + "2" + "0" * 31
    assert hll.offset({"kinds": [7], "#e": [a], "#p": [b]}) == 9
    assert hll.offset({"#p": (b, a), "#e": (a,)}) == 10
    assert hll.offset({"#p": [], "#e": [a]}) is None
    assert hll.offset({"#p": "text"}) is None
    assert hll.offset({"#t": ["\ud800"]}) is None
    assert not hll.eligible({"#t": ["\ud800"]})
    assert not hll.eligible({"#p": [a, b]})
    assert hll.eligible({"#p": (a,)})


@pytest.mark.parametrize("identifier", ["a:b", "::", "a\nb", "", "日本"])
def test_an_address_keeps_its_pubkey_whatever_its_identifier_holds(identifier: str) -> None:
    author = "0" * 32 + "f" + "0" * 31
    assert hll.offset({"#a": [f"30023:{author}:{identifier}"]}) == 23


@pytest.mark.parametrize(
    "value", ["F" * 64, "30023:" + "F" * 64 + ":d", "x:" + "f" * 64 + ":d", "٣:" + "f" * 64 + ":d"]
)
def test_upper_case_and_odd_kinds_are_plain_text_and_hashed(value: str) -> None:
    digest = hashlib.sha256(value.encode()).hexdigest()
    assert hll.offset({"#a": [value]}) == int(digest[32], 16) + 8


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from nostr_client import hll
keys = [bytes([i % 256, i // 256]) * 16 for i in range(1000)]
registers = bytearray(256)
for key in keys:
    hll.add(registers, key.hex(), 11)
assert hll.from_pubkeys(keys, 11) == registers
assert hll.merge(registers, hll.EMPTY) == registers
assert hll.interval(hll.estimate(registers))[0] > 0
assert not hll.overlap(registers, registers).noise
"""


def test_small_things_work_without_numpy() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], check=True, timeout=30)


def test_import_loads_no_event_loop_and_no_numpy() -> None:
    code = (
        "import sys, nostr_client.hll as h; h.merge(h.EMPTY, h.EMPTY); h.estimate(h.EMPTY); "
        "bad = {'asyncio', 'aiohttp', 'numpy'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
