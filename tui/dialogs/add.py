"""What to watch: pasted text, what of it, and a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Label, OptionList, Static

from nostr_client.errors import InvalidInput
from nostr_client.watch.definition import Watch
from tui.dialogs.paste import Pasted, Question, free_name, read
from tui.dialogs.simple import Form

if TYPE_CHECKING:
    from collections.abc import Collection

    from textual.app import ComposeResult

    from tui.dialogs.simple import Doing

HINT = "npub, name@domain, nprofile, note, nevent, naddr, event id, or a filter as JSON"


class AddWatch(Form):
    """Does it with the watch to add."""

    def __init__(self, do: Doing, text: str = "", *, taken: Collection[str] = ()) -> None:
        super().__init__(do)
        self._text = text
        self._taken = taken
        self._pasted: Pasted | None = None
        self._named = False

    def compose(self) -> ComposeResult:
        with Vertical(id="add", classes="dialog"):
            yield Label("Watch something", classes="dialog-title")
            yield Input(self._text, placeholder="paste it here", id="target", select_on_focus=False)
            yield Static(HINT, id="what", markup=False)
            yield OptionList(id="queries", compact=True)
            yield Input(placeholder="name", id="name", select_on_focus=False)
            with Horizontal(classes="buttons"):
                yield Button("Add", variant="primary", id="go", disabled=True)
                yield Button("Cancel", id="no")

    def on_mount(self) -> None:
        self.query_one("#target", Input).focus()
        self._read(self._text)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "target":
            self._read(event.value)
        elif event.input.id == "name":
            self._named = event.value != self._suggested()

    def _read(self, text: str) -> None:
        options = self.query_one("#queries", OptionList)
        try:
            self._pasted = read(text)
        except InvalidInput as error:
            self._pasted = None
            self.say(str(error) if text.strip() else HINT, bad=bool(text.strip()))
        else:
            asked = f"{self._pasted.what}: what to count?"
            self.say(" ".join(filter(None, (asked, self._pasted.note))))
        options.clear_options()
        if self._pasted is not None:
            labels = [one.label for one in self._pasted.questions]
            options.add_options(labels or ["what the filter matches"])
            options.highlighted = 0
        self.query_one("#go", Button).disabled = self._pasted is None
        self._suggest()

    def on_option_list_option_highlighted(self) -> None:
        self._suggest()

    def on_option_list_option_selected(self) -> None:
        self._add()

    def _question(self) -> Question | None:
        options = self.query_one("#queries", OptionList)
        if self._pasted is None or not self._pasted.questions:
            return None
        return self._pasted.questions[options.highlighted or 0]

    def _suggested(self) -> str:
        if self._pasted is None:
            return ""
        question = self._question()
        words = [question.query if question else "", self._pasted.short]
        return free_name("-".join(filter(None, words)), self._taken)

    def _suggest(self) -> None:
        if not self._named:
            self.query_one("#name", Input).value = self._suggested()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "target" and self._pasted is not None:
            self.query_one("#queries", OptionList).focus()
        elif event.input.id == "name":
            self._add()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "go":
            self._add()
        else:
            self.dismiss(None)

    def _add(self) -> None:
        if self._pasted is None:
            return
        question = self._question()
        values = {
            "name": self.query_one("#name", Input).value.strip() or self._suggested(),
            "query": question.query if question else None,
            "target": question.target if question else "",
            "filters": self._pasted.filters,
        }
        try:
            spec = msgspec.convert(values, Watch)
        except msgspec.ValidationError as error:
            self.say(str(error), bad=True)
        else:
            self.submit(spec)
