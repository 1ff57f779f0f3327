"""Draws a number over time as signs: a curve, the band around it, a frame, ticks. Pure."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs import display
from tui import format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agent.api.schema import Point
    from tui.glyphs import Glyphs

SPANS: Final[dict[str, float]] = {"1h": 3600.0, "1d": 86_400.0, "1w": 604_800.0, "all": 0.0}
PADDING: Final = 0.08
LEAST_S: Final = 60.0
"""Seconds that an axis of time shows at least."""


class Ticks(NamedTuple):
    """Places on an axis, and what is written there."""

    at: list[float]
    text: list[str]


class AxisRange(NamedTuple):
    """From where to where an axis goes."""

    low: float
    high: float


class PlotPart(NamedTuple):
    """A part of a line: its text, and what this is: frame, band, curve, or nothing."""

    text: str
    tone: str = ""


Rows = tuple[int, int]
"""The lowest and the highest row that something covers; row 0 is the lowest of a plot."""


def caption(points: Sequence[Point], now: float, span: str) -> str:
    """What stands above a plot; of numbers that began within the span, since when they are."""
    text = f"last {span}, numbers" if SPANS[span] else "all numbers"
    begun = points[0].at if points else now
    is_whole = bool(SPANS[span]) and begun <= now - SPANS[span]
    return f"last {span}" if is_whole else f"{text} of {display.age(max(0.0, now - begun))}"


def times(points: Sequence[Point], now: float, span: str) -> AxisRange:
    """What the axis of time shows: the span, or the part of it that has numbers."""
    begun = points[0].at if points else now - 3600
    begin = max(begun, now - SPANS[span]) if SPANS[span] else begun
    return AxisRange(min(begin, now - LEAST_S), now)


def values(points: Sequence[Point]) -> AxisRange:
    """What the axis of values shows: all intervals, and a little room."""
    low = min(point.low for point in points)
    high = max(point.value if point.high is None else point.high for point in points)
    room = max(1.0, (high - low) * PADDING)
    return AxisRange(max(0.0, low - room), high + room)


def curve(
    points: Sequence[Point], time: AxisRange, value: AxisRange, columns: int, rows: int
) -> list[Rows | None]:
    """Return for each column which rows the number passes; None before the first point.

    A point holds until the next one, the last until the end. A column of many points covers all of
    them, so that a short peak is seen.
    """
    at = [point.at for point in points]
    row = [_row(point.value, value, rows) for point in points]
    step = (time.high - time.low) / columns
    found: list[Rows | None] = []
    for column in range(columns):
        begin = time.low + column * step
        first = max(0, bisect_right(at, begin) - 1)
        end = bisect_right(at, begin + step)
        held = row[first:end]
        found.append((min(held), max(held)) if held else None)
    return found


def band(
    points: Sequence[Point], time: AxisRange, value: AxisRange, columns: int, rows: int
) -> list[Rows | None]:
    """Return for each column which rows the interval covers; None where a number is exact."""
    at = [point.at for point in points]
    found: list[Rows | None] = []
    for column in range(columns):
        x = time.low + (time.high - time.low) * column / max(1, columns - 1)
        held = bisect_right(at, x) - 1
        if held < 0 or points[held].exact:
            found.append(None)
            continue
        point = points[held]
        top = value.high if point.high is None else point.high
        found.append((_row(point.low, value, rows), _row(top, value, rows)))
    return found


def _row(number: float, value: AxisRange, rows: int) -> int:
    """The row of a number, of so many over the range."""
    part = (number - value.low) / (value.high - value.low)
    return max(0, min(rows - 1, round(part * (rows - 1))))


def draw(
    points: Sequence[Point], now: float, span: str, width: int, height: int, glyphs: Glyphs
) -> list[list[PlotPart]]:
    """Return the lines of a plot of so many cells; none where there is no number or no room."""
    if not points or width <= 12 or height <= 4:
        return []
    time, value = times(points, now, span), values(points)
    rows = height - 4
    ticks = value_ticks(value, max(2, height // 3))
    margin = max(map(len, ticks.text))
    columns = max(1, width - margin - 2)
    marks = {_row(at, value, rows): text for at, text in zip(*ticks, strict=True)}
    frame = tuple(glyphs.frame)
    (left, right, side, mark), corners = frame[:4], frame[4:]
    lines = [[PlotPart(caption(points, now, span).center(width)[:width], "title")]]
    lines.append([PlotPart(f"{' ' * margin}{corners[0]}{side * columns}{corners[1]}", "frame")])
    canvas = _canvas(points, time, value, columns, rows, glyphs)
    for row in reversed(range(rows)):
        label = marks.get(row, "").rjust(margin)
        begin = PlotPart(label + (right if row in marks else left), "frame")
        lines.append([begin, *_joined(canvas[row]), PlotPart(left, "frame")])
    below, names = _time_axis(time, columns, side, mark)
    lines.append([PlotPart(f"{' ' * margin}{corners[2]}{below}{corners[3]}", "frame")])
    lines.append([PlotPart(f"{' ' * margin} {names}"[:width], "frame")])
    return lines


def _canvas(
    points: Sequence[Point],
    time: AxisRange,
    value: AxisRange,
    columns: int,
    rows: int,
    glyphs: Glyphs,
) -> list[list[PlotPart]]:
    """The signs of a plot, by row from the lowest, and column."""
    blank, shade = PlotPart(" "), PlotPart(glyphs.band, "band")
    canvas = [[blank] * columns for _ in range(rows)]
    for column, covered in enumerate(band(points, time, value, columns, rows)):
        if covered is not None:
            for row in range(covered[0], covered[1] + 1):
                canvas[row][column] = shade
    wide, high = (1, 1) if glyphs.curve else (2, 4)
    dots: dict[tuple[int, int], int] = {}
    for x, passed in enumerate(curve(points, time, value, columns * wide, rows * high)):
        for y in range(passed[0], passed[1] + 1) if passed is not None else ():
            place = y // high, x // wide
            dots[place] = dots.get(place, 0) | _BRAILLE[x % wide][y % high]
    for (row, column), bits in dots.items():
        canvas[row][column] = PlotPart(glyphs.curve or chr(0x2800 + bits), "curve")
    return canvas


_BRAILLE: Final = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bits of the dots of U+2800 and on, by column, and row from the lowest."""


