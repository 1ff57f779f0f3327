"""Find whom zaps may pay: fetch their targets, and read author and splits.

An identifier's author hint proves nothing; the verified event does (NIP-57).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.references import address_of, receivers
from nostr_client.count.queries import NO_TARGET
from nostr_client.errors import RelayError
from nostr_client.network.waiting import task_group
from nostr_client.options import ReadBudget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.count.queries import Query
    from nostr_client.count.reading.events import LookUp
    from nostr_client.network.relay import Relay

MOST: Final = 10_000
"""Targets kept in memory: some 200 bytes each."""

MOST_AT_ONCE: Final = 1_000
"""Targets that are looked up in one count: some 1 MB of events."""

IDS_AT_ONCE: Final = 100
"""Ids in one filter: relays cap filters at 100 to 1,000 values."""

FILTERS_AT_ONCE: Final = 10
"""Filters in one REQ: the usual maximum of relays."""

AGAIN: Final = 3600.0
"""Seconds after which a target that no relay has is looked up again."""


class Recipients:
    """Finds whom zaps of targets may pay, and caches the targets' answers for its lifetime.

    A target is an event id or an address. The event of an id never changes. A newer version of an
    address may name other splits, which count only in the next process.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._missed: OrderedDict[str, float] = OrderedDict()

    async def resolve(self, query: Query, relays: Sequence[Relay], seconds: float) -> Query:
        """Return the query with its receivers, or unchanged if no relay sends the target in time.

        A relay's failure is not raised. Safe to cancel.
        """
        if not query.needs_target or query.target is None:
            return query
        if query.target not in self._known:
            found = await _fetch(query.target, relays, seconds)
            if found is None:
                return query
            self._learn(query.target, found)
        return msgspec.structs.replace(query, receivers=self._known[query.target])

    def within(self, relays: Sequence[Relay], seconds: float, budget: ReadBudget) -> LookUp:
        """Return a function for all relays of one question, which share the seconds for look-ups.

        It returns whom the zaps of each target may pay; targets that no relay has are left out.
        Each relay is asked for what is still missing, within `budget` in all. A relay's failure is
        not raised, and it is safe to cancel.
        """
        looking, left = asyncio.Lock(), seconds

        async def look_up(targets: Collection[str]) -> Mapping[str, frozenset[str]]:
            nonlocal left
            loop = asyncio.get_running_loop()
            async with looking:  # the second relay finds what was looked up for the first
                began = loop.time()
                try:
                    await self._look(targets, relays, left, budget)
                finally:
                    left -= loop.time() - began
            return {one: self._known[one] for one in targets if one in self._known}

        return look_up

    async def _look(
        self, targets: Collection[str], relays: Sequence[Relay], seconds: float, budget: ReadBudget
    ) -> None:
        now = asyncio.get_running_loop().time()
        end, left = now + seconds, budget.bytes
        known = (one for one in targets if one != NO_TARGET)
        missing = [one for one in known if self._is_due(one, now)][:MOST_AT_ONCE]
        for relay in relays:
            for batch in list(_batches(missing)):
                share = end - asyncio.get_running_loop().time()
                if share <= 0 or left <= 0:
                    return
                asked = ReadBudget(bytes=left, events=budget.events)
                events, size = await _read(relay, _filters_of(batch), share / 2, asked)
                left -= size
                for event in sorted(events, key=lambda e: (e.created_at, e.id)):
                    self._learn_any(event, batch)
            missing = [one for one in missing if one not in self._known]
        for one in missing:
            self._missed[one] = now
        _bound(self._missed)

    def _is_due(self, target: str, now: float) -> bool:
        missed = self._missed.get(target)
        return target not in self._known and (missed is None or now - missed >= AGAIN)

    def _learn_any(self, event: Event, batch: Iterable[str]) -> None:
        for name in {event.id, address_of(event)}.intersection(batch):
            self._learn(name, event)

    def _learn(self, target: str, event: Event) -> None:
        self._missed.pop(target, None)
        self._known[target] = receivers(event)
        _bound(self._known)


def _bound(kept: OrderedDict[str, float] | OrderedDict[str, frozenset[str]]) -> None:
    while len(kept) > MOST:
        kept.popitem(last=False)


async def _fetch(target: str, relays: Sequence[Relay], seconds: float) -> Event | None:
    """Return the newest version of any relay; of an id the first answer, as it cannot differ."""
    asked = _filters_of([target])
    newest: Event | None = None
    async with task_group() as group:
        tasks = [group.create_task(_read(relay, asked, seconds)) for relay in relays]
        for done in asyncio.as_completed(tasks):
            for event in (await done)[0]:
                if newest is None or event.created_at > newest.created_at:
                    newest = event
            if newest is not None and ":" not in target:
                for task in tasks:
                    task.cancel()
                break
    return newest


async def _read(
    relay: Relay, asked: Sequence[Filter], seconds: float, budget: ReadBudget | None = None
) -> tuple[list[Event], int]:
    """Matching events of one relay, and their size in bytes."""
    try:
        page = await relay.fetch(asked, seconds, budget=budget, partial=True)
    except RelayError:
        return [], 0
    events = [one.event for one in page.events if any(f.matches(one.event) for f in asked)]
    return events, page.bytes


def _batches(targets: Sequence[str]) -> Iterator[Sequence[str]]:
    """Return targets for one REQ each: ids together, as they share a filter, and addresses."""
    ids = [one for one in targets if ":" not in one]
    addresses = [one for one in targets if ":" in one]
    for listed, size in ((ids, IDS_AT_ONCE), (addresses, FILTERS_AT_ONCE)):
        for start in range(0, len(listed), size):
            yield listed[start : start + size]


def _filters_of(targets: Sequence[str]) -> list[Filter]:
    if ":" not in targets[0]:
        return [Filter(ids=targets)]
    parts = (target.split(":", 2) for target in targets)
    return [
        Filter(kinds=[int(kind)], authors=[author], tags={"#d": [identifier]}, limit=1)
        for kind, author, identifier in parts
    ]
