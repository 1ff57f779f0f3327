"""A page about one watch: it asks the agent again when the watch has moved on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.errors import NostrTallyError
from tui.pages.page import Page
from tui.workers import start

if TYPE_CHECKING:
    from agent.api.schema import WatchState


class WatchedPage(Page):
    """The page of the watch that `Host.watched` names; a subclass says what it asks for."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: tuple[str, float | None, str] | None = None
        self._looking = False

    async def fetch(self, name: str) -> None:
        """Ask the agent about the watch, and show the answer. Raises NostrTallyError."""
        raise NotImplementedError

    @property
    def shown(self) -> WatchState | None:
        """The watch; None if there is none of that name."""
        return self.model.watches.get(self.host.watched)

    def look_if_moved(self) -> None:
        """Ask in the background if the watch is not the one that was asked about last."""
        one = self.shown
        if one and _state(one) != self._seen:
            start(self, self.look, "looking", alone=False)

    def look_again(self) -> None:
        """Ask in the background, whether the watch has moved on or not."""
        self._seen = None
        start(self, self.look, "looking", alone=False)

    async def look(self) -> None:
        """Ask about what the model shows now; again if that has moved on meanwhile."""
        if self._looking:
            return
        self._looking = True
        try:
            while (one := self.shown) and self.is_current and not self.model.stale:
                seen = _state(one)
                if seen == self._seen:
                    break
                self._seen = seen
                await self.fetch(one.spec.name)
        except NostrTallyError as error:
            self.host.trouble(str(error), "watch")
        finally:
            self._looking = False


def _state(one: WatchState) -> tuple[str, float | None, str]:
    return one.spec.name, one.updated_at, repr(one.spec)