def _joined(cells: Sequence[PlotPart]) -> Iterator[PlotPart]:
    """Join neighbours of one tone."""
    for tone, group in groupby(cells, key=attrgetter("tone")):
        yield PlotPart("".join(one.text for one in group), tone)


def _time_axis(time: AxisRange, columns: int, side: str, mark: str) -> tuple[str, str]:
    """The frame below a plot with its ticks, and their texts below them."""
    ticks = time_ticks(time, max(2, columns // 12))
    below, names = [side] * columns, ""
    for at, text in zip(*ticks, strict=True):
        column = round((at - time.low) / (time.high - time.low) * (columns - 1))
        below[column] = mark
        begin = max(0, column - len(text) // 2)
        if begin > len(names) or not names:
            names = names.ljust(begin) + text
    return "".join(below), names


def time_ticks(time: AxisRange, most: int) -> Ticks:
    """Round times, each with as much of a date as it needs."""
    length = time.high - time.low
    pattern = "%H:%M" if length <= 1.5 * 86_400 else "%a %d" if length <= 9 * 86_400 else "%d %b"
    step = next((s for s in _STEPS if length / s <= most), _STEPS[-1] * 4)
    pattern = "%H:%M:%S" if step < 60 else pattern
    zone = datetime.fromtimestamp(time.low).astimezone().utcoffset()
    shift = zone.total_seconds() if zone else 0.0
    first = -(-(time.low + shift) // step) * step - shift
    at = [first + n * step for n in range(most + 1) if first + n * step <= time.high]
    return Ticks(at, [datetime.fromtimestamp(one).strftime(pattern) for one in at])


_STEPS: Final = (
    *(10, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000),
)


def value_ticks(value: AxisRange, most: int) -> Ticks:
    """Whole numbers over the range."""
    step = _round_step((value.high - value.low) / max(1, most))
    first = -(-value.low // step) * step
    at = [first + n * step for n in range(most + 1) if first + n * step <= value.high]
    at = at or [value.low]
    return Ticks(at, [format.number(round(one)) for one in at])


def _round_step(least: float) -> float:
    size = 1.0
    while size * 10 <= least:
        size *= 10
    return next(size * n for n in (1, 2, 5, 10, 20) if size * n >= least)
