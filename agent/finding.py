"""The relays of watches that name none: the read relays of the target's author (NIP-65).

Strangers wrote these lists, so their relays are bounded, checked, and connected to on public
addresses alone. Where no list is found, the defaults are asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent import scheduler
from nostr_client.count.queries import target_of
from nostr_client.outbox import PoolFetch, RelayChoice, RelayFinder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.clock import Clock
    from agent.config.model import RelaysSection
    from agent.watching import Watched
    from nostr_client.count.queries import Query
    from nostr_client.outbox import Chosen
    from nostr_client.pool import RelayPool

KIND: Final = "find"
LANE: Final = "finding"

EVERY_S: Final = 6 * 3600.0
"""People change their lists a few times a year."""

TIMEOUT_S: Final = 10.0


class Finding:
    """Looks lists up where indexers are configured; `found` has what is known, by watch."""

    def __init__(self, clock: Clock, pool: RelayPool) -> None:
        self.found: dict[str, Chosen] = {}
        self._clock = clock
        self._pool = pool
        self._section: RelaysSection | None = None
        self._finder: RelayFinder | None = None

    def configure(self, section: RelaysSection) -> None:
        """Take these indexers, defaults and denied relays; without indexers nothing is found."""
        if section == self._section:
            return
        self._section, self._finder = section, None
        if not section.indexers:
            self.found = {}
            return
        choice = RelayChoice(
            defaults=section.default,
            indexers=section.indexers,
            deny=frozenset(section.denied),
            most=section.most,
            connection=self._pool.options.connection,
        )
        fetch = PoolFetch(self._pool, choice, TIMEOUT_S)
        self._finder = RelayFinder(fetch, choice, now=self._clock.wall)

    def tasks(self) -> list[scheduler.Task]:
        """One task, where there is somewhere to look."""
        if self._finder is None:
            return []
        return [scheduler.Task(f"{KIND} relays", LANE, EVERY_S, backs_off=False)]

    async def look(self, watches: Mapping[str, Watched]) -> bool:
        """Find the relays of those that name none; whether anything is different now."""
        if self._finder is None:
            return False
        lost = {name: one.query for name, one in watches.items() if not one.spec.relays}
        targets = {name: target_of(query) for name, query in lost.items()}
        found = await self._finder.relays_for_many(targets) if targets else {}
        changed, self.found = found != self.found, found
        return changed

    async def relays_for(self, query: Query) -> Chosen | None:
        """The relays of one question that names none; None without indexers."""
        if self._finder is None:
            return None
        return await self._finder.relays_for(target_of(query))
