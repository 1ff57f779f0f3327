"""What all pages have: heading, tabs, keys, a line for a filter, and how news reach them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from tui import format
from tui.host import is_whole, start
from tui.widgets.frame import Heading, Keys, Tabs, TooSmall
from tui.widgets.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from tui.host import Host
    from tui.model import Model
    from tui.widgets.columns import Column


LOOK_EVERY_S: Final = 1.0
"""The same watch is not asked about more often, however fast its number moves."""

LOOK_AGAIN_S: Final = 15.0
"""Seconds after which a watch whose number did not move is asked about again: the agent may store
people, and their names, after it has merged the number."""


class FilterInput(Input):
    """Where a filter is typed; Escape clears it, Enter goes back to the table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", "Clear", show=False),
        Binding("enter", "keep", "To the table", show=False),
    ]
    DEFAULT_CSS = "FilterInput { display: none; height: 1; border: none; padding: 0 1; }"

    def action_give_up(self) -> None:
        """Clear, and hide."""
        self.value = ""
        cast("Page", self.screen).found("")

    def action_keep(self) -> None:
        """Go to what was found."""
        cast("Page", self.screen).found(self.value)

    def on_blur(self) -> None:
        """Nothing typed, nothing shown."""
        self.display = bool(self.value)


class Page(Screen[None]):
    """One page; subclasses say what it is made of and what it shows."""

    title_: ClassVar[str] = ""
    """Its name in the table of actions."""

    def __init__(self) -> None:
        super().__init__()
        self.sort = ""
        """The column that rows are sorted by."""
        self.wanted = ""
        """What rows must contain."""

    @property
    def host(self) -> Host:
        """The application, as far as a page knows it."""
        return cast("Host", self.app)

    @property
    def model(self) -> Model:
        return self.host.model

    # For subclasses to define.

    def body(self) -> Iterable[Widget]:
        """What stands between the tabs and the keys."""
        raise NotImplementedError

    def show(self, changed: set[str]) -> None:
        """Draw what has changed."""
        raise NotImplementedError

    def tick(self) -> None:
        """A second has passed: ages have changed."""
        for grid in self.query(Grid):
            grid.renew()

    async def entered(self) -> None:
        """The page has come to the front."""

    @property
    def pointed(self) -> str:
        """The name of what the cursor is on, or ""."""
        grid = self.query(Grid)
        return (grid.first().key or "") if grid else ""

    def copied(self) -> str:
        """What is copied from here."""
        return self.pointed

    def whole(self) -> tuple[str, str]:
        """Return the row under the cursor as a title and its cells in full, each on a line."""
        focused = self.focused
        grid = focused if isinstance(focused, Grid) else self.query(Grid).first()
        return grid.key or "", grid.whole()

    def sort_by(self, column: str | None) -> None:
        """Sort by a column, or with None by the next one; the same again turns the order."""

    # What all do alike.

    def compose(self) -> ComposeResult:
        yield Heading()
        yield Tabs()
        yield from self.body()
        yield FilterInput(placeholder="filter", select_on_focus=False)
        yield Keys()
        yield TooSmall()

    def on_screen_resume(self) -> None:
        self.draw(set(EVERYTHING))
        start(self, self.entered, "entered")

    def on_resize(self) -> None:
        if self.is_current:
            self.call_after_refresh(self.draw, set(EVERYTHING))

    def draw(self, changed: set[str]) -> None:
        """Draw the frame, and what has changed; nothing while it is made or taken down."""
        if not is_whole(self):
            return
        self.set_class(self.model.stale, "-stale")
        for grid in self.query(Grid):
            grid.cut = self.host.glyphs.ellipsis
            grid.arrows = self.host.glyphs.up, self.host.glyphs.down
            if grid is self.query(Grid).first():
                grid.hide(self.host.settings.hidden.get(self.title_, ()))
            grid.faded = self.model.stale and self.model.received_at is not None
        self.head()
        if "frame" in changed:
            self.query_one(Keys).show(self.host.offered, self.title_)
            self.query_one(Tabs).show(self.host.tabs, self.title_)
            self.query_one(TooSmall).show()
        self.show(changed)

    def head(self) -> None:
        """The heading alone."""
        self.query_one(Heading).show(self.model, self.host.now(), self.host.glyphs)

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """All columns of the page's first table but its first, each with its title."""
        return tuple((one.key, one.title or one.key) for one in self._columns[1:])

    @property
    def _columns(self) -> Sequence[Column]:
        return self.query(Grid).first().columns

    def find(self, text: str = "") -> None:
        """Show rows with these words alone, or let them be typed."""
        finder = self.query_one(FilterInput)
        finder.display = True
        if text:
            finder.value = text
        else:
            self.set_focus(finder)

    def found(self, text: str) -> None:
        """Show rows with this text, and go to them at once: what is typed next is a key of theirs.

        Not by `focus()`, which comes later than that key.
        """
        self._look_for(text)
        self.set_focus(self.query(Grid).first())

    def _look_for(self, text: str) -> None:
        self.wanted = text.strip().lower()
        self.show(set(EVERYTHING))

    def on_input_changed(self, event: Input.Changed) -> None:
        if isinstance(event.input, FilterInput):
            self._look_for(event.value)

    def on_grid_header_clicked(self, event: Grid.HeaderClicked) -> None:
        self.sort_by(event.column)

    def on_grid_opened(self, event: Grid.Opened) -> None:
        """Do what Enter does on this page."""
        for one in self.host.offered:
            if "enter" in one.keys.split(",") and one.on(self.title_):
                self.host.do(one.name)

    def unknown(self) -> str:
        """What stands in place of a table while the agent has not said anything yet."""
        return UNKNOWN if self.model.link == "away" else CONNECTING

    def say(self, grid: Grid, where: str, words: str, **more: str) -> None:
        """Show a table, or where it is empty the words that say what is missing.

        They are markup; $wanted in them is what was typed, $why what keeps the agent away, and
        `more` stands for what else a page names: texts of people and relays are no markup.
        """
        empty = self.query_one(where, Static)
        empty.display = not grid.keys
        grid.display = bool(grid.keys)
        if not grid.keys:
            words = words if self.model.received_at is not None else self.unknown()
            values = {"wanted": self.wanted, "why": format.plain(self.model.why), **more}
            empty.update(Content.from_markup(words, **values))


CONNECTING = "Connecting to the agent."

UNKNOWN = "Not known: no agent answers.\n\n[$text-warning]$why[/]"

NO_MATCH = "Nothing matches “$wanted”.\n\nEsc in the filter clears it."
"""What an empty table says where the filter hides all rows; see `Page.say`."""

EVERYTHING = (
    "frame", "link", "status", "watches", "relays", "syncs", "counters", "links", "coverages", "log"
)  # fmt: skip
