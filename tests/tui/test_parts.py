"""The parts that know neither a terminal nor a clock."""

from __future__ import annotations

import contextlib
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from agent.api.schema import (
    Delta,
    Figure,
    Point,
    RelayReport,
    SharedPeople,
    StreamEnd,
    Sync,
    Within,
)
from agent.specs import SyncSpec
from nostr_client.codecs.nip19 import Address, EventPointer, Profile
from nostr_client.count.queries import canonical
from nostr_client.errors import InvalidInput
from nostr_client.sync.report import SyncStatus
from tests.tui import world
from tests.tui.backend import Recorded
from tui import format
from tui.actions import ACTIONS
from tui.app import TallyApp
from tui.dialogs.palette import parse
from tui.dialogs.paste import free_name, read
from tui.glyphs import ASCII, UNICODE, Glyphs, speaks_unicode
from tui.model import Model
from tui.pages.overlap import columns_of, in_words, shared_cell
from tui.widgets import plotting
from tui.widgets.columns import GAP, Column, aligned, fit, fitted
from tui.widgets.grid import HEAT_WIDTH

NUMBERS = st.integers(0, 2**63 - 1)


@st.composite
def figures(draw: st.DrawFn) -> Figure:
    low, value, high = sorted(draw(st.tuples(NUMBERS, NUMBERS, NUMBERS)))
    kind = draw(st.sampled_from(["exact", "estimate", "least"]))
    if kind == "exact":
        return world.exact(value)
    if kind == "least":
        return world.at_least(value)
    return Figure(value=value, low=low, high=high, exact=False, lower_bound=False)


@given(figures(), st.integers(0, 40), st.sampled_from([UNICODE, ASCII]))
def test_an_interval_fills_its_width_and_has_one_point(
    figure: Figure, width: int, glyphs: Glyphs
) -> None:
    drawn = format.interval_bar(figure, width, glyphs)
    assert len(drawn) == width
    assert width < 3 or drawn.count(glyphs.point) == 1


def test_an_interval_is_drawn_to_one_scale() -> None:
    assert format.interval_bar(world.exact(9), 9) == "    ●    "
    assert format.interval_bar(world.estimate(1000, 0.25), 9) == "├───●───┤"
    assert format.interval_bar(world.estimate(1000, 0.01), 9) == "   ├●┤   "
    assert format.interval_bar(world.at_least(9), 9) == "    ●───▶"
    assert format.interval_bar(world.at_least(9), 9, ASCII) == "    o--->"


@pytest.mark.parametrize(
    ("figure", "value", "sure", "bounds"),
    [
        (None, "?", "", ""),
        (world.exact(1287), "1,287", "exact", "exact"),
        (world.estimate(1000), "≈ 1,000", "±5%", "950–1,050"),
        (world.at_least(58), "≥ 58", "at least", "58–"),
    ],
)
def test_a_figure_says_what_it_is(
    figure: Figure | None, value: str, sure: str, bounds: str
) -> None:
    assert format.value(figure) == value
    assert format.certainty(figure) == sure
    assert format.bounds(figure) == bounds


def test_people_within_a_web_stand_beside_how_many_there_are() -> None:
    found = Within(key="ab" * 32, depth=1, people=412, followed=412, lists=0, figure=None, at=1)
    assert format.within(None) == ""
    assert format.within(found) == "known people: ? of 412, not known"
    some = msgspec.structs.replace(found, figure=world.exact(57))
    assert format.within(some) == "known people: 57 of 412, exact"
    least = msgspec.structs.replace(found, figure=world.at_least(57))
    assert format.within(least) == "known people: ≥ 57 of 412, at least"


def test_people_within_a_web_move_since_the_oldest_figure_of_the_same_web() -> None:
    def at(when: int, people: int, depth: int = 1) -> Within:
        figure = world.exact(people)
        return Within(
            key="ab" * 32, depth=depth, people=412, followed=412, lists=0, figure=figure, at=when
        )

    now = at(7200, 57)
    assert format.within_change(now, [None, at(5, 9, depth=2), at(0, 54), at(3600, 60)]) == (
        ", +3 in 2h"
    )
    assert format.within_change(now, [at(0, 60)]) == ", −3 in 2h"
    assert format.within_change(now, [None, at(0, 54, depth=2), now]) == ""
    assert format.within_change(None, [now]) == ""


