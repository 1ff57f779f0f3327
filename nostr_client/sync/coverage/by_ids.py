"""Find which ids of a filter each relay has, by NIP-77 alone, with few bytes for large sets.

A relay with few ids that the store lacks lists these ids. If one relay lists many, the others are
compared with this relay instead of sending the same long list. The bytes then grow with the
difference. Such a comparison relies on the long list, so a sample of its events is fetched first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.network.waiting import task_group
from nostr_client.sync.coverage.sampling import draw, exist
from nostr_client.sync.mirror import mirror
from nostr_client.sync.options import Mode
from nostr_client.sync.procedure import Syncer
from nostr_client.sync.report import SyncStatus

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import SyncOptions

_IDS: Final = Mode(ids_only=True, keep_ids=True)

_LONG: Final = 2_000
"""Number of ids that the store lacks from which a relay's list is long: 128 KB in hex.

Two relays that differ in 2 % are compared with half the bytes of such a list. A shorter list takes
fewer rounds.
"""

_AT_ONCE: Final = 4
"""Relays to ask at the same time. Each also needs a session with the relay of the long list."""


class IdComparison:
    """Compares relays by ids, one filter after the other. `now` returns Unix seconds.

    `rand` draws the samples of long lists.
    """

    def __init__(
        self,
        store: EventStore | None,
        memory: SyncMemory | None,
        options: SyncOptions | None,
        now: Callable[[], float],
        rand: random.Random,
    ) -> None:
        self._memory = memory
        self._options = options
        self._now = now
        self._rand = rand
        self._syncer = Syncer(store, options=options, memory=memory, now=now)

    async def held(
        self, filter: Filter, relays: Sequence[tuple[str, Relay]], local: frozenset[str]
    ) -> dict[str, frozenset[str]]:
        """Return the ids that each relay has, by its name, without relays whose end is not proven.

        `relays`: (the user's spelling, relay). `local`: ids in the store. The first relay is asked
        alone, then two at a time, then four. As soon as a list is long, the other relays are
        compared with the longest list whose sample came. Raises StoreError. Safe to cancel.
        """
        found: dict[str, frozenset[str]] = {}
        sampled: dict[str, bool] = {}
        named = dict(relays)
        at, size = 0, 1
        while at < len(relays):
            some = relays[at : at + size]
            longest = max(
                (name for name in found if sampled.get(name, True)),
                key=lambda name: len(found[name] - local),
                default=None,
            )
            if longest is not None and len(lacking := found[longest] - local) >= _LONG:
                base = named[longest]
                if longest not in sampled:
                    sampled[longest] = await exist(base, draw(lacking, self._rand), filter)
                if not sampled[longest]:
                    continue  # try the next longest list
                beside = await self._beside(filter, (longest, base), found[longest], some)
                some = [one for one in some if one[0] not in beside]
                found |= beside
            found |= await self._listed(filter, some, local)
            at, size = at + size, min(_AT_ONCE, size * 2)
        return found

    async def _listed(
        self, filter: Filter, relays: Sequence[tuple[str, Relay]], local: frozenset[str]
    ) -> dict[str, frozenset[str]]:
        """Compare relays with the store."""
        if not relays:
            return {}
        report = await self._syncer.sync(filter, relays, _IDS)
        return {
            name: local.difference(one.missing_there).union(one.missing_here)
            for (name, _), one in zip(relays, report.relays, strict=True)
            if one.status is SyncStatus.COMPLETE
        }

    async def _beside(
        self,
        filter: Filter,
        base: tuple[str, Relay],
        ids: frozenset[str],
        relays: Sequence[tuple[str, Relay]],
    ) -> dict[str, frozenset[str]]:
        """Compare relays with one that has `ids`.

        Leave out relays for which it denies one of these ids.
        """
        async with task_group() as group:
            tasks = {
                one[0]: group.create_task(
                    mirror(
                        filter,
                        (base, one),
                        mode=_IDS,
                        options=self._options,
                        memory=self._memory,
                        now=self._now,
                    )
                )
                for one in relays
            }
        reports = {name: task.result() for name, task in tasks.items()}
        return {
            name: ids.difference(one.relays[0].missing_here).union(one.relays[1].missing_here)
            for name, one in reports.items()
            if one.complete and ids.isdisjoint(one.relays[1].missing_here)
        }
