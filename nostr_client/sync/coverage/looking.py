"""Ask relays for one author's events: by ids if the relay supports NIP-77, else by reading events.

Replaceable kinds and deletions are read, because their content decides which ids count. All other
kinds are compared by ids without a download. Then a sample of the ids that one relay alone names is
fetched. A relay that cannot compare, or stops before the end, is read within a budget.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import DELETION, VANISH, has_versions
from nostr_client.network.relay_state import RelayStatus
from nostr_client.network.waiting import task_group
from nostr_client.options import ReadBudget
from nostr_client.store.rules import is_deletable, vanishes_here
from nostr_client.sync.coverage.by_ids import IdComparison
from nostr_client.sync.coverage.matrix import (
    READ,
    Coverage,
    CoverageCell,
    DeletedIds,
    SampleTest,
    covered,
)
from nostr_client.sync.coverage.reading import read_held
from nostr_client.sync.coverage.sampling import sampled
from nostr_client.sync.coverage.unmoved import (
    is_expired,
    is_kept_back,
    looked_up,
    stays,
    unread,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import SyncOptions

KINDS: Final = (0, 1, 3, 5, 6, 7, 16, 62, 1111, 9802, 10002, 30023)
"""Kinds that people write and want to keep: profile, notes, follows, deletions, reposts, reactions,
requests to vanish, comments, highlights, relay lists and articles."""

MOST_VANISHED: Final = 100
"""Events from before a request to vanish after which reading stops.

A few show that the relay ignores the request.
"""


_TRIES: Final = 3
"""Comparisons of one kind by ids while the store changes. After these, events are read instead."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Question of a coverage: an author (hex), kinds, and a start in Unix seconds (None: all)."""

    author: str
    kinds: tuple[int, ...] = KINDS
    since: int | None = None

    def of(self, kind: int) -> Filter:
        """Return the filter of one kind."""
        return Filter(authors=[self.author], kinds=[kind], since=self.since)


async def look(
    question: Look,
    relays: Sequence[tuple[str, Relay]],
    *,
    store: EventStore | None = None,
    memory: SyncMemory | None = None,
    options: SyncOptions | None = None,
    budget: ReadBudget | None = None,
    now: Callable[[], float] = time.time,
    rand: random.Random | None = None,
) -> Coverage:
    """Return the matrix of the author's events on `relays`: pairs of the user's spelling and a
    relay.

    `store`: its events count as known, and relays do not send them again. `budget`: the most to
    read of one relay and kind. `rand` draws the samples that test the ids of one relay alone. By
    default nobody can predict them. A failure of a relay is a reason in its cell, and not an
    exception. Raises StoreError. Safe to cancel.
    """
    looking = _Looking(question, relays, store, budget or ReadBudget(), int(now()))
    rand = rand or random.SystemRandom()
    ids = IdComparison(store, memory, options, now, rand)
    # Requests to delete and to vanish decide which events count, and which a repair may send.
    for kind in (*question.kinds, *sorted(READ.difference(question.kinds))):
        await looking.kind(kind, ids)
    await looking.vanished()
    await looking.test(rand)
    await looking.unmoved()
    return looking.coverage()


