"""The number of a watch, large where there is room, and what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Digits, Static

from nostr_client.codecs import display
from nostr_client.codecs.display import noun_for, plural, unit_noun
from nostr_client.watch.history import FIRST
from tui import format
from tui.glyphs import ASCII
from tui.pages.troubles import number_of, troubles_of
from tui.widgets.plotting import SPANS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from agent.api.schema import Point, WatchState
    from tui.glyphs import Glyphs
    from tui.host import Host

DAY_S: Final = 86_400.0
NOUNS: Final = {"1h": "an hour", "1d": "a day", "1w": "a week"}
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
        marks = min(1, number_of(one)) if one is not None else 0
        is_large = one is not None and self._is_large(one, width) and rest >= DIGITS + marks
        if one is not None and not is_large and self._host.glyphs is not ASCII:
            facts.insert(0, _value(one, self._host.glyphs))
        self._grow(height - rest + 1 + marks)
        if marks and one is not None:
            left = rest - (DIGITS if is_large else 1)
            facts += self._troubles(one, width, left)
        self.query_one("#what", Static).update(title)
        self._large(self._digits(one) if is_large else "")
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
        text = self._digits(one)
        wide = sum(3 if sign.isdecimal() else 1 for sign in text)
        return bool(text) and self.query_one("#digits", Digits).display and wide <= width

    def _digits(self, one: WatchState | None) -> str:
        """The number with the sign of an estimate or a lower bound; "" where it is not known."""
        figure = one.figure if one is not None else None
        return "" if figure is None else format.value(figure, self._host.glyphs).replace(" ", "")

    def _title(self, one: WatchState | None) -> str:
        if one is None:
            return f"There is no watch {self._host.watched}" if self._host.watched else "No watch"
        if self._host.glyphs is ASCII:  # without the large digits
            return f"{one.spec.name}  {format.value(one.figure, ASCII)}"
        return one.spec.name

    def _facts(self, one: WatchState) -> list[Content]:
        glyphs, now = self._host.glyphs, self._host.now()
        noun = unit_noun(one.unit)
        unit = f" {noun_for(one.figure.value, noun)}" if one.figure is not None and noun else ""
        lines = [Content.from_markup("[b]$sure[/]$unit", sure=self._sure(one), unit=unit)]
        if interval := format.interval(one.figure, glyphs):
            lines.append(Content(interval))
        if near := format.within(one.within, glyphs):
            past = (point.within for point in self._points)
            lines.append(Content(near + format.within_change(one.within, past, glyphs)))
        lines.append(self._changes(one))
        lines += [Content(text) for text in (self._young(one), self._waits(one)) if text]
        lines.append(Content(_asked(one, now)))
        lines.append(
            Content.from_markup("[$foreground-muted]$query, every $every$live[/]", **_rhythm(one))
        )
        return lines

    def _sure(self, one: WatchState) -> str:
        unknown = "no answer yet" if one.answered_at is None else "not known"
        return format.certainty(one.figure, self._host.glyphs) or unknown

    def _changes(self, one: WatchState) -> Content:
        parts = []
        for span in ("1h", "1d", "1w"):
            n = one.changes.get(span)
            text = format.seen_change(one, span, self._host.glyphs)
            if span not in one.changes:
                text = format.ahead(SPANS[span], one.since, self._host.now())
            tone = "$foreground-muted" if not n else "$text-success" if n > 0 else "$text-error"
            parts.append(Content.from_markup(f"$span [{tone}]$text[/]", span=span, text=text))
        gap = (
            "  " if sum(part.cell_length + 2 for part in parts) <= self.content_size.width else " "
        )
        return Content(gap).join(parts)

    def _young(self, one: WatchState) -> str:
        """How far a number moved since it began, while that is less than a day ago."""
        n, now = one.changes.get(FIRST), self._host.now()
        if n is None or one.since is None or now - one.since >= DAY_S:
            return ""
        text = format.seen_change(one, FIRST, self._host.glyphs)
        return f"{text} since {format.clock(one.since)}"

    def _waits(self, one: WatchState) -> str:
        """Why the first change that is not known is not, and from when on it will be."""
        now = self._host.now()
        span = next((span for span in NOUNS if span not in one.changes), None)
        if span is None or one.since is None:
            return ""
        length, noun = SPANS[span], NOUNS[span]
        if one.since + length > now:
            known_at = _at(one.since + length, now)
            begun = "" if self._young(one) else f"first counted {_at(one.since, now)}; "
            return f"{begun}change of {noun} from {known_at}"
        later = [point.at for point in self._points if point.at > now - length]
        known_at = _at((later[0] if later else now) + length, now)
        gap = f"{_at(now - 2 * length, now)} and {_at(now - length, now)}"
        return f"not counted between {gap}; change of {noun} from {known_at} at the latest"

    def _troubles(self, one: WatchState, width: int, room: int) -> list[Content]:
        """What is wrong, where it has room as a whole; else how much it is, and the key for it."""
        line, sign = "[$text-warning]$sign $text[/]", self._host.glyphs.warn
        texts = [t.sentence for t in troubles_of(one, self._host.model.relays)]
        found = [Content.from_markup(line, sign=sign, text=format.plain(text)) for text in texts]
        if _height(found, width) <= room:
            return found
        short = f"{plural(len(texts), 'problem')}: w shows why"
        return [Content.from_markup(line, sign=sign, text=short)]


def _asked(one: WatchState, now: float) -> str:
    """When it was counted, of how many relays; before the first answer, whom it asks."""
    if one.answered_at is None:
        return f"asks {plural(one.asked, 'relay')}"
    age = format.age(now - one.answered_at)
    return f"counted {age} ago, {one.answered}/{plural(one.asked, 'relay')}"


def _at(at: float, now: float) -> str:
    """A time of day, with its date where that is not today."""
    is_today = display.moment(at, "%x", None) == display.moment(now, "%x", None)
    return display.moment(at, "%H:%M" if is_today else "%d %b %H:%M", None)


def _value(one: WatchState, glyphs: Glyphs) -> Content:
    value = format.value(one.figure, glyphs)
    return Content.from_markup("[b $text-accent]$value[/]", value=value)


def _height(lines: list[Content], width: int) -> int:
    """How many lines of a terminal texts need in so many cells."""
    return sum(line.get_height({}, width) for line in lines) if width else len(lines)


def _rhythm(one: WatchState) -> dict[str, str]:
    query = one.spec.query or "filter"
    return {"query": query, "every": one.spec.interval, "live": ", live" if one.spec.live else ""}
