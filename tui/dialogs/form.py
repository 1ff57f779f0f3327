"""What all forms do: they stay, with what was typed, until what they ask for is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Static

from nostr_client.errors import NostrTallyError
from tui import format
from tui.work import start

if TYPE_CHECKING:
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