@pytest.mark.parametrize(
    ("n", "told"), [(None, "?"), (0, "0"), (41, "+41"), (-2, "−2"), (123_456, "+123k")]
)
def test_a_change_has_its_sign(n: int | None, told: str) -> None:
    assert format.change(n) == told


@pytest.mark.parametrize(
    ("age", "text"), [(None, "?"), (0, "in 60m"), (600, "in 50m"), (3600, "?"), (86_400, "?")]
)
def test_an_empty_column_says_when_it_is_filled(age: float | None, text: str) -> None:
    since = None if age is None else world.NOW - age
    assert format.ahead(3600, since, world.NOW) == text


@pytest.mark.parametrize(("n", "text"), [(None, "?"), (0, "0"), (12_400.4, "12,400")])
def test_zero_and_not_known_never_look_alike(n: float | None, text: str) -> None:
    assert format.known(n) == text


@given(st.lists(NUMBERS, max_size=50), st.integers(0, 60))
def test_a_spark_is_as_long_as_its_values(values: list[int], width: int) -> None:
    assert len(format.spark(values, width)) == min(len(values), width)


def test_a_narrow_spark_still_shows_the_whole_day() -> None:
    flat_after_a_rise = [0] * 12 + [100] * 12
    assert format.spark(flat_after_a_rise, 8) == format.spark([0] * 4 + [100] * 4, 8)
    assert format.spark([5] * 9 + [9], 2) == format.spark([5, 9], 2)


@given(st.integers(-(10**200), 10**200))
def test_integers_of_any_length_are_short(n: int) -> None:
    told = format.integer(str(n))
    assert len(told) <= 30
    assert "e" in told or int(told.replace(",", "")) == n


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("≈ 123,456,789,012", "≈ 123.5G"),
        ("1,234,567–2,345,678", "1.235M–2.346M"),
        ("-12345678", "-12.35M"),
        ("9" * 15, "1000T"),
        ("41" + "0" * 30, "4.1e31"),
        ("1.000e40", "1.000e40"),
        ("5/6", "5/6"),
    ],
)
def test_numbers_that_are_too_long_say_how_large_they_are(text: str, told: str) -> None:
    column = Column("n", "N", 9, right=True)
    assert fitted(text, len(told), column) == told
    assert fitted(text, len(text), column) == text


def test_hundreds_of_relays_are_told_as_a_share() -> None:
    assert format.of(99, 100, 6) == "99/100"
    assert format.of(199, 200, 6) == "99%"
    assert format.of(200, 200, 6) == "100%"


@given(st.text(max_size=40), st.integers(0, 30))
def test_names_that_are_too_long_show_both_ends(text: str, width: int) -> None:
    text = format.plain(text)
    told = fitted(text, width, Column("n", "N", 9, middle=True))
    assert cell_len(told) == width
    if cell_len(text) <= width:
        assert told.rstrip() == text.rstrip()
    assert fitted("wss://relay.example.com", 11, Column("n", "N", 9, middle=True)) == "wss:/…e.com"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(None, "never"), (-3, "0s"), (95, "95s"), (7300, "2h"), (86_400 * 9, "9d")],
)
def test_ages(seconds: float | None, told: str) -> None:
    assert format.age(seconds) == told


@given(st.text(max_size=40), st.integers(0, 30), st.booleans())
def test_cells_are_exactly_as_wide_as_they_must(text: str, width: int, right: bool) -> None:
    assert cell_len(aligned(format.plain(text), width, right=right)) == width


COLUMNS = (
    Column("a", "A", 10, flex=2, most=20),
    Column("b", "B", 8, drop=2),
    Column("c", "C", 6, drop=1, flex=1),
    Column("d", "D", 4),
)


@given(st.integers(16, 200))
def test_columns_fit_and_never_overlap(width: int) -> None:
    placed = fit(COLUMNS, width)
    assert {"a", "d"} <= {one.column.key for one in placed}
    ends = [one.at + one.width for one in placed]
    assert ends[-1] <= width
    assert all(b.at == end + GAP for end, b in zip(ends, placed[1:], strict=False))
    assert all(one.column.width <= one.width <= one.column.most for one in placed)


def test_columns_go_in_the_order_of_their_drop() -> None:
    assert [one.column.key for one in fit(COLUMNS, 31)] == ["a", "b", "c", "d"]
    assert [one.column.key for one in fit(COLUMNS, 30)] == ["a", "c", "d"]
    assert [one.column.key for one in fit(COLUMNS, 21)] == ["a", "d"]


# Pasted text.

