"""History: thinned with age, the same in memory and in the store, and nothing folded twice."""

from __future__ import annotations

import random
import sqlite3
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.count.figures import Figure, Within
from nostr_client.errors import InvalidInput
from nostr_client.store.file.migrate import create
from nostr_client.watch import (
    LEVELS,
    WATCHES,
    Point,
    Watch,
    WatchRepository,
    fold,
    points,
    repository,
    sparkline,
    thin,
)
from nostr_client.watch.history import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1_700_000_000 // DAY * DAY
TARGET = "ab" * 32


def point(at: int, value: int, near: int | None = None) -> Point:
    return Point.sample(
        at,
        value,
        value - 1,
        value + 1,
        exact=False,
        unit="distinct_authors",
        within=None if near is None else within(at, near),
    )


def within(at: int, near: int) -> Within:
    figure = Figure.exactly(near) if near % 2 else Figure.at_least(near)
    return Within(key=TARGET, depth=2, people=50, followed=9, lists=8, figure=figure, at=at)


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    create(connection, [WATCHES])
    yield connection
    connection.close()


def watch(name: str = "me") -> Watch:
    return Watch(name=name, query="followers", target=TARGET, relays=("wss://a.example.com",))


def test_a_step_keeps_its_last_number_and_its_extremes() -> None:
    (kept,) = fold([point(30, 5), point(10, 9), point(20, 1)], HOUR)
    assert (kept.at, kept.value, kept.least, kept.most, kept.samples) == (30, 5, 1, 9, 3)


def test_a_step_keeps_the_last_known_figure_within_a_web() -> None:
    (kept,) = fold([point(20, 9, near=4), point(10, 5, near=3), point(30, 6)], HOUR)
    assert (kept.value, kept.within) == (6, within(20, 4))


def test_a_figure_within_a_web_that_came_later_joins_the_newest_number(
    conn: sqlite3.Connection,
) -> None:
    repository.add(conn, watch())
    repository.counted_within(conn, "me", within(NOW, 3))  # no number yet
    for at in (NOW, NOW + HOUR):
        repository.asked(conn, "me", at, point(at, 5))
    repository.counted_within(conn, "me", within(NOW + HOUR + 9, 3), query=watch().question)
    other = msgspec.structs.replace(watch(), query="followers", target="cd" * 32)
    repository.counted_within(conn, "me", within(NOW, 8), query=other.question)
    first, second = points.series(conn, "me")
    assert (first.within, second.within) == (None, within(NOW + HOUR + 9, 3))
    repository.remove(conn, "me")
    assert conn.execute("SELECT count(*) FROM watch_point_within").fetchone() == (0,)


def test_two_numbers_of_one_second_are_one_point(conn: sqlite3.Connection) -> None:
    repository.add(conn, watch())
    repository.asked(conn, "me", NOW, point(NOW, 5, near=3))
    repository.asked(conn, "me", NOW, point(NOW, 9))
    (kept,) = points.series(conn, "me")
    assert (kept.value, kept.least, kept.most, kept.samples) == (9, 5, 9, 2)
    assert kept.within == within(NOW, 3)  # the last that is known, as in a step


def test_two_days_are_raw_a_quarter_is_hours_and_the_rest_is_days() -> None:
    made = [point(NOW - n * 600, n) for n in range(200 * 144)]
    kept = thin({"raw": made}, NOW)
    assert len(kept["raw"]) == 2 * 144 + 1
    assert len(kept["hour"]) == 90 * 24
    assert len(kept["day"]) == 200 - 92
    assert sum(p.samples for level in kept.values() for p in level) == len(made)
    assert thin(kept, NOW) == kept


