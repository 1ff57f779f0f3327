"""The small dialogs: are you sure, type something, read this."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Static

from tui.dialogs.form import Form

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui.dialogs.form import Doing


class Sure(ModalScreen[bool]):
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
        Binding("escape,enter,space", "close", "Close", show=False)
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

    def action_close(self) -> None:
        self.dismiss(None)