NEVENT = EventPointer(world.EVENT, (world.NOS,), world.PUBKEY, 1).encode()


@pytest.mark.parametrize(
    ("text", "what", "queries"),
    [
        (world.NPUB, "person", ("followers", "zaps")),
        (f"  nostr:{world.NPUB}\n", "person", ("followers", "zaps")),
        (f"https://njump.me/{world.NPUB}?x=1", "person", ("followers", "zaps")),
        (world.EVENT.upper(), "64 digits, a key or an event", "reactions"),
        (world.EVENT, "64 digits, a key or an event", "followers"),
        (NEVENT, "event", "reactions"),
        ('{"kinds":[1],"#t":["nostr"]}', "filter", ()),
        ('["REQ","x",{"kinds":[1]},{"kinds":[6]}]', "2 filters", ()),
    ],
)
def test_what_people_paste(text: str, what: str, queries: tuple[str, ...] | str) -> None:
    found = read(text)
    assert found.what == what
    asked = tuple(one.query for one in found.questions)
    assert asked == queries or queries in asked
    assert bool(found.filters) is not bool(found.questions)
    assert all(one.target for one in found.questions)
    assert not found.note


def test_digits_are_asked_about_as_a_key_and_as_an_event() -> None:
    """64 digits do not show which they are: each question has a target that says it."""
    found = {one.label: one for one in read(world.EVENT).questions}
    assert len(found) == len(read(world.EVENT).questions)
    for label, one in found.items():
        kind = "key" if one.target.startswith("npub1") else "event"
        assert label.endswith(kind)
        assert canonical(one.query, one.target).target == world.EVENT
    assert canonical("zaps", found["zaps, if it is a key"].target).filters[0].tags[0][0] == "#p"
    assert canonical("zaps", found["zaps, if it is an event"].target).filters[0].tags[0][0] == "#e"


@pytest.mark.parametrize(
    ("relays", "note"),
    [
        ((), ""),
        ((world.NOS,), ""),
        (("ws://127.0.0.1:7777",), "127.0.0.1 is not a public address"),
        ((world.NOS, "ws://[::1]", "ws://10.0.0.7"), "and 1 more"),
        (("ws://relay.local",), "relay.local"),
    ],
)
def test_a_private_relay_that_a_text_names_is_not_asked_and_that_is_said(
    relays: tuple[str, ...], note: str
) -> None:
    for found in (
        read(Profile(world.PUBKEY, relays).encode()),
        read(EventPointer(world.EVENT, relays).encode()),
        read(Address(30023, world.PUBKEY, "x", relays).encode()),
    ):
        assert note in found.note
        assert ("relays.default" in found.note) == bool(note)


def test_a_secret_key_is_refused_and_not_repeated() -> None:
    nsec = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"
    with pytest.raises(InvalidInput, match="secret key") as told:
        read(nsec)
    assert nsec not in str(told.value)


@pytest.mark.parametrize(
    "text", ["", "nostr:", "hello", "npub1xyz", "{", "[]", '{"kind":1}', "a" * 70_000]
)
def test_what_cannot_be_watched_is_told(text: str) -> None:
    with pytest.raises(InvalidInput):
        read(text)


