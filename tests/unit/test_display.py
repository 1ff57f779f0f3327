"""Durations, ages and series as text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs import display
from nostr_client.count.merge import Figure
from nostr_client.errors import InvalidInput
from tui import format


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("90s", 90), ("1.5h", 5400), ("7d", 604_800), ("2w", 1_209_600)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert display.seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "5", "5 s", "-5s", "5y", "5s\n", "1e3s", "1.2345s", "٣s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="a number and a unit"):
        display.seconds(text)


@given(st.integers(1, 10**6))
def test_a_duration_is_written_as_it_is_read(milliseconds: int) -> None:
    assert display.seconds(display.duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (119, "119s"), (120, "2m"), (7199, "120m"), (172_800, "2d")]
)
def test_an_age_has_the_largest_unit_of_which_there_are_two(seconds: float, text: str) -> None:
    assert display.age(seconds) == text


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=50))
def test_a_sparkline_has_a_block_for_each_value_between_its_ends(values: list[int]) -> None:
    line = display.sparkline(values)
    assert len(line) == len(values)
    if len(set(values)) > 1:
        assert line[values.index(min(values))] == "▁"
        assert line[values.index(max(values))] == "█"
    else:
        assert set(line) == {"▄"}


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.0, "0.0 %"),
        (0.0004, "<0.1 %"),
        (0.57, "57.0 %"),
        (0.9999, "99.9 %"),
        (1.0, "100.0 %"),
        (15 / 21, "71.4 %"),
    ],
)
def test_a_part_is_rounded_down(part: float, text: str) -> None:
    assert display.percent(part) == text


@given(st.integers(1, 10**6), st.data())
def test_only_all_is_all_and_only_none_is_none(whole: int, data: st.DataObject) -> None:
    some = data.draw(st.integers(0, whole))
    for shown in (
        display.percent(some / whole),
        display.whole_percent(some / whole),
        format.percent(some / whole),
    ):
        number = shown.removesuffix("%").rstrip()
        assert (number in ("100", "100.0")) == (some == whole)
        assert (number in ("0", "0.0")) == (some == 0)
    most = float(display.percent_at_most(some / whole).removesuffix(" %"))
    assert most + 1e-5 >= 100 * some / whole
    assert most < 100 * some / whole + 1


FIGURES = st.builds(
    Figure,
    value=st.integers(0, 2000),
    low=st.integers(0, 2000),
    high=st.none() | st.integers(0, 2000),
    exact=st.booleans(),
    lower_bound=st.booleans(),
    as_said=st.booleans(),
)


@given(FIGURES)
def test_what_a_figure_counts_stands_before_who_says_it(figure: Figure) -> None:
    text = display.said(figure, "event")
    assert re.sub(" events?", "", text) == display.said(figure)
    assert ", as" not in text.partition(" event")[0]


@given(st.integers() | st.floats())
def test_any_number_is_shown_as_a_time(at: float) -> None:
    assert display.moment(at)
    assert display.moment(at, zone=None)


def test_a_time_outside_the_calendar_stays_a_number() -> None:
    assert display.moment(0) == "1970-01-01 00:00:00"
    assert display.moment(253_402_300_799) == "9999-12-31 23:59:59"
    assert display.moment(253_402_300_800) == "253402300800"
