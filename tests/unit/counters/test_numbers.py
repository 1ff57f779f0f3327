"""Integers of any length as text."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.counters.rules import (
    add_text,
    canonical,
    format_integer,
    is_integer,
    parse_integer,
    subtract_text,
)

LONG = st.integers(min_value=-(10**1400), max_value=10**1400)


@pytest.mark.parametrize("digits", [1, 599, 600, 601, 640, 4_299, 4_300, 4_301, 65_000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_every_length_comes_back(digits: int, sign: str) -> None:
    text = sign + "9" * digits
    assert format_integer(parse_integer(text)) == text


def test_the_interpreters_limit_is_neither_needed_nor_changed() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        text = "1" + "0" * 10_000
        assert format_integer(parse_integer(text)) == text
        assert add_text(text, "-1") == "9" * 10_000
        assert sys.get_int_max_str_digits() == 640
    finally:
        sys.set_int_max_str_digits(before)


def test_a_carry_makes_a_number_longer() -> None:
    assert add_text("9" * 5_000, "1") == "1" + "0" * 5_000


def test_more_digits_than_a_default_decimal_context_has_room_for() -> None:
    text = "7" * 1_000_001
    assert subtract_text(text, text) == "0"
    assert add_text(text, "0") == text


@given(LONG)
def test_text_round_trip(n: int) -> None:
    assert parse_integer(format_integer(n)) == n


@given(LONG, LONG)
def test_sums_of_text_are_sums(a: int, b: int) -> None:
    left, right = format_integer(a), format_integer(b)
    assert parse_integer(add_text(left, right)) == a + b
    assert parse_integer(subtract_text(left, right)) == a - b


@given(st.text(max_size=12))
def test_what_is_no_integer_is_refused(text: str) -> None:
    if is_integer(text):
        assert parse_integer(text) == int(text)
        return
    for work in (parse_integer, canonical):
        with pytest.raises(ValueError, match="not a decimal integer"):
            work(text)


@pytest.mark.parametrize(
    ("text", "short"),
    [("+007", "7"), ("-0", "0"), ("+0", "0"), ("000", "0"), ("-" + "0" * 700 + "5", "-5")],
)
def test_canonical(text: str, short: str) -> None:
    assert canonical(text) == short
