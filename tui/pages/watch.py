"""One watch: the number large, its history with the interval, and what each relay said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from textual.containers import Horizontal
from textual.widgets import Static

from nostr_client.codecs import nip19
from tui import format
from tui.pages.layout import FRAME_LINES, watch_tables
from tui.pages.page import LOOK_AGAIN_S
from tui.pages.watch_number import WatchNumber
from tui.pages.watched import WatchedPage
from tui.widgets import claims, people
from tui.widgets.columns import matches
from tui.widgets.grid import GONE, Cell, Grid
from tui.widgets.people import beyond
from tui.widgets.plotting import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual import events
    from textual.widget import Widget

    from agent.api.schema import CountReport, People, Person, WatchHistory, WeighedClaim
    from tui.pages.layout import WatchTables
    from tui.widgets.plot import HistoryPlot

MOST_PEOPLE: Final = 500

NOT_KNOWN: Final = "People come here as soon as a relay shows them."
NO_ONE: Final = "Nobody was seen to do anything in the last 30 days."
NO_ROWS: Final = 3
"""Lines of the words in place of an empty table."""

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
        """Whether keys are about people, who stand in place of the relays or below them."""

    def body(self) -> Iterable[Widget]:
        from tui.widgets.plot import HistoryPlot

        with Horizontal(id="top"):
            yield WatchNumber(self.host)
            yield HistoryPlot(self.host.glyphs, id="plot")
        yield Grid(claims.COLUMNS, self._row, id="claims", marked="used", falls=True)
        yield Static(id="no-claims", classes="empty")
        yield Grid(people.COLUMNS, self._person_row, id="people", marked="seen")
        yield Static(id="no-people", classes="empty")
        yield Static(id="beyond", markup=False)

    async def entered(self) -> None:
        self.query_one("#people" if self._shows_people else "#claims").focus()
        await self.look()

    def show(self, changed: set[str]) -> None:
        if not changed & {"watches", "link", "frame"}:
            return
        self._draw_number()
        self._list()
        self.look_if_moved()

    def tick(self) -> None:
        super().tick()
        if self.shown is not None:
            self._draw_number()
        if self._found is not None and time.monotonic() - self.looked_at >= LOOK_AGAIN_S:
            self.look_again()

    def _draw_number(self) -> None:
        found = self._history
        is_its = found is not None and found.watch == self.host.watched
        points = found.points if found is not None and is_its else ()
        self.query_one(WatchNumber).show(self.shown, points)

    def _list(self) -> None:
        grid = self.query_one("#claims", Grid)
        found = [
            one for one in self._claims.values() if matches(self.wanted, one.relay, one.status)
        ]
        grid.show([one.relay for one in sorted(found, key=_order)])
        self.say(grid, "#no-claims", "Relays come here as soon as they answer.")
        self._list_people()
        self._place()

    def _place(self) -> None:
        """Show both tables where there is room, else one; number and plot get what is left over.

        The last table gives way where the facts beside the plot need more lines.
        """
        tables = {name: self.query_one(f"#{name}", Grid) for name in ("claims", "people")}
        rows = (max(NO_ROWS, len(grid.keys)) for grid in tables.values())
        placed = watch_tables(*self.app.size, *rows, shows_people=self._shows_people)
        for (name, grid), lines in zip(tables.items(), placed, strict=True):
            for one in (grid, self.query_one(f"#no-{name}")):
                one.display = one.display and lines != 0
                one.styles.height = lines if name == "claims" and placed.people != 0 else "1fr"
        beyond = self.query_one("#beyond", Static)
        beyond.display = placed.people != 0 and bool(self._found)
        self._place_top(placed, beyond)

    def _place_top(self, placed: WatchTables, beyond: Static) -> None:
        """Give number and plot the lines that the tables leave; without a plot, the least."""
        top, (width, height) = self.query_one("#top"), self.app.size
        if None in placed:
            top.styles.clear_rule("height")
            return
        text = -(-len(str(beyond.content)) // max(1, width - 4)) if beyond.display else 0
        top.styles.height = height - FRAME_LINES - sum(filter(None, placed)) - min(3, text)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The table that has the keys is the one that actions are about."""
        if event.widget.id in ("claims", "people"):
            self._shows_people = event.widget.id == "people"

    def _list_people(self) -> None:
        grid = self.query_one("#people", Grid)
        found = [key for key, p in self._people.items() if matches(self.wanted, p.person, p.what)]
        grid.show(found)
        is_known = self.shown is not None and self.shown.answered_at is not None
        self.say(grid, "#no-people", NO_ONE if is_known else NOT_KNOWN)
        command = f"nostr-client watch people {self.host.watched} --since 30d"
        said = beyond(self._found, command) if self._found else ""
        self.query_one("#beyond", Static).update(said)

    def _person_row(self, key: str) -> Mapping[str, Cell]:
        one = self._people.get(key)
        return GONE if one is None else people.row(one, self.host.now())

    def toggle_people(self) -> None:
        """Go to the people, or to the relays again; a small terminal shows one of them."""
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
        if self._shows_people:
            person = self._people.get(self.query_one("#people", Grid).key or "")
            return "" if person is None else nip19.PublicKey(person.pubkey).encode()
        one = self.shown
        if one is None:
            return ""
        bounds = format.in_words(one.figure, self.host.glyphs)
        return f"{one.spec.name}: {format.value(one.figure, self.host.glyphs)} ({bounds})"


def _order(one: WeighedClaim) -> tuple[bool, bool, str]:
    """Those that count first, then those that answered."""
    return not one.used, one.status != "ok", one.relay
