"""What can be done: a value for each action; bindings, footer, help and palette are made of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.binding import Binding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.binding import BindingType

    from tui.app import TallyApp

Deed = Callable[["TallyApp", list[str]], Awaitable[None]]

_SHOWN: Final = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "plus": "+",
    "escape": "esc",
    "delete": "del",
}


class Action(NamedTuple):
    """Something that can be done.

    `name`: as on the command line, and in the palette after a colon; `usage`: the words after it.
    `keys`: Textual's names. `pages`: where the keys work; none: everywhere. `footer`: the highest
    stand in the footer. `writes`: its route needs the manage token; a session that only reads does
    not have it.
    """

    name: str
    keys: str
    title: str
    help: str
    run: Deed
    pages: tuple[str, ...] = ()
    usage: str = ""
    footer: int = 0
    writes: bool = False

    @property
    def key(self) -> str:
        """The first key, as people know it."""
        first = self.keys.split(",")[0]
        return _SHOWN.get(first, first.replace("ctrl+", "^"))

    def on(self, page: str) -> bool:
        """Whether its keys work on a page."""
        return not self.pages or page in self.pages


def bindings(actions: Iterable[Action], page: str | None) -> list[BindingType]:
    """The keys of a page, or with None those that work everywhere."""
    return [
        Binding(one.keys, f"app.do({one.name!r})", one.title, show=False)
        for one in actions
        if (page in one.pages if page is not None else not one.pages)
    ]
