"""The number of a watch, large where there is room, and what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Digits, Static

from nostr_client.codecs.display import plural
from tui import format
from tui.glyphs import ASCII
from tui.widgets.plotting import SPANS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from agent.api.schema import Point, WatchState
    from tui.glyphs import Glyphs
    from tui.host import Host

DAY_S: Final = 86_400.0
DIGITS: Final = 3
"""Lines of the large digits."""


class WatchNumber(Vertical):
    """The name of a watch, its number and the facts; it grows where the facts need more lines."""

    def __init__(self, host: Host) -> None:
        super().__init__(id="number")
        self._host = host
        self._one: WatchState | None = None
        self._points: Sequence[Point] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="what", markup=False)
        yield Digits(id="digits")
        yield Static(id="facts")

    def show(self, one: WatchState | None, points: Sequence[Point]) -> None:
        """Draw a watch; `points`: what is known of its past."""
        self._one, self._points = one, points
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        """Draw it again: the large digits only where all facts have room beside them."""
        one, (width, height) = self._one, self.content_size
        title = self._title(one)
        facts = self._facts(one) if one is not None else []
        rest = height - _height([Content(title)], width) - _height(facts, width)
        marks = min(1, len(one.warnings)) if one is not None else 0
        is_large = one is not None and self._is_large(one, width) and rest >= DIGITS + marks
        if one is not None and not is_large and self._host.glyphs is not ASCII:
            facts.insert(0, _value(one, self._host.glyphs))
        self._grow(height - rest + 1 + marks)
        if marks and one is not None:
            left = rest - (DIGITS if is_large else 1)
            facts += _warnings(one, self._host.glyphs, width, left)
        self.query_one("#what", Static).update(title)
        self._large(_digits(one) if is_large else "")
        self.query_one("#facts", Static).update(Content("\n").join(facts))

    def _large(self, text: str) -> None:
        digits = self.query_one("#digits", Digits)
        digits.update(text)
        digits.styles.height = DIGITS if text else 0

    def _grow(self, lines: int) -> None:
        """Have room for so many lines, but not more than half of the screen."""
        if self.parent is not None and self.content_size.width:
            least = min(lines + self.gutter.height, self.app.size.height // 2 + 1)
            top = self.query_ancestor("#top")
            if top.styles.min_height is None or top.styles.min_height.value != least:
                top.styles.min_height = least

    def _is_large(self, one: WatchState, width: int) -> bool:
        """Whether the large digits show all of the number: one that is cut is another number."""
        wide = sum(1 if sign in ",." else 3 for sign in _digits(one))
        return self.query_one("#digits", Digits).display and wide <= width

    def _title(self, one: WatchState | None) -> str:
        if one is None:
            return f"There is no watch {self._host.watched}" if self._host.watched else "No watch"
        if self._host.glyphs is ASCII:  # without the large digits
            return f"{one.spec.name}  {format.value(one.figure, ASCII)}"
        return one.spec.name

    def _facts(self, one: WatchState) -> list[Content]:
        glyphs, now = self._host.glyphs, self._host.now()
        unit = (one.unit or "").replace("_", " ")
        lines = [Content.from_markup("[b]$sure[/] $unit", sure=self._sure(one), unit=unit)]
        if interval := format.interval(one.figure, glyphs):
            lines.append(Content(interval))
        if near := format.within(one.within, glyphs):
            past = (point.within for point in self._points)
            lines.append(Content(near + format.within_change(one.within, past, glyphs)))
        lines.append(self._changes(one))
        if young := self._young(one):
            lines.append(young)
        at = one.answered_at
        age = "not yet" if at is None else f"{format.age(now - at)} ago"
        lines.append(Content(f"counted {age}, {one.answered}/{plural(one.asked, 'relay')}"))
        lines.append(
            Content.from_markup("[$foreground-muted]$query, every $every$live[/]", **_rhythm(one))
        )
        return lines

    def _sure(self, one: WatchState) -> str:
        return format.certainty(one.figure, self._host.glyphs) or "no answer yet"

    def _changes(self, one: WatchState) -> Content:
        parts = []
        for span in ("1h", "1d", "1w"):
            n = one.changes.get(span)
            text = format.change(n, self._host.glyphs)
            if n is None:
                text = format.ahead(SPANS[span], one.since, self._host.now())
            tone = "$foreground-muted" if not n else "$text-success" if n > 0 else "$text-error"
            parts.append(Content.from_markup(f"$span [{tone}]$text[/]", span=span, text=text))
        gap = (
            "  " if sum(part.cell_length + 2 for part in parts) <= self.content_size.width else " "
        )
        return Content(gap).join(parts)

    def _young(self, one: WatchState) -> Content | None:
        """How far a number moved since it began, while that is less than a day ago."""
        points, now = self._points, self._host.now()
        if one.since is None or one.figure is None or not points or now - one.since >= DAY_S:
            return None
        if points[0].at > one.since:  # the plot begins later
            return None
        text = format.change(one.figure.value - points[0].value, self._host.glyphs)
        return Content(f"{text} since {format.clock(points[0].at)}")


def _value(one: WatchState, glyphs: Glyphs) -> Content:
    value = format.value(one.figure, glyphs)
    return Content.from_markup("[b $text-accent]$value[/]", value=value)


def _warnings(one: WatchState, glyphs: Glyphs, width: int, room: int) -> list[Content]:
    """The warnings of a watch where they all have room; else how many, and the key for them."""
    line = "[$text-warning]$sign $text[/]"
    texts = [format.plain(text) for text in one.warnings]
    found = [Content.from_markup(line, sign=glyphs.warn, text=text) for text in texts]
    if _height(found, width) <= room:
        return found
    short = f"{plural(len(texts), 'warning')}: w shows why"
    return [Content.from_markup(line, sign=glyphs.warn, text=short)]


def _height(lines: list[Content], width: int) -> int:
    """How many lines of a terminal texts need in so many cells."""
    return sum(line.get_height({}, width) for line in lines) if width else len(lines)


def _digits(one: WatchState | None) -> str:
    return format.number(one.figure.value) if one and one.figure else "?"


def _rhythm(one: WatchState) -> dict[str, str]:
    query = one.spec.query or "filter"
    return {"query": query, "every": one.spec.interval, "live": ", live" if one.spec.live else ""}
