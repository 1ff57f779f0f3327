"""What all forms do, and the small dialogs: are you sure, type something, read this.

A form stays, with what was typed, until what it asks for is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Static

from nostr_client.errors import NostrTallyError
from tui import format
from tui.host import start

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.worker import Worker


Doing = Callable[[Any], Awaitable[Any]]
"""Does what a form asks for with what it holds; raises NostrTallyError, which the form shows."""


class Form(ModalScreen[Any]):
    """Gives what `do` gave, or None when it is left; has a Static `#what` for what is wrong."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Leave", show=False)]

    def __init__(self, do: Doing) -> None:
        super().__init__()
        self._do = do
        self._doing: Worker[None] | None = None

    def submit(self, value: object) -> None:
        """Do it with this, once at a time, and leave when it is done."""
        if self._doing is None or self._doing.is_finished:
            self.say("one moment")
            self._doing = start(self, partial(self._try, value), "form", alone=False)

    async def _try(self, value: object) -> None:
        try:
            found = await self._do(value)
        except NostrTallyError as error:
            self.say(str(error), bad=True)
        else:
            self.dismiss(found)

    def say(self, text: str, *, bad: bool = False) -> None:
        """Put a word into the form, or say what is wrong."""
        what = self.query_one("#what", Static)
        what.update(format.plain(text))
        what.display = bool(text)
        what.set_class(bad, "-bad")

    def action_give_up(self) -> None:
        self.dismiss(None)


class ConfirmDialog(ModalScreen[bool]):
    """A question before something is lost; Enter and Escape both keep it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "Keep", show=False),
        Binding("y", "answer(True)", "Do it", show=False),
        Binding("left,right", "app.focus_next", "Other", show=False),
    ]

    def __init__(self, question: str, yes: str) -> None:
        super().__init__()
        self._question, self._yes = question, yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._question, markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Keep (n)", id="no", variant="primary")
                yield Button(f"{self._yes} (y)", id="yes", variant="error")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Ask(Form):
    """One line to type; `held` stands there already, and `said` is wrong with it."""

    def __init__(self, title: str, hint: str, do: Doing, *, held: str = "", said: str = "") -> None:
        super().__init__(do)
        self._title, self._hint, self._held, self._said = title, hint, held, said

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._title, markup=False, classes="dialog-title")
            yield Input(self._held, placeholder=self._hint, select_on_focus=False)
            yield Label(self._hint, markup=False, classes="hint")
            yield Static(id="what", markup=False)

    def on_mount(self) -> None:
        self.say(self._said, bad=bool(self._said))

    def on_input_changed(self) -> None:
        """Other words: what was wrong with the last ones is not said of these."""
        if self.query_one(Input).value != self._held:
            self.say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._held = event.value
        if event.value.strip():
            self.submit(event.value.strip())
        else:
            self.dismiss(None)


class Inform(ModalScreen[None]):
    """Something that has to be read before anything else goes on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,space", "close", "Close", show=False),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("up,k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._title, markup=False, classes="dialog-title")
            with VerticalScroll(can_focus=False):
                yield Static(self._text, markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Close", variant="primary")

    def on_button_pressed(self) -> None:
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        """Show the rest of a text that is longer than the dialog."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False, immediate=True)

    def action_close(self) -> None:
        self.dismiss(None)