POINTS = st.lists(
    st.builds(
        point,
        st.integers(0, 120 * DAY // 60).map(lambda n: NOW - 60 * n),
        st.integers(0, 99),
        st.none() | st.integers(0, 9),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(POINTS, st.integers(1, 30 * DAY))
def test_the_store_keeps_what_the_rule_says(measured: list[Point], later: int) -> None:
    """Points that come one by one, at any age, end as the pure rule would have them."""
    connection = sqlite3.connect(":memory:")
    create(connection, [WATCHES])
    repository.add(connection, watch())
    expected: dict[str, list[Point]] = {}
    once = {p.at: p for p in measured}
    for at in sorted(once):
        repository.asked(connection, "me", at, once[at])
        expected.setdefault("raw", []).append(once[at])
        expected = thin(expected, at)
    repository.asked(connection, "me", NOW + later, None)
    expected = thin(expected, NOW + later)
    want = sorted((p for level in expected.values() for p in level), key=lambda p: p.at)
    assert points.series(connection, "me") == want
    connection.close()


def test_a_year_of_ten_minutes_is_a_few_thousand_points(conn: sqlite3.Connection) -> None:
    repository.add(conn, watch())
    for n in range(0, 365 * 144, 36):  # each sixth hour, for speed
        repository.asked(conn, "me", NOW + n * 600, point(NOW + n * 600, n))
    assert len(points.series(conn, "me")) == pytest.approx(2 * 4 + 90 * 4 + 273, abs=5)
    assert {level.name for level in LEVELS} == {"raw", "hour", "day"}


def test_a_point_keeps_who_says_its_number(conn: sqlite3.Connection) -> None:
    repository.add(conn, watch())
    said = msgspec.structs.replace(point(NOW, 5), high=None, as_said=True)
    for one in (said, point(NOW + HOUR, 6)):
        repository.asked(conn, "me", one.at, one)
    assert points.series(conn, "me") == [said, point(NOW + HOUR, 6)]


def test_watches_are_kept_by_name(conn: sqlite3.Connection) -> None:
    repository.add(conn, watch("b"))
    repository.add(conn, watch("a"))
    with pytest.raises(InvalidInput, match="already"):
        repository.add(conn, watch("a"))
    repository.asked(conn, "a", NOW, point(NOW, 5))
    assert [(w.name, asked) for w, asked in repository.watches(conn)] == [("a", NOW), ("b", None)]
    assert repository.remove(conn, "a")
    assert not repository.remove(conn, "a")
    assert points.series(conn, "a") == []
    repository.asked(conn, "a", NOW, point(NOW, 5))  # it was removed while it was asked


@pytest.mark.parametrize("name", ["", " x", "a/b", "a\nb", "x" * 65])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        watch(name).check()


@pytest.mark.parametrize(
    "changes",
    [
        {"interval": "0s"},
        {"interval": "9s"},
        {"interval": "soon"},
        {"relays": ("ftp://x.example.com",)},
        {"target": "nobody"},
        {"query": None},
        {"filters": ({"kinds": [1]},)},
        {"query": None, "target": "", "filters": ()},
        {"query": None, "target": "", "filters": ({"kind": 1},)},
    ],
)
def test_what_cannot_be_asked_is_refused(changes: dict[str, object]) -> None:
    watch().check()
    with pytest.raises(InvalidInput):
        msgspec.structs.replace(watch(), **changes).check()


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([5], "▄"),
        ([1, 1, 1], "▄▄▄"),
        ([0, 7], "▁█"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
    ],
)
def test_sparklines(values: list[int], line: str) -> None:
    assert sparkline(values) == line


def test_long_series_fit_the_width() -> None:
    rng = random.Random(1)
    values = [rng.randrange(10**9) for _ in range(1000)]
    assert len(sparkline(values, 40)) == 40
    assert sparkline(values, 40)[-1] == sparkline([values[-1], min(values), max(values)], 3)[0]


async def test_the_book_keeps_watches_over_runs(tmp_path: object) -> None:
    path = f"{tmp_path}/store.db"
    async with await WatchRepository.open(path) as book:
        await book.add(watch())
    async with await WatchRepository.open(path, read_only=True) as book:
        ((found, asked),) = await book.all()
        assert (found, asked) == (watch(), None)
        assert await book.get("nobody") is None
