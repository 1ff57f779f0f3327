"""The known events of one relay for one query, without their contents, and the mark."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from nostr_client.codecs.event import nip01_order
from nostr_client.count.claims.coverage import Drift, EventChanges, ReadCoverage
from nostr_client.count.merge import Reading, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from nostr_client.count.claims.coverage import HeldEvent, Update
    from nostr_client.count.merge import Retracted


T = TypeVar("T")


class Memory(Protocol):
    """The operations of a reader on known events. Windows are closed; `end` None is open to the
    future."""

    @property
    def mark(self) -> ReadCoverage:
        """How far the relay was read."""
        ...

    @property
    def fresh(self) -> Collection[bytes]:
        """The ids of the events that this object added."""
        ...

    def count(self, start: int, end: int | None) -> int:
        """Return the number of known events in a window."""
        ...

    def nth(self, start: int, n: int) -> int | None:
        """Return the time of the n-th event (from 1) at or after `start`, oldest first."""
        ...

    def apply(self, update: Update) -> EventChanges:
        """Store what was read, all of it or, if it raises, nothing."""
        ...

    def confirm(self, at: int, *, judged: bool = False) -> None:
        """Note that the relay's own count equals the number of known events, at `at`.

        `judged`: the query checks the events, and does not count all of them.
        """
        ...

    def prove(self, at: int) -> None:
        """Note that the known events are exactly those of the relay, at `at`."""
        ...

    def differ(self, by: int) -> None:
        """Note that the relay's own count is larger by this much, and another reading did not
        explain it."""
        ...

    def events(self) -> Iterable[HeldEvent]:
        """Return all known events."""
        ...

    def ids_and_authors(self) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """Return the known events that count."""
        ...

    def registers(self) -> bytes | None:
        """The registers of the counted authors, if they are stored; None if not."""
        ...

    def unseen(self, now: int) -> float:
        """Return event-seconds since each known event was last seen or confirmed."""
        ...

    def add(self, events: Iterable[HeldEvent], at: int) -> int:
        """Add events that arrived by themselves; return how many were unknown. The mark stays."""
        ...

    def judge(self, events: Iterable[HeldEvent]) -> None:
        """Set the amounts and labels of known events, after a check of what they name."""
        ...

    def retracted(self, oldest: float) -> Retracted | None:
        """Return what the relay's stored answer by these events retracts.

        None without such an answer since `oldest`, in Unix seconds.
        """
        ...


class ListMemory:
    """A memory without a store: for a single count, and for tests.

    `replaces`: only an author's newest event counts (replaceable kinds).
    """

    def __init__(self, *, replaces: bool = False) -> None:
        self.mark = ReadCoverage()
        self.fresh: set[bytes] = set()
        self._events: dict[bytes, HeldEvent] = {}
        self._order: list[tuple[int, bytes]] = []
        self._seen: dict[bytes, int] = {}
        self._newest_of: dict[bytes, HeldEvent] | None = {} if replaces else None

    def events(self) -> Iterable[HeldEvent]:
        return self._events.values()

    def ids_and_authors(self) -> tuple[frozenset[bytes], frozenset[bytes]]:
        counted = [event for event in self._events.values() if event.counts]
        return frozenset(e.id for e in counted), frozenset(e.author for e in counted)

    def registers(self) -> bytes | None:
        return None

    def count(self, start: int, end: int | None) -> int:
        low, high = self._range(start, end)
        return high - low

    def nth(self, start: int, n: int) -> int | None:
        at = self._range(start, None)[0] + n - 1
        return self._order[at][0] if at < len(self._order) else None

    def unseen(self, now: int) -> float:
        confirmed = self.mark.confirmed_at or 0
        return float(sum(max(now - max(seen, confirmed), 0) for seen in self._seen.values()))

    def apply(self, update: Update) -> EventChanges:
        low, high = self._range(update.start, update.end)
        before = self._order[low:high]
        found = {event.id for event in update.found}
        exposure = sum(update.at - self._seen[id] for _, id in before)
        lost = [self._events[id] for _, id in before if id not in found]
        for event in lost:
            self._remove(event.id)
        fresh = [event for event in update.found if self._add(event, update.at)]
        times = tuple(sorted(event.created_at for event in fresh if event.id in self._events))
        gone = self._without_newer(lost)
        changes = EventChanges(
            added=len(times), gone=len(gone), exposure=float(exposure), fresh=times
        )
        self.mark = self.mark.moved(update, changes, self._newest(update.at))
        return changes

    def confirm(self, at: int, *, judged: bool = False) -> None:
        self.mark = self.mark.as_confirmed(at, judged=judged)

    def prove(self, at: int) -> None:
        self.mark = self.mark.as_proven(at)

    def differ(self, by: int) -> None:
        self.mark = msgspec.structs.replace(self.mark, differs=by)

    def add(self, events: Iterable[HeldEvent], at: int) -> int:
        fresh = [event.id for event in events if self._add(event, at)]
        return sum(id in self._events for id in fresh)

    def judge(self, events: Iterable[HeldEvent]) -> None:
        self._events.update((event.id, event) for event in events if event.id in self._events)

    def retracted(self, oldest: float) -> Retracted | None:
        return None

    def _add(self, event: HeldEvent, at: int) -> bool:
        fresh = event.id not in self._events
        if fresh and not self._takes_place(event):
            return False
        self._seen[event.id] = at
        if fresh:
            self.fresh.add(event.id)
            self._events[event.id] = event
            key = (event.created_at, event.id)
            self._order.insert(bisect_left(self._order, key), key)
        return fresh

    def _without_newer(self, lost: list[HeldEvent]) -> list[HeldEvent]:
        """Return those of the lost events that no newer version of theirs replaced."""
        if self._newest_of is None:
            return lost
        newest = self._newest_of
        return [one for one in lost if not is_newer(newest.get(one.author), one)]

    def _takes_place(self, event: HeldEvent) -> bool:
        """Make room for a newer version; return False for an older one."""
        if self._newest_of is None:
            return True
        other = self._newest_of.get(event.author)
        if other is not None and not supersedes(event, other):
            return False
        if other is not None:
            self._remove(other.id)
        self._newest_of[event.author] = event
        return True

    def _remove(self, id: bytes) -> None:
        event = self._events.pop(id)
        if self._newest_of is not None:
            del self._newest_of[event.author]
        del self._seen[id]
        del self._order[bisect_left(self._order, (event.created_at, id))]

    def _newest(self, now: int) -> int | None:
        at = bisect_right(self._order, (now, b"\xff" * 33))
        return self._order[at - 1][0] if at else None

    def _range(self, start: int, end: int | None) -> tuple[int, int]:
        low = bisect_left(self._order, (start, b""))
        high = len(self._order) if end is None else bisect_left(self._order, (end + 1, b""))
        return low, high


class MemoryAccess(Protocol):
    """Gives one caller at a time access to a memory."""

    @property
    def seen(self) -> tuple[ReadCoverage, int] | None:
        """Return the mark and the number of events as last read; None: use the memory."""
        ...

    async def use(self, work: Callable[[Memory], T]) -> T:
        """Run `work`; on return its changes are stored completely, or not at all.

        Cancelling waits for a work that has begun. Raises StoreError and its kinds.
        """
        ...


class TransientMemory:
    """A memory that lasts as long as this object; `replaces` as for `ListMemory`."""

    def __init__(self, *, replaces: bool = False) -> None:
        self.memory = ListMemory(replaces=replaces)
        self.seen: tuple[ReadCoverage, int] | None = None

    async def use(self, work: Callable[[Memory], T]) -> T:
        return work(self.memory)


def supersedes(event: HeldEvent, other: HeldEvent) -> bool:
    """Whether an event wins as the newer version."""
    return nip01_order(event) < nip01_order(other)


def is_newer(event: HeldEvent | None, other: HeldEvent) -> bool:
    """Whether some event supersedes the other one."""
    return event is not None and supersedes(event, other)


def reading_of(memory: Memory, now: int, *, sums: bool = False, labels: bool = False) -> Reading:
    """Return the known events as a reading at `now`, with what may have changed since.

    `sums`: include amounts and receipts. `labels`: include the classes of contents.
    """
    ids, authors = memory.ids_and_authors()
    mark = memory.mark
    counted = [e for e in memory.events() if e.counts] if sums or labels else []
    unseen = memory.unseen(now)
    drift = Drift.of(mark, unseen, memory.count(0, None))
    return Reading(
        authors=authors,
        events=ids,
        complete=mark.complete,
        proven=mark.proven,
        gone=drift.share if drift else 0.0,
        evidence=drift.evidence if drift else 1,
        balanced=drift is not None and unseen <= 0,
        whole_at=mark.whole_at,
        **members_of(counted, sums=sums, labels=labels),
    )


def members_of(events: Sequence[HeldEvent], *, sums: bool, labels: bool) -> dict[str, Any]:
    """Return the fields of a reading with a value for each counted event."""
    return {
        "amounts": {e.id: e.amount for e in events} if sums else None,
        "receipts": {e.id: Receipt(e.signer, e.receiver, e.created_at, e.payment) for e in events}
        if sums
        else None,
        "doubted": frozenset(e.id for e in events if e.label) if sums else frozenset(),
        "labels": {e.id: e.label for e in events} if labels else None,
    }
