"""What is remembered about relays between syncs: who refuses NIP-77, and ids that are settled.

An id is settled on one side of one relay when asking again would change nothing for a while: the
relay named it and does not send it, or refuses to take it. Under ANY_RELAY: it is no event that we
asked for, whoever sends it. What the store's own rules left out, the store itself knows.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

from nostr_client.store.sqlite import SqliteStore
from nostr_client.store.tried import TriedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.store.base import EventStore

ANY_RELAY: Final = ""
_MOST: Final = 200_000
"""Ids that a memory without a store keeps, about 30 MB; then it begins anew."""


class Side(IntEnum):
    """Which way an id would go."""

    DOWN = 0
    UP = 1


class SyncMemory(Protocol):
    """See the module. Times to live are seconds; reasons are text for people."""

    async def refusal(self, relay: str) -> str | None:
        """Why the relay is not asked by NIP-77 now; None: ask it."""
        ...

    async def refuse(self, relay: str, reason: str, ttl: float) -> None:
        """The relay refuses NIP-77."""
        ...

    async def settled(self, relay: str, side: Side, ids: Sequence[bytes]) -> set[bytes]:
        """Those ids that are settled at the relay, or at any."""
        ...

    async def settle(self, relay: str, side: Side, ids: Sequence[bytes], ttl: float) -> None:
        """Do not try these again for a while."""
        ...


class LocalMemory:
    """Remembers until the process ends. `now` gives Unix seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._refusals: dict[str, tuple[str, float]] = {}
        self._settled: dict[tuple[str, Side, bytes], float] = {}

    async def refusal(self, relay: str) -> str | None:
        reason, until = self._refusals.get(relay, (None, 0.0))
        return reason if self._now() < until else None

    async def refuse(self, relay: str, reason: str, ttl: float) -> None:
        self._refusals[relay] = (reason, self._now() + ttl)

    async def settled(self, relay: str, side: Side, ids: Sequence[bytes]) -> set[bytes]:
        now, found = self._now(), self._settled
        return {
            key
            for key in ids
            if max(found.get((relay, side, key), 0), found.get((ANY_RELAY, side, key), 0)) > now
        }

    async def settle(self, relay: str, side: Side, ids: Sequence[bytes], ttl: float) -> None:
        if len(self._settled) + len(ids) > _MOST:
            self._settled.clear()
        until = self._now() + ttl
        self._settled.update(((relay, side, key), until) for key in ids)


class StoredMemory:
    """Remembers in the store's own file. `now` gives Unix seconds."""

    def __init__(self, table: TriedTable, now: Callable[[], float]) -> None:
        self._table = table
        self._now = now

    async def refusal(self, relay: str) -> str | None:
        return await self._table.refusal(relay, int(self._now()))

    async def refuse(self, relay: str, reason: str, ttl: float) -> None:
        await self._table.refuse(relay, reason, int(self._now() + ttl))

    async def settled(self, relay: str, side: Side, ids: Sequence[bytes]) -> set[bytes]:
        return await self._table.tried((relay, ANY_RELAY), side, ids, int(self._now()))

    async def settle(self, relay: str, side: Side, ids: Sequence[bytes], ttl: float) -> None:
        await self._table.remember(relay, side, ids, int(self._now() + ttl))


def memory_of(store: EventStore | None, now: Callable[[], float]) -> SyncMemory:
    """A memory in the store's file where it has one that may be written, else for this process."""
    if isinstance(store, SqliteStore) and not store.database.read_only:
        return StoredMemory(TriedTable(store.database), now)
    return LocalMemory(now)
