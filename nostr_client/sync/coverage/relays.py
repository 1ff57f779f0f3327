"""Run coverage and repair over the relays of one client, and know which the user named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import InvalidInput, NoRelays
from nostr_client.sync.coverage.gathering import Mentions
from nostr_client.sync.coverage.looking import look
from nostr_client.sync.coverage.repair import carry_out, prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.network.outbox import RelayChoice, RelayFinder
    from nostr_client.network.pool import RelayPool
    from nostr_client.network.relay import Relay
    from nostr_client.options import ReadBudget
    from nostr_client.store.base import EventStore
    from nostr_client.sync.coverage.looking import Look
    from nostr_client.sync.coverage.matrix import Coverage
    from nostr_client.sync.coverage.plan import CoveragePlan
    from nostr_client.sync.coverage.repair import RepairReport
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.sent import RepairAttempts


class CoverageRelays:
    """Coverage over the relays of a pool.

    `pubkey`: the user's own key (hex), or None if no event is the user's own.
    """

    def __init__(
        self,
        pool: RelayPool,
        memory: SyncMemory,
        sent: RepairAttempts,
        *,
        store: EventStore | None,
        finder: RelayFinder | None,
        choice: RelayChoice | None,
        pubkey: str | None,
        now: Callable[[], float],
    ) -> None:
        self._pool = pool
        self._memory = memory
        self._sent = sent
        self._store = store
        self._finder = finder
        self._choice = choice
        self._pubkey = pubkey
        self._now = now

    async def look(
        self,
        question: Look,
        named: Sequence[tuple[str, Relay]],
        *,
        written: bool,
        budget: ReadBudget | None,
        options: SyncOptions | None,
    ) -> Coverage:
        """Return a coverage, as `NostrClient.coverage` describes."""
        known = {relay.url for _, relay in named}
        found: list[tuple[str, Relay]] = []
        no_list = ""
        try:
            found = await self._written_by(question.author) if written else []
        except NoRelays as error:
            if not named:
                raise
            no_list = str(error)
        coverage = await look(
            question,
            [*named, *(one for one in found if one[1].url not in known)],
            store=self._store,
            memory=self._memory,
            options=options,
            budget=budget,
            now=self._now,
        )
        return msgspec.structs.replace(coverage, no_list=no_list)

    async def plan(self, coverage: Coverage) -> CoveragePlan:
        """Plan a repair, as `NostrClient.plan_repair` describes."""
        mentions = None
        if self._finder is not None and self._choice is not None:
            mentions = Mentions(self._finder, self._choice, self._stranger)
        return await prepared(
            coverage,
            {name: self._asked(name) for name in coverage.relays},
            pubkey=self._pubkey,
            now=int(self._now()),
            named=self._pool.is_named,
            memory=self._memory,
            sent=self._sent,
            store=self._store,
            mentions=mentions,
        )

    async def carry_out(self, plan: CoveragePlan, options: SyncOptions | None) -> RepairReport:
        """Execute a repair, as `NostrClient.repair` describes."""
        relays = {name: self._asked(name) for name in plan.relays}
        return await carry_out(plan, relays, self._memory, self._sent, options)

    async def _written_by(self, author: str) -> list[tuple[str, Relay]]:
        """Return the relays where an author writes (NIP-65). Raises NoRelays."""
        if self._finder is None:
            raise InvalidInput("to find where an author writes, name an indexer")
        found = await self._finder.written_by(author)
        if not found.relays:
            raise NoRelays(found.lack)
        return [
            (url, self._pool.relay(url, stranger=url in found.strangers)) for url in found.relays
        ]

    def _asked(self, name: str) -> Relay:
        """Return a relay that was asked before. The user need not have named it."""
        known = self._pool.relays.get(normalize(name))
        return self._pool.relay(name) if known is None else known

    def _stranger(self, url: str) -> Relay:
        return self._pool.relay(url, stranger=True)
