"""Numbers, spans and lines as text. Pure: knows neither Textual nor a clock."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from nostr_client.codecs import display
from tui.glyphs import UNICODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.api.schema import Figure, WatchState, Within
    from tui.glyphs import Glyphs

BAR_SPAN: Final = 0.25
"""Part of the value that an interval bar shows on either side."""

UNKNOWN: Final = "?"
"""Stands where a number is not known: never a blank beside a column's zeros."""

NONE_SEEN: Final = "none"
"""Stands where the change of an estimate is within its error."""

MOST_PERCENT: Final = 999
"""A wider interval says nothing more."""

_SIZES: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_NUMBER: Final = re.compile(r"(?<![.\d])\d[\d,]{3,}(?![.\d])")


def number(n: int) -> str:
    """A whole number with its thousands apart."""
    return f"{n:,}"


def short(n: float) -> str:
    """A number in at most five signs, as in 1.2M."""
    for size, unit in _SIZES:
        if abs(n) >= size * 10:
            return f"{n / size:.0f}{unit}"
        if abs(n) >= size:
            return f"{n / size:.1f}{unit}"
    return f"{n:.0f}"


def tight(text: str) -> str:
    """A text whose numbers take as little room as four digits of each do: 12.35M, 4.1e20."""
    return _NUMBER.sub(_compact, text)


def _compact(found: re.Match[str]) -> str:
    digits = found.group().replace(",", "")
    if len(digits) > 15:
        return f"{digits[0]}.{digits[1]}e{len(digits) - 1}"
    n = int(digits)
    for size, unit in _SIZES:
        if n >= size:
            return f"{n / size:.4g}{unit}"
    return digits


def value(figure: Figure | None, glyphs: Glyphs = UNICODE) -> str:
    """A figure; an estimate and a lower bound say that they are."""
    if figure is None:
        return UNKNOWN
    if figure.exact or display.as_said(figure):
        return number(figure.value)
    sign = glyphs.least if figure.lower_bound else glyphs.about
    return f"{sign} {number(figure.value)}"


def bounds(figure: Figure | None, glyphs: Glyphs = UNICODE) -> str:
    """What lies around a figure, in numbers."""
    if figure is None:
        return ""
    if display.as_said(figure) and figure.high in (None, figure.value):
        one = figure.high is None and not figure.lower_bound
        return "as the relay says" if one else "as relays say"
    if figure.exact:
        return "exact"
    high = number(figure.high) if figure.high is not None else ""
    return f"{number(figure.low)}{glyphs.dash}{high}"


def in_words(figure: Figure | None, glyphs: Glyphs = UNICODE) -> str:
    """As `bounds`; who says a figure, and all that is known of it, where relays say it."""
    words = "" if figure is None else display.as_said(figure)
    return words or bounds(figure, glyphs)


def interval(figure: Figure | None, glyphs: Glyphs = UNICODE) -> str:
    """What lies around a figure that is not exact, or who says it; else nothing."""
    if figure is None or (figure.exact and not figure.as_said):
        return ""
    return display.as_said(figure) or f"95 %: {bounds(figure, glyphs)}"


def certainty(figure: Figure | None, glyphs: Glyphs = UNICODE) -> str:
    """How far a figure can be trusted, in a word or as a percentage."""
    if figure is None:
        return ""
    if display.as_said(figure):
        return "claimed"
    if figure.exact:
        return "exact"
    if figure.lower_bound or figure.high is None:
        return "at least"
    half = max(figure.high - figure.value, figure.value - figure.low)
    part = round(100 * half / max(1, figure.value))
    return f"{glyphs.plus_minus}{'>' * (part > MOST_PERCENT)}{min(part, MOST_PERCENT)}%"


def known(n: float | None) -> str:
    """A whole number; ? where it is not known."""
    return UNKNOWN if n is None else number(round(n))


def ahead(span: float, since: float | None, now: float) -> str:
    """When something a span of time old will be known, of what is known `since`; ? if never."""
    left = UNKNOWN if since is None else age(since + span - now)
    return f"in {left}" if since is not None and since + span > now else UNKNOWN


