"""Reads the store as one viewer sees it: without other people's private events.

A filter that names private kinds is asked in parts: public events, and those with the viewer as a
party. A filter without kinds is asked whole, and private events are removed afterwards. Both ways
a limit is filled with visible events and not exceeded, and a count of visible events is exact.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from agent.relay.limits import CountFigures
from nostr_client import hll
from nostr_client.codecs.event import nip01_order
from nostr_client.errors import NostrTallyError
from nostr_client.store.query.json_answers import JsonAnswer
from nostr_client.store.query.select import QueryPage
from nostr_client.store.query.short_answers import is_short_count
from nostr_client.store.query.snapshot import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.privacy import FilterSplit, Viewer
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.snapshot import Snapshot


class VisibleSnapshot:
    """Questions to a snapshot on behalf of `viewer`, which agree with each other.

    Every question may raise InvalidFilter; the maker of the snapshot wraps the errors of SQLite.
    """

    def __init__(self, snapshot: Snapshot, viewer: Viewer) -> None:
        self._snapshot = snapshot
        self._viewer = viewer

    def figures(self, filters: Sequence[Filter], *, registers: bool = False) -> CountFigures:
        """The number of a union, and its registers where they are asked for."""
        split = self._viewer.split(filters)
        if not registers:
            return CountFigures(self._count(split))
        if len(split.plain) == len(filters) == 1:
            return CountFigures(*self._snapshot.figures(split.plain[0]))
        return CountFigures(self._count(split), self._registers(split))

    def _count(self, split: FilterSplit) -> int:
        plain, parted, mixed = split
        asked = [*plain, *self.parts(parted), *mixed]
        count = self._snapshot.count(asked) if asked else 0
        if not self.any_private(mixed):
            return count
        private = self._snapshot.count([self._viewer.private_part(f) for f in mixed])
        own = self.own(mixed)
        return max(0, count - private + (self._snapshot.count(own) if own else 0))

    def _registers(self, split: FilterSplit) -> bytes:
        """The registers of a union of filters that share an offset.

        Registers cannot be subtracted: where private events are in the way, the kinds that are
        held stand in for "any kind", and no event is read.
        """
        plain, parted, mixed = split
        if self.any_private(mixed):
            held = self._snapshot.kinds()
            parted, mixed = [*parted, *(f.replace(kinds=held) for f in mixed)], []
        asked = [*plain, *self.parts(parted), *mixed]
        parts = [self._snapshot.registers(f) for f in asked if not f.matches_nothing]
        return hll.merge(*parts) if parts else bytes(hll.M)

    def parts(self, parted: Sequence[Filter]) -> list[Filter]:
        """What the viewer may see of filters that name private kinds, as filters."""
        public = [part for wanted in parted for part in self._viewer.public_part(wanted)]
        return [*public, *self.own(parted)]

    def own(self, filters: Sequence[Filter]) -> list[Filter]:
        """What the viewer is a party of among the private events of `filters`, as filters."""
        own = [part for wanted in filters for part in self._viewer.own_part(wanted)]
        for wanted in filters:
            shared = self._viewer.shared_part(wanted)
            if shared is not None:
                ids = [event.id for event in self.checked(shared.replace(limit=None))]
                own += [shared.replace(ids=ids)] if ids else []
        return own

    def any_private(self, mixed: Sequence[Filter]) -> bool:
        """Whether `mixed` match a private event at all; most never do."""
        probes = [self._viewer.private_part(f).replace(limit=1) for f in mixed]
        return bool(probes and self._snapshot.query(probes))

    def checked(self, wanted: Filter) -> list[Event]:
        """Up to `wanted.limit` visible events: asks for more and more until there are enough."""
        size = most = wanted.limit
        while True:
            found = self._snapshot.query([wanted.replace(limit=size)])
            shown = [event for event in found if self._viewer.may_see(event)]
            if most is None or size is None or len(shown) >= most or len(found) < size:
                return shown[:most]
            size *= 4


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from numpy.typing import NDArray

    from agent.relay.privacy import Viewer
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.store.base import EventStore
    from nostr_client.store.rows import JsonEvent

    Items = tuple[NDArray[np.uint64], NDArray[np.uint8]]

AT_ONCE_S = 0.004
"""Seconds that the filters of one question may take from the other connections."""

QUERY_S = 30.0
"""Seconds that the store may take for one query: clients wait no longer for a relay."""

PAGE_BYTES = 64 * 1024
"""Bytes that are read and sent together; a larger event is read by itself, when there is room for
it."""

T = TypeVar("T")


class QueryRefused(NostrTallyError):
    """The relay says no; the text is the reason that the client gets."""


class VisibleStore:
    """Questions to `store` on behalf of `viewer`; each raises StoreError or TimeoutError."""

    def __init__(
        self,
        store: EventStore,
        viewer: Viewer,
        room: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """`room`: entered to read one large event for `pages`."""
        self._store = store
        self._viewer = viewer
        self._room = room

    async def events(self, filters: Sequence[Filter]) -> list[Event]:
        """The events of a union, newest first, each filter with its own limit."""
        plain, parted, mixed = self._viewer.split(filters)
        if not await self._any_private(mixed):
            plain, mixed = [*plain, *mixed], []
        found = await _ask(self._store.query(plain)) if plain else []
        if not parted and not mixed:
            return found
        for wanted in parted:
            both = await _ask(self._store.query(await self._parts([wanted])))
            found += both[: wanted.limit]
        for wanted in mixed:
            found += await self._checked(wanted)
        once = {event.id: event for event in found}
        return sorted(once.values(), key=nip01_order)

    def at_once(self, filters: Sequence[Filter]) -> JsonAnswer | None:
        """The events of a union as `events` has them, if found without waiting, else None.

        None also where the filters together take longer than AT_ONCE_S; most take 50 µs each.
        `more`: a limit left out events that the viewer may see.
        """
        if len(filters) == 1:
            return self._one_at_once(filters[0])
        union: dict[str, JsonEvent] = {}
        more = False
        end = monotonic() + AT_ONCE_S
        for wanted in filters:
            found = self._one_at_once(wanted)
            if found is None or monotonic() > end:
                return None
            union.update((event.id, event) for event in found.events)
            more = more or found.more
        return JsonAnswer(sorted(union.values(), key=nip01_order), more)

    def _one_at_once(self, wanted: Filter) -> JsonAnswer | None:
        if wanted.kinds is None:
            return self._checked_at_once(wanted)
        if not self._viewer.private_kinds.isdisjoint(wanted.kinds):
            return None
        return self._store.look_json(wanted)

    def _checked_at_once(self, wanted: Filter) -> JsonAnswer | None:
        """Asks for one event more than the limit, as `more` counts only what may be seen."""
        most = wanted.limit
        found = self._store.look_json(wanted if most is None else wanted.replace(limit=most + 1))
        if found is None:
            return None
        shown = [event for event in found.events if self._shows(event)]
        if found.more and len(shown) < len(found.events):
            return None
        return JsonAnswer(shown[:most], most is not None and len(shown) > most)

    def _shows(self, event: JsonEvent) -> bool:
        private = event.kind in self._viewer.private_kinds
        return not private or self._viewer.may_see(event.parsed())

    async def pages(self, filters: Sequence[Filter]) -> AsyncGenerator[list[JsonEvent]]:
        """As `events`, in parts that are read as they are asked for, so that little is in memory.

        A part has PAGE_BYTES of JSON, or one event, at most. It is the caller's to clear, who may
        wait long before asking for the next. May raise what `room` raises.
        """
        async for page in pages(self._page, filters):
            page.reverse()
            while page:
                yield _part(page)

    async def _page(self, wanted: Filter, skip: frozenset[str]) -> QueryPage[JsonEvent]:
        """The next visible events of one filter; a large one only where there is room for it."""
        _, parted, mixed = self._viewer.split([wanted])
        asked = await self._parts(parted) if parted else [wanted]
        if not asked:
            return QueryPage([])
        page = await _ask(self._store.page_json(asked, PAGE_BYTES, skip, least_one=False))
        if page.more and not page.tied:
            async with self._room():
                page = await _ask(self._store.page_json(asked, PAGE_BYTES, skip))
        if not mixed:
            return page
        return page._replace(events=[one for one in page.events if self._shows(one)])

    async def count(self, filters: Sequence[Filter]) -> int:
        """The exact number of events of a union that the viewer may see."""
        return (await self.figures(filters)).count

    async def figures(self, filters: Sequence[Filter], *, registers: bool = False) -> CountFigures:
        """The number of a union, with its registers where they are asked for, of one snapshot.

        Filters whose registers are asked for share an offset (`limits.shared_offset`).
        """
        return await self._look(lambda shown: shown.figures(filters, registers=registers))

    def figures_at_once(
        self, filters: Sequence[Filter], *, registers: bool = False
    ) -> CountFigures | None:
        """As `figures`, where the store finds them without waiting, else None."""
        if not all(map(is_short_count, filters)):
            return None
        return self._store.look_snapshot(
            lambda found: VisibleSnapshot(found, self._viewer).figures(filters, registers=registers)
        )

    async def registers(self, filters: Sequence[Filter]) -> bytes | None:
        """The registers of a union of filters that share an offset."""
        return (await self.figures(filters, registers=True)).registers

    async def items(self, filters: Sequence[Filter]) -> Items:
        """Timestamps and ids of a union, ordered, for negentropy; each filter with its limit."""
        plain, parted, mixed = self._viewer.split(filters)
        if not await self._any_private(mixed):
            plain, mixed = [*plain, *mixed], []
        taken = [await self._taken([wanted]) for wanted in plain]
        taken += [await self._parted_items(wanted) for wanted in parted]
        taken += [await self._checked_items(wanted) for wanted in mixed]
        return _union(taken)

    async def _taken(self, filters: Sequence[Filter]) -> Items:
        return _union([await _ask(self._store.negentropy_items(f)) for f in filters])

    async def _parted_items(self, wanted: Filter) -> Items:
        return _newest(await self._taken(await self._parts([wanted])), wanted.limit)

    async def _checked_items(self, wanted: Filter) -> Items:
        """The items of `wanted`, which names no kinds, without other people's private events."""
        private = self._viewer.private_part(wanted).replace(limit=None)
        most = wanted.limit
        if most is not None:  # as many more as may be removed
            wanted = wanted.replace(limit=most + await _ask(self._store.count([private])))
        hidden = await self._taken([private])
        shown = await self._taken(await self._own([wanted.replace(limit=None)]))
        return _newest(_without(await self._taken([wanted]), _without(hidden, shown)), most)

    async def _parts(self, parted: Sequence[Filter]) -> list[Filter]:
        return await self._look(lambda shown: shown.parts(parted))

    async def _own(self, filters: Sequence[Filter]) -> list[Filter]:
        return await self._look(lambda shown: shown.own(filters))

    async def _any_private(self, mixed: Sequence[Filter]) -> bool:
        return bool(mixed) and await self._look(lambda shown: shown.any_private(mixed))

    async def _checked(self, wanted: Filter) -> list[Event]:
        return await self._look(lambda shown: shown.checked(wanted))

    async def _look(self, work: Callable[[VisibleSnapshot], T]) -> T:
        """Ask several questions of one snapshot."""
        return await _ask(
            self._store.snapshot(lambda found: work(VisibleSnapshot(found, self._viewer)))
        )