@given(st.text(max_size=80))
def test_whatever_is_pasted_nothing_breaks(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert read(text).what


def test_names_are_free_and_fit() -> None:
    assert free_name("followers npub/x", set()) == "followers-npub-x"
    assert free_name("a", {"a", "a-2"}) == "a-3"
    assert free_name("é", set()) == "watch"


# Commands.


@pytest.mark.parametrize(
    ("line", "name", "words"),
    [
        (":count followers npub1x", "count", ["followers", "npub1x"]),
        ("watch count a-b", "watch count", ["a-b"]),
        (': sync add n {"kinds": [1]}', "sync add", ["n", '{"kinds": [1]}']),
        ('filter "two words"', "filter", ["two words"]),
        ('filter "two', "filter", ['"two']),
    ],
)
def test_command_lines(line: str, name: str, words: list[str]) -> None:
    found = parse(line, ACTIONS)
    assert found is not None
    assert (found.action.name, found.words) == (name, words)


def test_what_is_no_command() -> None:
    assert parse("counting", ACTIONS) is None


# The model.


def test_a_snapshot_replaces_and_deltas_change() -> None:
    model, agent = Model(), Recorded()
    assert "watches" in model.apply("r:0", agent.snapshot(), 1.0)
    assert len(model.watches) == len(world.WATCHES)
    moved = world.watch("launch-reactions", "reactions", world.exact(1300))
    assert model.apply("r:1", Delta(n=1, watch=moved), 2.0) == {"watches"}
    assert model.moved == {"launch-reactions": 2.0}
    assert model.apply("r:2", Delta(n=2, removed_watch="launch-reactions"), 3.0) == {"watches"}
    assert "launch-reactions" not in model.watches
    assert model.apply("r:2", StreamEnd(reason="too slow"), 4.0) == set()
    assert model.why == "too slow"


def test_the_time_away_counts_from_the_first_failure() -> None:
    model = Model()
    model.reached("http://x", 1.0)
    model.lost("gone", 5.0)
    model.lost("still gone", 9.0)
    assert (model.stale, model.since, model.why) == (True, 5.0, "still gone")
    model.reached("http://x", 10.0)
    assert (model.stale, model.since) == (False, None)


def test_the_pace_of_a_sync_tells_when_it_ends() -> None:
    model = Model()
    for at, done in ((0.0, 0), (10.0, 500)):
        relay = RelayReport(relay="r", status=SyncStatus.PARTIAL, need=1000, downloaded=done)
        spec = SyncSpec(name="s", filters=({"kinds": [1]},))
        sync = Sync(spec=spec, origin="api", running=True, relays=(relay,))
        model.apply("r:1", Delta(n=1, sync=sync), at)
    assert model.paces["s", "r"].left(500) == 10.0
    assert model.paces["s", "r"].left(0) == 0.0


def test_a_latency_is_noted_when_it_was_measured_again() -> None:
    model = Model()
    for n, latency in enumerate((40.0, 40.0, 55.0, None, 41.0)):
        relay = msgspec.structs.replace(world.RELAYS[0], latency_ms=latency)
        model.apply(f"r:{n}", Delta(n=n, relay=relay), float(n))
    assert list(model.latencies[world.DAMUS]) == [40, 55, 41]


# Plots.


def points(n: int) -> list[Point]:
    return [
        Point(at=100.0 * i, value=50 + i, low=45 + i, high=55 + i, exact=False) for i in range(n)
    ]


def test_a_band_lies_between_low_and_high() -> None:
    held = points(5)
    value = plotting.values(held)
    found = plotting.band(held, plotting.AxisRange(0, 500), value, 50, 20)
    assert len(found) == 50
    step = (value.high - value.low) / 19
    assert min(rows[0] for rows in found if rows) * step + value.low >= 45 - step
    assert max(rows[1] for rows in found if rows) * step + value.low <= 59 + step


@given(
    st.dictionaries(st.integers(0, 1000), st.integers(0, 500), min_size=1, max_size=60),
    st.integers(1, 40),
    st.integers(2, 30),
)
def test_a_curve_has_no_gap_and_loses_no_peak(
    numbers: dict[int, int], columns: int, rows: int
) -> None:
    held = [
        Point(at=at, value=value, low=value, high=value) for at, value in sorted(numbers.items())
    ]
    value = plotting.values(held)
    begin = held[0].at
    found = plotting.curve(held, plotting.AxisRange(begin, 1001), value, columns, rows)
    passed = [one for one in found if one is not None]
    assert len(passed) == columns
    assert all(a[0] <= b[1] and b[0] <= a[1] for a, b in pairwise(passed))
    step = (value.high - value.low) / (rows - 1)
    highest, lowest = max(numbers.values()), min(numbers.values())
    assert abs(max(one[1] for one in passed) * step + value.low - highest) <= step
    assert abs(min(one[0] for one in passed) * step + value.low - lowest) <= step


@given(st.integers(0, 80), st.integers(0, 30), st.sampled_from([UNICODE, ASCII]), st.data())
def test_a_plot_is_as_large_as_its_place(
    width: int, height: int, glyphs: Glyphs, data: st.DataObject
) -> None:
    held = points(data.draw(st.integers(0, 9)))
    lines = plotting.draw(held, 2000.0, "1h", width, height, glyphs)
    texts = ["".join(part.text for part in line) for line in lines]
    assert len(texts) in (0, height)
    assert all(cell_len(text) <= width for text in texts)
    if glyphs is ASCII:
        assert all(text.isascii() for text in texts)


@pytest.mark.parametrize(
    ("span", "age", "begin", "text"),
    [
        ("1d", 600, 600, "last 1d, numbers of 10m"),
        ("1h", 5, 60, "last 1h, numbers of 5s"),
        ("1h", 7200, 3600, "last 1h"),
        ("all", 7200, 7200, "all numbers of 2h"),
    ],
)
def test_a_plot_shows_the_part_that_has_numbers(span: str, age: int, begin: int, text: str) -> None:
    held = [Point(at=int(world.NOW) - age, value=5, low=5, high=5)]
    assert plotting.times(held, world.NOW, span) == (world.NOW - begin, world.NOW)
    assert plotting.caption(held, world.NOW, span) == text


def test_exact_numbers_have_no_band() -> None:
    held = [Point(at=1.0, value=5, low=5, high=5, exact=True)]
    assert (
        plotting.band(held, plotting.AxisRange(0, 10), plotting.values(held), 10, 5) == [None] * 10
    )


@given(st.integers(0, 10**12), st.integers(1, 10**12), st.integers(2, 12))
def test_ticks_of_values_are_few_and_inside(low: int, span: int, most: int) -> None:
    ticks = plotting.value_ticks(plotting.AxisRange(low, low + span), most)
    assert 0 < len(ticks.at) <= most + 1
    assert all(low <= one <= low + span for one in ticks.at)


@pytest.mark.parametrize(("span", "pattern"), [(3600, "%H:%M"), (604_800, "%a %d")])
def test_ticks_of_time_are_round(span: int, pattern: str) -> None:
    ticks = plotting.time_ticks(plotting.AxisRange(world.NOW - span, world.NOW), 8)
    assert 3 <= len(ticks.at) <= 9
    assert all(one % 300 == 0 for one in ticks.at)
    assert ticks.text == [datetime.fromtimestamp(one).strftime(pattern) for one in ticks.at]


# Signs.


@pytest.mark.parametrize(
    ("env", "speaks"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "linux"}, False),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, False),
    ],
)
def test_whether_a_terminal_speaks_unicode(env: dict[str, str], speaks: bool) -> None:
    assert speaks_unicode(env) is speaks


