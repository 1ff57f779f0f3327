"""Closes pooled relays that no task uses any more, as those of one count or a removed watch.

A relay that no task needs at two rounds in a row, and that was sent nothing in between, is closed
and removed; the next request opens it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from nostr_client.network.pool import RelayPool


class Sums(NamedTuple):
    """Sums over closed relays, so that totals never fall."""

    bytes_received: int = 0
    bytes_sent: int = 0
    faults: int = 0


class RelayEviction:
    """Closes idle relays of one pool, one `round` at a time."""

    def __init__(self, pool: RelayPool) -> None:
        self.gone = Sums()
        self._pool = pool
        self._idle: dict[str, int] = {}

    async def round(self, needed: Collection[str]) -> list[str]:
        """Close relays that were not needed the last time either; return their URLs."""
        relays = self._pool.relays
        idle = {url: relays[url].stats.bytes_sent for url in relays.keys() - set(needed)}
        left = sorted(url for url, sent in idle.items() if self._idle.get(url) == sent)
        self._idle = {url: sent for url, sent in idle.items() if url not in left}
        for url in left:
            stats = relays[url].stats
            sums = (stats.bytes_received, stats.bytes_sent, stats.faults)
            self.gone = Sums(*(a + b for a, b in zip(self.gone, sums, strict=True)))
            await self._pool.remove(url)
        return left
