"""Pass keys on one after the other: each is done before the next goes to what has the focus then.

Textual hands every key on at once to what has the focus at that time: of `/zaps`, typed fast, the
letters would go to the table, where `a` and `x` are actions, before the filter's line is there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from textual.events import Event, Key, Paste
from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import App

MOST: Final = 1000
"""Keys that may wait; more than that nobody typed."""

LOST_S: Final = 0.5
"""After so long a key counts as done: what had it may have gone without a word."""


class KeyDone(Message, bubble=True):
    """Follows a key the same way, from what has the focus up to the application."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class KeyQueue:
    """Keys and pastes that wait; `pass_on` gives an event to what it is for."""

    def __init__(self, app: App[Any], pass_on: Callable[[Event], Awaitable[None]]) -> None:
        self.waiting: deque[Event] = deque(maxlen=MOST)
        self._app = app
        self._pass_on = pass_on
        self._number = 0
        self._is_under_way = False

    def takes(self, event: Event) -> bool:
        """Whether this is about an event: it was typed, and goes its way for the first time."""
        return isinstance(event, Key | Paste) and not event.is_forwarded

    async def take(self, event: Event) -> None:
        """Pass it on, at once or when what was typed before is done."""
        if self._is_under_way:
            self.waiting.append(event)
        else:
            await self._go(event)

    async def done(self, number: int) -> None:
        """One is done: the next, if there is one and this was not given up already."""
        if number == self._number:
            self._is_under_way = False
            if self.waiting:
                await self._go(self.waiting.popleft())

    async def _go(self, event: Event) -> None:
        self._is_under_way = True
        self._number += 1
        number = self._number
        await self._pass_on(event)
        (self._app.focused or self._app.screen).post_message(KeyDone(number))
        self._app.set_timer(LOST_S, lambda: self.done(number))