def test_ascii_is_ascii() -> None:
    assert all(one.isascii() for one in ASCII)


@given(st.integers() | st.floats(), st.booleans())
def test_any_number_is_shown_as_a_time_of_day(at: float, date: bool) -> None:
    assert format.clock(at, date=date)


def test_widgets_can_be_made_before_their_page_is_shown() -> None:
    """As Textual does on Python 3.12 and later: an input clears the selection while it is made."""
    TallyApp(lambda: ("http://127.0.0.1:9", "")).clear_selection()


def shared(part: float, low: float, high: float, **how: Any) -> SharedPeople:
    return SharedPeople(
        relays=("a", "b"), people=how.pop("people", 7), jaccard=part, low=low, high=high, **how
    )


@pytest.mark.parametrize(
    ("one", "cell", "words"),
    [
        (None, "?", ""),
        (shared(1, 1, 1, exact=True), "█ 100%", "7 on both, 100% of all on either (exact)"),
        (shared(0.999, 0.99, 1, exact=False), "▇ ≈99%", "≈ 7 on both, ≈ 99% "),
        (shared(0, 0, 0, people=0, exact=True), "▁   0%", "0 on both, 0% of all on either (exact)"),
        (shared(0.01, 0, 0.041, exact=False, noise=True), "▁ 0–5%", "maybe none on both"),
        (
            shared(0, 0, 1, exact=False, noise=True),
            "?",
            "? on both, ? of all on either",
        ),
    ],
)
def test_a_pair_of_relays_says_no_more_than_is_known(
    one: SharedPeople | None, cell: str, words: str
) -> None:
    """Less than all is not 100 %, what may be nobody is a range, and what is not known is no 0."""
    for glyphs in (UNICODE, ASCII):
        found = shared_cell(one, glyphs)
        assert len(found.text) <= HEAT_WIDTH
        assert (found.text == cell) is (glyphs is UNICODE or cell == "?")
        assert cell == "?" or found.text.isascii() is (glyphs is ASCII)
    assert one is None or words in in_words(one, UNICODE)


def test_the_matrix_keeps_the_first_relays_where_room_lacks() -> None:
    urls = [f"wss://{n}.example.com" for n in range(30)]
    columns = columns_of(urls, lacks=True)
    for width in (60, 80, 140, 300):
        kept = [one.column.key for one in fit(columns, width)]
        assert kept[0] == "relay"
        assert kept[1:] == [*urls, "why"][: len(kept) - 1]
        assert len(kept) > 4
