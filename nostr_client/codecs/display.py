"""Durations, ages, series and figures as people write and read them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

DURATION: Final = r"^[0-9]{1,9}(\.[0-9]{1,3})?(ms|s|m|h|d|w)(?!\n)$"
"""A pattern for JSON schemas; `$` also matches before a last newline, which the rest forbids."""

IN_WORDS: Final = 'a number and a unit, as in "90s", "10m", "1.5h", "7d"'

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_WRITTEN: Final = {"d": 86_400, "h": 3600, "m": 60}
BLOCKS: Final = "▁▂▃▄▅▆▇█"

_PATTERN: Final = re.compile(DURATION)


class ShownFigure(Protocol):
    """A number and how far it can be trusted, as `merge.Figure` and the agent's API have it."""

    @property
    def value(self) -> int: ...
    @property
    def low(self) -> int: ...
    @property
    def high(self) -> int | None: ...
    @property
    def exact(self) -> bool: ...
    @property
    def lower_bound(self) -> bool: ...
    @property
    def as_said(self) -> bool: ...


def seconds(duration: str) -> float:
    """The seconds of a duration. Raises InvalidInput."""
    if _PATTERN.match(duration) is None:
        raise InvalidInput(f"{duration!r} is not {IN_WORDS}")
    unit = duration.lstrip("0123456789.")
    return float(duration.removesuffix(unit)) * _UNITS[unit]


def duration(seconds: float) -> str:
    """Seconds as a duration, in the largest unit in which they are whole."""
    unit, size = next((one for one in _WRITTEN.items() if seconds % one[1] == 0), ("s", 1))
    number = f"{seconds / size:.3f}".rstrip("0").rstrip(".")
    return f"{number}{unit}"


def minute(at: float) -> str:
    """A time (Unix seconds) to the minute, in UTC."""
    return moment(at, "%Y-%m-%d %H:%M")


def plural(number: int, noun: str, more: str | None = None) -> str:
    """A number and what it counts: `1 relay`, `2 relays`; `more` is the noun of several."""
    return f"{number:,} {noun_for(number, noun, more)}"


def noun_for(number: int, noun: str, more: str | None = None) -> str:
    """What a number counts, without the number: `relay` for 1, else `relays` or `more`."""
    return noun if number == 1 else more or f"{noun}s"


def unit_noun(unit: str | None) -> str:
    """What one of a unit is, in words: `distinct author`, `event`; "" for None."""
    return "" if unit is None else unit.replace("_", " ").removesuffix("s")


def sats(msats: int) -> str:
    """Millisats as sats, of which no part is cut: `21 sats`, `1.5 sats`, `0.001 sats`."""
    whole, rest = divmod(msats, 1000)
    part = f".{rest:03}".rstrip("0") if rest else ""
    return f"{whole:,}{part} {'sat' if msats == 1000 else 'sats'}"


def roughly(number: float) -> str:
    """Return an estimate as text; full registers give no number."""
    return f"about {number:,.0f}" if math.isfinite(number) else "more than registers can count"


def percent(part: float) -> str:
    """Return a part from 0 to 1 as `99.9 %`, rounded down: only all is 100.0 %, only none 0.0 %."""
    tenths = math.floor(round(part * 1000, 6))
    return "<0.1 %" if part > 0 and not tenths else f"{tenths // 10}.{tenths % 10} %"


def whole_percent(part: float) -> str:
    """Return a part from 0 to 1 as `99 %`, rounded down: only all is 100 %, only none 0 %."""
    whole = math.floor(round(part * 100, 6))
    return "<1 %" if part > 0 and not whole else f"{whole} %"


def percent_at_most(part: float) -> str:
    """Return the upper end of a part from 0 to 1 as `99 %`, rounded up, so that it stays true."""
    return f"{math.ceil(round(part * 100, 6))} %"


def age(seconds: float) -> str:
    """A span of time in its largest unit of which it has two: `90s`, `2m`, `3d`."""
    for unit, size in _WRITTEN.items():
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def moment(at: float, pattern: str = "%Y-%m-%d %H:%M:%S", zone: tzinfo | None = UTC) -> str:
    """Return Unix seconds as a time; a number outside the calendar stays a number.

    An event may say any time. `zone`: None is the machine's own.
    """
    try:
        return datetime.fromtimestamp(at, zone).strftime(pattern)
    except (OSError, OverflowError, ValueError):
        return f"{at}" if isinstance(at, int) else f"{at:.0f}"


def sparkline(values: Sequence[int], blocks: str = BLOCKS) -> str:
    """Values as a line of blocks, one each, between the least and the most of them."""
    if not values:
        return ""
    least, top = min(values), len(blocks) - 1
    span = max(values) - least
    return "".join(blocks[(one - least) * top // span if span else top // 2] for one in values)


def said(figure: ShownFigure, noun: str = "", more: str | None = None) -> str:
    """A figure with how sure it is, and what it counts: `5 events, as relays say, at least 3`.

    `noun` is that of one, and `more` that of several, as for `plural`.
    """
    number = figure.low if figure.high is None and not as_said(figure) else figure.value
    what = f" {noun_for(number, noun, more)}" if noun else ""
    words = as_said(figure)
    if words:
        return f"{figure.value:,}{what}, {words}"
    if figure.exact:
        return f"{figure.value:,} (exact){what}"
    if figure.high is None:
        return f"at least {figure.low:,}{what}"
    if figure.low == figure.high:
        return f"about {figure.value:,}{what}"
    return f"about {figure.value:,} ({figure.low:,} to {figure.high:,}){what}"


def as_said(figure: ShownFigure) -> str:
    """Who says a number that relays say, and what is proven of it; "" for any other figure.

    Ids that relays name bound a number from above; one relay's count is bounded by the registers
    beside it, or by nothing. A lower bound of which less is proven is what relays say.
    """
    at_least = f", at least {figure.low:,}" if figure.low else ""
    if figure.lower_bound:
        return f"as relays say{at_least}" if figure.low < figure.value else ""
    if not figure.as_said:
        return ""
    if figure.high == figure.value:
        return "as these relays say" + ("" if figure.exact else f", at least {figure.low:,}")
    if figure.high is None:
        return f"as the relay says{at_least}"
    return f"as the relay says (its registers: {figure.low:,} to {figure.high:,})"