def _part(page: list[JsonEvent]) -> list[JsonEvent]:
    """Take PAGE_BYTES of JSON, or one event, from the end of a page whose first events are last."""
    part = [page.pop()]
    left = PAGE_BYTES - len(part[0].json)
    while page and (left := left - len(page[-1].json)) >= 0:
        part.append(page.pop())
    return part


async def _ask(question: Awaitable[T]) -> T:
    async with asyncio.timeout(QUERY_S):
        return await question


def _keys(items: Items) -> NDArray[np.void]:
    ids = np.ascontiguousarray(items[1])
    return ids.view(np.dtype((np.void, 32))).reshape(-1)


def _union(parts: Sequence[Items]) -> Items:
    if not parts:
        return np.empty(0, np.uint64), np.empty((0, 32), np.uint8)
    if len(parts) == 1:
        return parts[0]
    both = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    _, first = np.unique(_keys(both), return_index=True)
    stamps, ids = both[0][first], both[1][first]  # ordered by id
    order = np.argsort(stamps, kind="stable")
    return stamps[order], ids[order]


def _newest(items: Items, most: int | None) -> Items:
    """The newest of `items`, the lower id first at the same second, in their order."""
    if most is None or len(items[0]) <= most:
        return items
    newest_first = np.argsort(-items[0].astype(np.int64), kind="stable")
    kept = np.sort(newest_first[:most])
    return items[0][kept], items[1][kept]


def _without(items: Items, hidden: Items) -> Items:
    keep = ~np.isin(_keys(items), _keys(hidden))
    return items[0][keep], items[1][keep]
