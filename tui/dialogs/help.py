"""All that can be done here and elsewhere, with its keys: searched by typing, run by Enter."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from tui.widgets.columns import matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.glyphs import Glyphs
    from tui.host import Action, Host

KEY_CELLS: Final = 6
NAME_CELLS: Final = 17
"""Cells of a line before the help: the longest key and the longest name, each with a gap."""

LEAST_HELP: Final = 20
"""Cells that the help of an action has at least, however narrow the dialog is."""

LEGENDS: Final = {
    "overview": (
        ("success", "an exact number, a rise, all relays answered"),
        ("warning", "a lower bound, a relay missing, older than 2 hours, warnings: w shows why"),
        ("error", "a fall, or no relay answered: w shows why"),
    ),
    "watch": (
        ("success", "the relay answered, and its claim is used"),
        ("warning", "a warning, or a relay that cannot count: Enter shows why"),
        ("error", "excluded, or the relay fails: Enter shows why"),
    ),
    "relays": (
        ("success", "connected"),
        ("warning", "connected, but some of its work fails: Enter shows why"),
        ("error", "not connected, or a feature that it lacks: Enter shows why"),
    ),
    "syncs": (
        ("success", "complete"),
        ("warning", "ended early, or the relay cannot sync: Enter shows why"),
        ("error", "the relay fails: Enter shows why"),
    ),
    "coverage": (
        ("success", "the relay has all of these events"),
        ("warning", "95 % or more: Enter shows why"),
        ("error", "less, or the run failed: Enter shows why"),
    ),
    "log": (("warning", "a warning"), ("error", "an error: Enter shows all of it")),
    "counters": (("success", "the counter rose"), ("error", "the counter fell")),
    "reindex": (("success", "done"), ("warning", "a table that differs: Tab, Enter show how")),
}
"""What the colours of each page mean; the texts beside them say the same without colours."""

_PRECISION: Final = (
    ("claimed", "relays say this number, and nothing proves it"),
    ("at least", "a lower bound: something may be missing"),
    ("{}3%", "an estimate: 95 times in 100 the true number is that close"),
)
WORDS: Final = {"overview": _PRECISION, "watch": _PRECISION}
"""What the words and signs of a page mean that say how far a number can be trusted.

`{}` stands for the sign of plus and minus.
"""

COLOURS: Final = {"success": "green", "warning": "yellow", "error": "red"}

HINT = "type to search; arrows and Enter run it; Esc leaves"


class Help(ModalScreen[str]):
    """Gives the name of the action that was chosen, or ""."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", show=False),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
    ]

    def __init__(self, actions: Sequence[Action], page: str) -> None:
        """`actions`: those that are offered; first those of `page`, then those of all pages."""
        super().__init__()
        self._page = page
        self._all = sorted(actions, key=lambda one: (not one.on(page), not one.pages))
        self._found: list[Action] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="help", classes="dialog"):
            yield Label(f"Help: {self._page}", classes="dialog-title")
            yield Input(placeholder="search", id="help-search")
            yield OptionList(id="help-actions", compact=True)
            yield Static(legend(self._page, self._glyphs), id="legend")
            yield Label(HINT, classes="hint")

    @property
    def _glyphs(self) -> Glyphs:
        return cast("Host", self.app).glyphs

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self._search("")
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        """Wrap the lines again, once the dialog has its new width."""
        self.call_after_refresh(self._list)

    def _search(self, wanted: str) -> None:
        texts = ((a, (a.name, a.title, a.help, a.key, *a.pages)) for a in self._all)
        self._found = [one for one, words in texts if matches(wanted, *words)]
        self._list()
        if self._found:
            self.query_one(OptionList).highlighted = 0

    def _list(self) -> None:
        """Show what was found; the cursor keeps its place."""
        options = self.query_one(OptionList)
        held, width = options.highlighted, options.scrollable_content_region.width
        options.set_options(Option(self._lines(one, width), id=one.name) for one in self._found)
        options.highlighted = held if held is not None and held < len(self._found) else None

    def _lines(self, one: Action, width: int) -> Content:
        """An action in as many lines as its help needs in so many cells."""
        before = KEY_CELLS + NAME_CELLS
        text = one.help if one.on(self._page) else f"{one.help} ({_where(one)})"
        rows = textwrap.wrap(text, max(LEAST_HELP, width - before))
        tones = ("b", "$foreground") if one.on(self._page) else ("$foreground-muted",) * 2
        return Content.from_markup(
            f"[$text-accent]$key[/][{tones[0]}]$name[/][{tones[1]}]$help[/]",
            key=f"{one.key:{KEY_CELLS}}",
            name=f"{one.name:{NAME_CELLS}}",
            help=("\n" + " " * before).join(rows),
        )

    def on_input_changed(self, event: Input.Changed) -> None:
        self._search(event.value.strip().lower())

    def on_input_submitted(self) -> None:
        chosen = self.query_one(OptionList).highlighted
        self.dismiss("" if chosen is None else self._found[chosen].name)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id or "")

    def action_move(self, by: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()

    def action_leave(self) -> None:
        self.dismiss("")


def legend(page: str, glyphs: Glyphs) -> Content:
    """Return what the colours and the words of a page mean, each on a line."""
    lines = [
        Content.from_markup(f"[$text-{tone}]$colour[/]  $meaning", colour=name, meaning=meaning)
        for tone, meaning in LEGENDS.get(page, ())
        for name in (f"{COLOURS[tone]:8}",)
    ]
    words = ((word.format(glyphs.plus_minus), meaning) for word, meaning in WORDS.get(page, ()))
    lines += [Content(f"{word:8}  {meaning}") for word, meaning in words]
    return Content("\n").join(lines)


def _where(one: Action) -> str:
    """The pages of an action, which is not one of all pages."""
    return f"on {', '.join(one.pages)}" if len(one.pages) < 4 else f"on {len(one.pages)} pages"