def begun(since: float | None, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Since when something is counted, for a line that needs more numbers; ? before the first."""
    if since is None:
        return UNKNOWN
    at = display.moment(since, "%H:%M", None)
    return text if len(text := f"since {at}") <= width else f"{at}{glyphs.dash}"


def within(found: Within | None, glyphs: Glyphs = UNICODE) -> str:
    """How many people of a web of trust are in a number, and how sure that is; nothing for None."""
    if found is None:
        return ""
    sure = certainty(found.figure, glyphs) or "not known"
    return f"known people: {value(found.figure, glyphs)} of {number(found.people)}, {sure}"


def within_change(
    found: Within | None, series: Iterable[Within | None], glyphs: Glyphs = UNICODE
) -> str:
    """How far that number moved since the oldest of a series by the same web; "" if unknown."""
    if found is None or found.figure is None:
        return ""
    same = (one for one in series if one is not None and (one.key, one.depth) == _web(found))
    first = next(same, None)
    if first is None or first.figure is None or first.at >= found.at:
        return ""
    moved = change(found.figure.value - first.figure.value, glyphs)
    return f", {moved} in {age(found.at - first.at)}"


def _web(found: Within) -> tuple[str, int]:
    return found.key, found.depth


def interval_bar(figure: Figure | None, width: int, glyphs: Glyphs = UNICODE) -> str:
    """The interval of a figure as a line, on one scale for all: a quarter of the value each way."""
    if figure is None or width < 3:
        return " " * width
    line = [" "] * width
    span = max(1.0, figure.value * BAR_SPAN)
    middle = (width - 1) // 2
    if not figure.exact:
        low = _place(figure.low - figure.value, span, middle)
        low = low if figure.lower_bound else min(low, middle - 1)
        over = span if figure.high is None else figure.high - figure.value
        high = max(_place(over, span, middle), middle + 1)
        line[low : high + 1] = glyphs.line * (high + 1 - low)
        line[low] = glyphs.left
        line[high] = glyphs.beyond if figure.high is None else glyphs.right
    line[middle] = glyphs.point
    return "".join(line)


def _place(off: float, span: float, middle: int) -> int:
    return middle + max(-middle, min(middle, round(off / span * middle)))


def change(n: int | None, glyphs: Glyphs = UNICODE) -> str:
    """How far a number moved; ? where that is not known."""
    if n is None:
        return UNKNOWN
    if n == 0:
        return "0"
    return ("+" if n > 0 else glyphs.minus) + (number(abs(n)) if abs(n) < 10_000 else short(abs(n)))


def seen_change(one: WatchState, span: str, glyphs: Glyphs = UNICODE) -> str:
    """How far the number of a watch moved; of an estimate only what is more than its error."""
    n = one.changes.get(span)
    exact = one.figure is not None and one.figure.exact
    return NONE_SEEN if n == 0 and not exact else change(n, glyphs)


def spark(values: Sequence[int], width: int, glyphs: Glyphs = UNICODE) -> str:
    """All values as a line of bars; of more than fit, so many evenly spaced ones to the newest."""
    n = len(values)
    if n > width:
        values = [values[(i + 1) * n // width - 1] for i in range(width)]
    return display.sparkline(values, glyphs.bars)


def progress(part: float, width: int, glyphs: Glyphs = UNICODE) -> str:
    """A bar that is full at 1."""
    done = round(max(0.0, min(1.0, part)) * width)
    return glyphs.full * done + glyphs.empty * (width - done)


def age(seconds: float | None) -> str:
    """A span of time in its largest unit."""
    return "never" if seconds is None else display.age(seconds)


def clock(at: float | None, *, date: bool = False) -> str:
    """A time of day in the machine's own zone."""
    if at is None:
        return ""
    return display.moment(at, "%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S", None)


def integer(text: str) -> str:
    """An integer of any length, in groups of three; a very long one by its size."""
    sign, bare = ("-", text[1:]) if text.startswith("-") else ("", text)
    if len(bare) > 21:
        return f"{sign}{bare[0]}.{bare[1:4]}e{len(bare) - 1}"
    return f"{sign}{int(bare or 0):,}"


def size(n: int) -> str:
    """Bytes in at most six signs."""
    return f"{short(n)}B"


def milliseconds(n: float | None) -> str:
    """A latency; ? where it is not known."""
    return UNKNOWN if n is None else f"{n:.0f} ms" if n < 10_000 else f"{n / 1000:.0f} s"


def percent(part: float) -> str:
    """A part of 1 without decimals, rounded down: only all is 100%, and only none 0%."""
    return display.whole_percent(part).replace(" ", "")


def percent_range(low: float, high: float, glyphs: Glyphs = UNICODE) -> str:
    """Two parts of 1 as a range without decimals, rounded outwards."""
    least, most = math.floor(round(low * 100, 6)), math.ceil(round(high * 100, 6))
    return f"{least}{glyphs.dash}{most}%"


def of(part: int, whole: int, width: int) -> str:
    """How many of how many; as a share where that is too long."""
    text = f"{part}/{whole}"
    return text if len(text) <= width else percent(part / max(1, whole))


def plain(text: str) -> str:
    """Foreign text in one line, with what would move the cursor or the writing made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)


def host(url: str) -> str:
    """A relay without what all of them have."""
    return url.removeprefix("wss://").removesuffix("/")
