"""A page about one watch: it asks the agent again when the watch has moved on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nostr_client.errors import NostrTallyError
from tui.host import start
from tui.pages.page import LOOK_EVERY_S, Page

if TYPE_CHECKING:
    from agent.api.schema import WatchState


class WatchedPage(Page):
    """The page of the watch that `Host.watched` names; a subclass says what it asks for."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: tuple[str, float | None, str] | None = None
        self._looking = False
        self.looked_at = 0.0
        """When the agent was asked last, by the monotonic clock."""

    async def fetch(self, name: str) -> None:
        """Ask the agent about the watch, and show the answer. Raises NostrTallyError."""
        raise NotImplementedError

    @property
    def shown(self) -> WatchState | None:
        """The watch; None if there is none of that name."""
        return self.model.watches.get(self.host.watched)

    def look_if_moved(self) -> None:
        """Ask in the background if the watch is not the one that was asked about last.

        A number that moves fast is asked about with the next tick.
        """
        one = self.shown
        if one and self._is_due(one):
            start(self, self.look, "looking", alone=False)

    def tick(self) -> None:
        """A second has passed: what moved since is asked about."""
        super().tick()
        self.look_if_moved()

    def _is_due(self, one: WatchState) -> bool:
        """Whether to ask now: at once about another watch or definition, else once a second."""
        state, seen = _state(one), self._seen
        if seen is None or (state[0], state[2]) != (seen[0], seen[2]):
            return True
        return state != seen and time.monotonic() - self.looked_at >= LOOK_EVERY_S

    def look_again(self) -> None:
        """Ask in the background, whether the watch has moved on or not."""
        self._seen = None
        start(self, self.look, "looking", alone=False)

    async def look(self) -> None:
        """Ask about what the model shows now; again if that is another watch by then."""
        if self._looking:
            return
        self._looking = True
        try:
            while (one := self.shown) and self._is_due(one):
                if not self.is_current or self.model.stale:
                    break
                self._seen, self.looked_at = _state(one), time.monotonic()
                await self.fetch(one.spec.name)
        except NostrTallyError as error:
            self.host.trouble(str(error), "watch")
        finally:
            self._looking = False


def _state(one: WatchState) -> tuple[str, float | None, str]:
    return one.spec.name, one.updated_at, repr(one.spec)
