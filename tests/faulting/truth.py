"""What a store must hold, must not hold, and may hold, after writes that were answered or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.service.parts import open_for_reindex
from nostr_client.codecs.filters import Filter
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.store.index.keeper import Index
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STREAM, SUBJECT = "app", "app.hits"


class Truth:
    """Events by what was answered about them, and increments; what is in neither set is open."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.absent: set[str] = set()
        self.counted = 0
        self.uncounted = 0
        """Increments that were neither acknowledged nor refused."""

    def acknowledged(self, ids: Iterable[str]) -> None:
        self.held.update(ids)
        self.absent.difference_update(ids)

    def refused(self, ids: Iterable[str]) -> None:
        self.absent.update(set(ids) - self.held)

    def removed(self, ids: Iterable[str]) -> None:
        self.held.difference_update(ids)
        self.absent.update(ids)

    def unanswered(self, ids: Iterable[str]) -> None:
        """Nobody may say of these whether they are stored."""
        self.held.difference_update(ids)
        self.absent.difference_update(ids)

    async def check(self, path: Path) -> set[str]:
        """Open a store as the agent does, check all of it; the ids of its events."""
        async with await SqliteStore.open(path, read_only=True) as store:
            assert (await store.verify()).problems == ()
        async with await open_for_reindex(path) as store:
            await Index.open(store)
            assert (await store.verify()).problems == ()
            held = {event.id for event in await store.query([Filter()])}
            value = await _value(store)
        assert self.held <= held, "what was acknowledged is lost"
        assert not self.absent & held, "what was refused is stored"
        assert self.counted <= value <= self.counted + self.uncounted
        self.counted, self.uncounted = value, 0
        return held


async def _value(store: SqliteStore) -> int:
    counters = await SqliteCounterStore.over(store.database)
    found = [one async for one in (await counters.counters(STREAM)).load_many(SUBJECT)]
    return dict(found).get(SUBJECT, 0)
