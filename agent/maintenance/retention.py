"""Removes events by retention rules, expired events and old history, in small steps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from agent.api import schema
from nostr_client.codecs import nip19
from nostr_client.codecs.display import seconds
from nostr_client.codecs.filters import Filter
from nostr_client.watch import points, scheduler

if TYPE_CHECKING:
    from agent.config.model import RetentionSection
    from agent.log import Log
    from agent.maintenance.index import Indexing
    from agent.specs import RetentionRule
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch.clock import Clock

KIND: Final = "house"
LANE: Final = "house"
KEEPING: Final = "keeping"
"""The one task of this kind."""

KINDS_OF_DELETION: Final = frozenset({5, 62})
"""Never removed by age: without them, what they deleted would come back with the next sync."""


class RetentionRunner:
    """One task that applies the rules again and again."""

    def __init__(self, clock: Clock, log: Log, store: SqliteStore, index: Indexing | None) -> None:
        self.ran_at: float | None = None
        self.removed = 0
        self.removed_total = 0
        self.section: RetentionSection | None = None
        self._clock = clock
        self._log = log
        self._store = store
        self._index = index

    def tasks(self) -> list[scheduler.Task]:
        """The one task."""
        every = 3600.0 if self.section is None else seconds(self.section.interval)
        return [scheduler.Task(f"{KIND} {KEEPING}", LANE, every, backs_off=False)]

    async def last(self) -> dict[str, float]:
        """Nothing is known of an earlier run: it is done at once."""
        return {}

    async def run(self, _: str) -> bool:
        """Apply every rule; each step is a transaction of its own, with others in between."""
        now = self._clock.wall()
        section = self.section
        removed = await self._store.sweep()
        for rule in () if section is None else section.rules:
            assert section is not None
            removed += await self._apply(rule, now, section.step)
        step = 200 if section is None else section.step
        await self._thin(now, step)
        await self._store.fingerprints.tidy()
        if self._index is not None:
            await self._index.tidy()
        self.ran_at, self.removed = now, removed
        self.removed_total += removed
        if removed:
            self._log.info("removed", events=removed)
        return True

    async def _thin(self, now: float, step: int) -> None:
        """Fold old history, also of watches that are no longer asked."""
        after: str | None = ""
        while after is not None:
            work = partial(points.thin_next, now=now, after=after, most=step)
            after = await self._store.database.write(work)

    async def _apply(self, rule: RetentionRule, now: float, step: int) -> int:
        until = int(now - seconds(rule.older_than))
        if until < 0:
            return 0
        asked = Filter(
            kinds=rule.kinds or None,
            authors=[nip19.decode_pubkey(key) for key in rule.authors] or None,
            until=until,
        )
        keep = {nip19.decode_pubkey(key) for key in rule.keep_authors}
        removed, ids = 0, []
        async for event in self._store.stream([asked]):
            if event.pubkey in keep or event.kind in KINDS_OF_DELETION:
                continue
            ids.append(event.id)
            if len(ids) >= step:
                removed += await self._store.delete([Filter(ids=ids)])
                ids = []
        return removed + (await self._store.delete([Filter(ids=ids)]) if ids else 0)

    def shown(self) -> schema.Retention:
        """The rules and the newest run, as the API shows them."""
        return schema.Retention(
            rules=() if self.section is None else self.section.rules,
            ran_at=self.ran_at,
            removed=self.removed,
            removed_total=self.removed_total,
        )