class _Looking:
    """Compares relays once, kind by kind, with all relays at the same time."""

    def __init__(
        self,
        question: Look,
        relays: Sequence[tuple[str, Relay]],
        store: EventStore | None,
        budget: ReadBudget,
        now: int,
    ) -> None:
        self._now = now
        self._question = question
        self._relays = relays
        self._store = store
        self._budget = budget
        self._cells: dict[str, dict[int, CoverageCell]] = {name: {} for name, _ in relays}
        self._local: dict[int, frozenset[str]] = {}
        self._events: dict[str, Event] = {}
        self._tested = SampleTest()
        self._vanished: dict[str, frozenset[str]] = {}
        self._vanish_doubt: dict[str, str] = {}
        self._out: dict[str, str] = {}
        """Why a relay gets no more requests, because it cannot be reached."""

    async def kind(self, kind: int, ids: IdComparison) -> None:
        """Compare one kind."""
        filter = self._question.of(kind)
        await self._look_here(kind, filter)
        left = self._reachable(kind)
        if not is_read(kind):
            left = await self._by_ids(kind, filter, ids, left)
        async with task_group() as group:
            for name, relay in left:
                group.create_task(self._by_events(name, relay, kind, filter))

    async def vanished(self) -> None:
        """Ask each relay from which the author vanished for events from before the request.

        An id has no time, so a few of these events are read.
        """
        async with task_group() as group:
            for name, relay in self._relays:
                until = self._vanished_until(relay.url)
                if until is not None and name not in self._out:
                    group.create_task(self._serves_still(name, relay, until))

    def _vanished_until(self, url: str) -> int | None:
        """Return the time of the newest request to vanish from a relay, in Unix seconds."""
        named = (one for one in self._events.values() if one.kind == VANISH)
        return max((one.created_at for one in named if vanishes_here(one, {url})), default=None)

    async def _serves_still(self, name: str, relay: Relay, until: int) -> None:
        asked = self._question
        kinds = [kind for kind in asked.kinds if is_deletable(kind)]
        if not kinds:
            return
        filter = Filter(authors=[asked.author], kinds=kinds, since=asked.since, until=until)
        held = await read_held(relay, filter, ReadBudget(events=MOST_VANISHED))
        self._vanished[name] = frozenset(held.events)
        if held.why:
            self._vanish_doubt[name] = held.why

    async def test(self, rand: random.Random) -> None:
        """Fetch samples of the ids that one relay alone names, without deleted ones."""
        gone = DeletedIds.of(one for one in self._events.values() if one.kind == DELETION)
        found = await sampled(
            self._cells,
            {kind: self._question.of(kind) for kind in self._question.kinds},
            dict(self._relays),
            sure=gone.ids.union(self._events, *self._local.values()),
            rand=rand,
        )
        self._tested = found.tested
        self._take(found.events.values())

    async def unmoved(self) -> None:
        """Look up events that some relay lacks, to find those that no repair moves."""
        gaps, asked = unread(self.coverage()), self._question
        found = await looked_up(gaps, dict(self._relays), self._store)
        self._take(one for one in found if asked.of(one.kind).matches(one))

    def coverage(self) -> Coverage:
        """Return the matrix of the answers."""
        known = self._events.values()
        return covered(
            self._question.author,
            self._cells,
            self._question.kinds,
            local=self._local,
            events=self._events,
            tested=self._tested,
            vanished=self._vanished,
            vanish_doubt=self._vanish_doubt,
            protected=frozenset(one.id for one in known if is_kept_back(one)),
            expired=frozenset(one.id for one in known if is_expired(one, self._now)),
            since=self._question.since,
        )

    async def _look_here(self, kind: int, filter: Filter) -> None:
        """Note the ids in the store."""
        if self._store is None:
            return
        if is_read(kind):
            events = await self._store.query([filter])
            self._take(events)
            self._local[kind] = frozenset(one.id for one in events)
        else:
            _, ids = await self._store.negentropy_items(filter)
            self._local[kind] = frozenset(bytes(row).hex() for row in ids)

    def _reachable(self, kind: int) -> list[tuple[str, Relay]]:
        """Return the relays to ask. Give each other relay an empty cell."""
        for name, why in self._out.items():
            self._cells[name][kind] = CoverageCell(why=why)
        return [(name, relay) for name, relay in self._relays if name not in self._out]

    async def _by_ids(
        self, kind: int, filter: Filter, ids: IdComparison, relays: Sequence[tuple[str, Relay]]
    ) -> list[tuple[str, Relay]]:
        """Compare by NIP-77. Return the relays that did not reach the end.

        Ids of a relay are known relative to the store's ids, and a sync may change the store
        meanwhile.
        """
        largest_first = sorted(relays, key=lambda one: -self._known_of(one[0]))
        for _ in range(_TRIES):
            local = self._local.get(kind, frozenset())
            found = await ids.held(filter, largest_first, local)
            await self._look_here(kind, filter)
            if local == self._local.get(kind, frozenset()):
                break
        else:
            found = {}
        for name, held in found.items():
            self._cells[name][kind] = CoverageCell(held=held, whole=True, by="ids")
        return [one for one in relays if one[0] not in found]

    def _known_of(self, name: str) -> int:
        """Return how many events of the kinds so far a relay has."""
        return sum(len(one.held) for one in self._cells[name].values())

    async def _by_events(self, name: str, relay: Relay, kind: int, filter: Filter) -> None:
        held = await read_held(relay, filter, self._budget)
        if held.why and not held.events and relay.status is not RelayStatus.CONNECTED:
            self._out[name] = held.why
        taken = held.events.values()
        self._take(one for one in taken if is_read(kind) or stays(one, self._now))
        self._cells[name][kind] = CoverageCell(
            held=frozenset(held.events), whole=not held.why, by="events", why=held.why
        )

    def _take(self, events: Iterable[Event]) -> None:
        self._events.update((one.id, one) for one in events)


def is_read(kind: int) -> bool:
    """Return True if events of a kind are read because their content decides which ids count."""
    return kind in READ or has_versions(kind)
