"""Sources over Nostr are read as soon as their event is stored, whoever brought it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from nostr_client import kinds, nip19

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from agent.config.model import SourceSection
    from nostr_client.event import Event
    from nostr_client.store.base import Outcome

SOON_S: Final = 0.2
"""The hook runs before the commit: a reader that came at once would not see the event."""


class Arrivals:
    """A hook for `SqliteStore.on_batch`; `nudge` gets names of sources, on the event loop."""

    def __init__(self, nudge: Callable[[str], None]) -> None:
        self._nudge = nudge
        self._wanted: dict[tuple[str, str], tuple[str, ...]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def configure(self, sections: Iterable[SourceSection]) -> None:
        """Wait for the events of these sources."""
        self._loop = asyncio.get_running_loop()
        wanted: dict[tuple[str, str], tuple[str, ...]] = {}
        for one in sections:
            if one.pubkey:
                key = nip19.decode_pubkey(one.pubkey), one.of or one.stream
                wanted[key] = (*wanted.get(key, ()), one.name)
        self._wanted = wanted

    def hook(self, conn: sqlite3.Connection, pairs: Sequence[tuple[Event, Outcome]]) -> None:
        """Look through a batch, in the writer's thread."""
        wanted, loop = self._wanted, self._loop
        if not wanted or loop is None:
            return
        for event, outcome in pairs:
            if event.kind == kinds.APP_DATA and outcome.stored:
                for name in wanted.get((event.pubkey, event.first_tag("d") or ""), ()):
                    loop.call_soon_threadsafe(self._nudge, name)
