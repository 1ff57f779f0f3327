"""Thin the series of a watch with age: every number for two days, then hours, then days. Pure.

A number is a level, not a flow: an hour or a day keeps its last value, and the extremes between
which it moved.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.codecs import display
from nostr_client.count.figures import Figure, Within

if TYPE_CHECKING:
    from collections.abc import Iterable

HOUR: Final = 3600
DAY: Final = 24 * HOUR

FIRST: Final = "first"
"""The change since the first number of a watch, until that is a day old."""


class Level(NamedTuple):
    """The density of points: one for each `step` seconds, for `keep` seconds (None: for ever)."""

    name: str
    step: int
    keep: int | None


LEVELS: Final = (
    Level("raw", 1, 2 * DAY),
    Level("hour", HOUR, 92 * DAY),
    Level("day", DAY, None),
)
"""All points for two days, a quarter year by hours, days for ever: about 2,900 points in the first
year."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The number of a watch at a time, or over an hour or a day.

    - `at`: time in Unix seconds.
    - `value`: the number. `low` and `high` are its interval; `high` is null without an upper end.
    - `as_said`: the same as `as_said` of `Figure`.
    - `least`: smallest value of the hour or day.
    - `most`: largest value of the hour or day.
    - `samples`: how many numbers the point stands for. The other fields are from the last of them.
    - `within`: the newest number of authors within the watch's web of trust, if it is known.
    """

    at: int
    value: int
    low: int
    high: int | None
    exact: bool = False
    as_said: bool = False
    unit: str = "distinct_authors"
    least: int = 0
    most: int = 0
    samples: int = 1
    within: Within | None = None

    @classmethod
    def sample(
        cls,
        at: int,
        value: int,
        low: int,
        high: int | None,
        *,
        exact: bool,
        unit: str,
        as_said: bool = False,
        within: Within | None = None,
    ) -> Point:
        """Return the point of one measured number."""
        return cls(
            at=at,
            value=value,
            low=low,
            high=high,
            exact=exact,
            as_said=as_said,
            unit=unit,
            least=value,
            most=value,
            within=within,
        )

    @property
    def figure(self) -> Figure:
        """The number with its precision."""
        return Figure(
            value=self.value,
            low=self.low,
            high=self.high,
            exact=self.exact,
            lower_bound=self.high is None and not self.as_said,
            as_said=self.as_said,
        )


def together(points: Iterable[Point]) -> Point:
    """Return the point that stands for several: the last one's number, the extremes of all.

    Its figure within a web is the last that is known.
    """
    ordered = sorted(points, key=lambda point: point.at)
    return msgspec.structs.replace(
        ordered[-1],
        least=min(point.least for point in ordered),
        most=max(point.most for point in ordered),
        samples=sum(point.samples for point in ordered),
        within=next((one.within for one in reversed(ordered) if one.within is not None), None),
    )


def settled_before(level: Level, now: int, coarser: Level) -> int | None:
    """Return the time before which points of a level are folded into the coarser one.

    It is always a border of the coarser steps, so that no step is folded twice; None: never.
    """
    if level.keep is None:
        return None
    return (now - level.keep) // coarser.step * coarser.step


def fold(points: Iterable[Point], step: int) -> list[Point]:
    """Return one point for each step of `step` seconds that has any, oldest first."""
    steps: dict[int, list[Point]] = {}
    for point in points:
        steps.setdefault(point.at // step, []).append(point)
    return [together(steps[number]) for number in sorted(steps)]


def thin(levels: dict[str, list[Point]], now: int) -> dict[str, list[Point]]:
    """Return all points by level as stored at `now`; repeating it changes nothing."""
    out = {level.name: list(levels.get(level.name, ())) for level in LEVELS}
    for level, coarser in itertools.pairwise(LEVELS):
        border = settled_before(level, now, coarser)
        if border is None:
            continue
        old = [point for point in out[level.name] if point.at < border]
        out[level.name] = [point for point in out[level.name] if point.at >= border]
        out[coarser.name] = fold([*out[coarser.name], *old], coarser.step)
    return out


def sparkline(values: Iterable[int], width: int = 40) -> str:
    """Return a line of blocks for the last values of a series, at most `width` wide."""
    return display.sparkline(_resampled(list(values), width))


def _resampled(values: list[int], width: int) -> list[int]:
    """Return at most `width` values: the last of each equal part."""
    if len(values) <= width:
        return values
    return [values[(i + 1) * len(values) // width - 1] for i in range(width)]
