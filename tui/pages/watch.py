"""One watch: the number large, its history with the interval, and what each relay said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Digits, Static

from nostr_client.codecs.display import plural
from tui import format
from tui.glyphs import ASCII
from tui.pages.watched import WatchedPage
from tui.widgets import claims, people
from tui.widgets.columns import matches
from tui.widgets.grid import GONE, Cell, Grid
from tui.widgets.people import beyond
from tui.widgets.plotting import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.widget import Widget

    from agent.api.schema import CountReport, People, Person, WatchHistory, WatchState, WeighedClaim
    from tui.widgets.plot import HistoryPlot

MOST_PEOPLE: Final = 500
DAY_S: Final = 86_400.0

NO_ONE: Final = "Nobody was seen to do anything in the last 30 days.\n\np shows the relays."

MOST: Final = 10_000
"""Numbers of the past that are asked for: what the API gives at most."""


class WatchPage(WatchedPage):
    """Its number, its history, and its relays or people."""

    title_ = "watch"

    def __init__(self) -> None:
        super().__init__()
        self.span = "1d"
        self._claims: dict[str, WeighedClaim] = {}
        self._counted: CountReport | None = None
        self._history: WatchHistory | None = None
        self._people: dict[str, Person] = {}
        self._found: People | None = None
        self._shows_people = False

    def body(self) -> Iterable[Widget]:
        from tui.widgets.plot import HistoryPlot

        with Horizontal(id="top"):
            with Vertical(id="number"):
                yield Static(id="what", markup=False)
                yield Digits(id="digits")
                yield Static(id="facts")
            yield HistoryPlot(self.host.glyphs, id="plot")
        yield Grid(claims.COLUMNS, self._row, id="claims")
        yield Static(id="no-claims", classes="empty")
        yield Grid(people.COLUMNS, self._person_row, id="people")
        yield Static(id="no-people", classes="empty")
        yield Static(id="beyond", markup=False)

    async def entered(self) -> None:
        self.query_one("#people" if self._shows_people else "#claims").focus()
        await self.look()

    def show(self, changed: set[str]) -> None:
        if not changed & {"watches", "link", "frame"}:
            return
        one = self.shown
        self.query_one("#what", Static).update(self._title(one))
        self.query_one("#digits", Digits).update(_digits(one) if self._is_large(one) else "")
        self.query_one("#facts", Static).update(self._facts(one) if one else "")
        self._list()
        self.look_if_moved()

    def tick(self) -> None:
        super().tick()
        if self.shown is not None:
            self.query_one("#facts", Static).update(self._facts(self.shown))

    def _is_large(self, one: WatchState | None) -> bool:
        """Whether the large digits show all of the number: one that is cut is another number."""
        digits = self.query_one("#digits", Digits)
        room = digits.size.width
        wide = sum(1 if sign in ",." else 3 for sign in _digits(one))
        return digits.display and (not room or wide <= room)

    def _title(self, one: WatchState | None) -> str:
        if one is None:
            return f"There is no watch {self.host.watched}" if self.host.watched else "No watch"
        if self.host.glyphs is ASCII:  # without the large digits
            return f"{one.spec.name}  {format.value(one.figure, ASCII)}"
        return one.spec.name

    def _facts(self, one: WatchState) -> Content:
        glyphs, now = self.host.glyphs, self.host.now()
        unit = (one.unit or "").replace("_", " ")
        lines = [Content.from_markup("[b]$sure[/] $unit", sure=self._sure(one), unit=unit)]
        if glyphs is not ASCII and not self._is_large(one):
            value = format.value(one.figure, glyphs)
            lines.insert(0, Content.from_markup("[b $text-accent]$value[/]", value=value))
        if interval := format.interval(one.figure, glyphs):
            lines.append(Content(interval))
        if near := format.within(one.within, self.host.glyphs):
            lines.append(Content(near))
        lines.append(self._changes(one))
        if young := self._young(one):
            lines.append(young)
        at = one.answered_at
        age = "not yet" if at is None else f"{format.age(now - at)} ago"
        lines.append(Content(f"counted {age}, {one.answered}/{plural(one.asked, 'relay')}"))
        lines.append(
            Content.from_markup("[$foreground-muted]$query, every $every$live[/]", **_rhythm(one))
        )
        lines += [
            Content.from_markup(
                "[$text-warning]$sign $text[/]", sign=glyphs.warn, text=format.plain(text)
            )
            for text in one.warnings[:4]
        ]
        return Content("\n").join(lines)

    def _sure(self, one: WatchState) -> str:
        return format.certainty(one.figure, self.host.glyphs) or "no answer yet"

    def _changes(self, one: WatchState) -> Content:
        parts = []
        for span in ("1h", "1d", "1w"):
            n = one.changes.get(span)
            text = format.change(n, self.host.glyphs)
            if n is None:
                text = format.ahead(SPANS[span], one.since, self.host.now())
            tone = "$foreground-muted" if not n else "$text-success" if n > 0 else "$text-error"
            parts.append(Content.from_markup(f"$span [{tone}]$text[/]", span=span, text=text))
        return Content("  ").join(parts)

    def _young(self, one: WatchState) -> Content | None:
        """How far a number moved since it began, while that is less than a day ago."""
        found, now = self._history, self.host.now()
        points = found.points if found is not None and found.watch == one.spec.name else ()
        if one.since is None or one.figure is None or not points or now - one.since >= DAY_S:
            return None
        if points[0].at > one.since:  # the plot begins later
            return None
        text = format.change(one.figure.value - points[0].value, self.host.glyphs)
        return Content(f"{text} since {format.clock(points[0].at)}")

    def _list(self) -> None:
        grid = self.query_one("#claims", Grid)
        found = [
            one for one in self._claims.values() if matches(self.wanted, one.relay, one.status)
        ]
        grid.show([one.relay for one in sorted(found, key=_order)])
        self.say(grid, "#no-claims", "No relay has answered yet.")
        self._list_people()
        others = ("#claims", "#no-claims") if self._shows_people else ("#people", "#no-people")
        for one in others:
            self.query_one(one).display = False
        self.query_one("#beyond").display = self._shows_people and bool(self._found)

    def _list_people(self) -> None:
        grid = self.query_one("#people", Grid)
        found = [key for key, p in self._people.items() if matches(self.wanted, p.person, p.what)]
        grid.show(found)
        self.say(grid, "#no-people", NO_ONE)
        self.query_one("#beyond", Static).update(beyond(self._found) if self._found else "")

    def _person_row(self, key: str) -> Mapping[str, Cell]:
        one = self._people.get(key)
        return GONE if one is None else people.row(one, self.host.now())

    def toggle_people(self) -> None:
        """Show people in place of the relays, or the relays again."""
        self._shows_people = not self._shows_people
        self._list()
        self.set_focus(self.query_one("#people" if self._shows_people else "#claims"))

    @property
    def person(self) -> str:
        """All of what the person did that is pointed at, or ""."""
        key = self.query_one("#people", Grid).key if self._shows_people else None
        one = self._people.get(key or "")
        return "" if one is None else people.whole(one)

    @property
    def pointed(self) -> str:
        return "" if self._shows_people else super().pointed

    def _row(self, relay: str) -> Mapping[str, Cell]:
        spec = self.shown.spec if self.shown else None
        one = self._claims.get(relay)
        if one is None:
            return GONE
        return claims.row(one, self.host.now(), self.host.glyphs, spec)

    async def fetch(self, name: str) -> None:
        now, length = self.host.now(), SPANS[self.span]
        since = max(0.0, now - 1.2 * length) if length else 0.0
        counted = await self.host.ask(lambda client: client.explain(name))
        history = await self.host.ask(lambda client: client.history(name, since=since, limit=MOST))
        found = await self.host.ask(
            lambda client: client.people(
                name, since=max(0.0, now - people.SINCE_S), limit=MOST_PEOPLE
            )
        )
        self._claims = {one.relay: one for one in counted.relays}
        self._found = found
        self._people = {people.key_of(one): one for one in found.people}
        self._history = history
        self._plot().show(history.points, now, self.span)
        self._list()

    def _plot(self) -> HistoryPlot:
        from tui.widgets.plot import HistoryPlot

        return self.query_one("#plot", HistoryPlot)

    def choose_span(self, span: str | None) -> None:
        """Plot another length of time."""
        names = list(SPANS)
        if span is None or span not in SPANS:
            span = names[(names.index(self.span) + 1) % len(names)]
        self.span = span
        self.look_again()

    def copied(self) -> str:
        one = self.shown
        if one is None:
            return ""
        bounds = format.in_words(one.figure, self.host.glyphs)
        return f"{one.spec.name}: {format.value(one.figure, self.host.glyphs)} ({bounds})"


def _digits(one: WatchState | None) -> str:
    return format.number(one.figure.value) if one and one.figure else "?"


def _rhythm(one: WatchState) -> dict[str, str]:
    query = one.spec.query or "filter"
    return {"query": query, "every": one.spec.interval, "live": ", live" if one.spec.live else ""}


def _order(one: WeighedClaim) -> tuple[bool, bool, str]:
    """Those that count first, then those that answered."""
    return not one.used, one.status != "ok", one.relay
