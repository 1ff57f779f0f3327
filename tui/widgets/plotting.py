"""What a plot of a number over time is made of: a curve, a band around it, ticks. Pure."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs import display
from tui import format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.api.schema import Point

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


class Dots(NamedTuple):
    """Places of single signs."""

    x: list[float]
    y: list[float]


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


def curve(points: Sequence[Point], until: float) -> Dots:
    """The values as they held: each until the next one, the last until now."""
    x: list[float] = []
    y: list[float] = []
    for n, point in enumerate(points):
        x += [point.at, points[n + 1].at if n + 1 < len(points) else max(point.at, until)]
        y += [point.value, point.value]
    return Dots(x, y)


def band(
    points: Sequence[Point], time: AxisRange, value: AxisRange, columns: int, rows: int
) -> Dots:
    """Every sign's place between low and high, on a canvas of so many signs."""
    found = Dots([], [])
    at = [point.at for point in points]
    for column in range(columns):
        x = time.low + (time.high - time.low) * column / max(1, columns - 1)
        held = bisect_right(at, x) - 1
        if held < 0 or points[held].exact:
            continue
        point = points[held]
        top = value.high if point.high is None else point.high
        for y in _between(point.low, top, value, rows):
            found.x.append(x)
            found.y.append(y)
    return found


def _between(low: float, high: float, value: AxisRange, rows: int) -> list[float]:
    """The middles of the rows that an interval covers; one at least."""
    step = (value.high - value.low) / max(1, rows - 1)
    first = round((low - value.low) / step)
    last = max(first, round((min(high, value.high) - value.low) / step))
    return [value.low + n * step for n in range(first, last + 1)]


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
