"""Compute the matrix of relays by kinds: known events, gaps, and events that should be deleted.

Pure. Ids are hex. An id counts if it is confirmed, because an id that one relay alone names may be
invented. Only the newest version of a replaceable or addressable event counts. An event that its
author deleted (NIP-09) does not count. The matrix names the relays that still have it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.kinds import DELETION, VANISH
from nostr_client.codecs.relay_url import normalize
from nostr_client.store.rules import (
    Coordinate,
    d_of,
    deletion,
    is_deletable,
    vanishes_here,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

READ: frozenset[int] = frozenset({DELETION, VANISH})
"""Kinds to read instead of comparing ids, because their content decides about other events."""


class CoverageCell(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one kind on one relay.

    `whole`: the relay was read to the end of the kind. `why`: the reason if not. `by`: the method,
    "ids" (NIP-77) or "events" (REQ).
    """

    held: frozenset[str] = frozenset()
    whole: bool = False
    by: str = ""
    why: str = ""


class SampleTest(msgspec.Struct, frozen=True, kw_only=True):
    """Results of samples of relays' ids.

    `believed`: relays and kinds for which every event came. `refuted`: relays for which an event
    did not come. Ids that these relays name confirm nothing.
    """

    believed: frozenset[tuple[str, int]] = frozenset()
    refuted: frozenset[str] = frozenset()

    def believing(self, relay: str, kind: int) -> SampleTest:
        """Return a copy with a relay that is believed for a kind."""
        return SampleTest(believed=self.believed | {(relay, kind)}, refuted=self.refuted)

    def without(self, relay: str, kind: int) -> SampleTest:
        """Return a copy with a relay that is not believed for a kind."""
        return SampleTest(believed=self.believed - {(relay, kind)}, refuted=self.refuted)

    def refuting(self, relay: str) -> SampleTest:
        """Return a copy with a relay that names events which it does not have."""
        return SampleTest(believed=self.believed, refuted=self.refuted | {relay})


class DeletedIds(msgspec.Struct, frozen=True, kw_only=True):
    """Targets of an author's deletions: ids, and versions of addresses up to a second."""

    ids: frozenset[str] = frozenset()
    addresses: dict[Coordinate, int] = {}

    @classmethod
    def of(cls, deletions: Iterable[Event]) -> DeletedIds:
        """Return the targets of kind 5 events of one author."""
        ids: set[str] = set()
        until: dict[Coordinate, int] = {}
        for one in deletions:
            asked = deletion(one)
            ids.update(asked.ids)
            for address in asked.addresses:
                until[address] = max(one.created_at, until.get(address, 0))
        return cls(ids=frozenset(ids), addresses=until)

    def covers(self, event: Event) -> bool:
        """Return True if the event is deleted."""
        if not is_deletable(event.kind):
            return False
        address = address_of(event)
        until = self.addresses.get(address, -1) if address is not None else -1
        return event.id in self.ids or event.created_at <= until


def address_of(event: Event) -> Coordinate | None:
    """Return the address of a replaceable or addressable event, or None for others."""
    d = d_of(event)
    return None if d is None else Coordinate(event.kind, event.pubkey, d)


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Matrix of one author's events. `covered` makes it.

    - `cells`: by relay (as the user wrote it) and kind.
    - `local`: ids of a kind in the store.
    - `events`: the events that were read, by id, such as versions and deletions.
    - `gone`: targets of deletions.
    - `unions`: by kind, the ids that count, over store and relays. They are confirmed, newest
      versions and not deleted.
    - `unconfirmed`: by kind, ids that relays name and nothing confirms.
    - `vanished`: by relay, ids that it serves despite the author's request to vanish (kind 62).
    - `requests`: kinds of `READ` that were read for a repair although they are not in `kinds`.
    - `protected` (NIP-70) and `expired` (NIP-40): known ids that no repair moves.
    """

    author: str
    relays: tuple[str, ...]
    kinds: tuple[int, ...]
    cells: dict[str, dict[int, CoverageCell]]
    local: dict[int, frozenset[str]] = {}
    events: dict[str, Event] = {}
    gone: DeletedIds = DeletedIds()
    unions: dict[int, frozenset[str]] = {}
    unconfirmed: dict[int, frozenset[str]] = {}
    vanished: dict[str, frozenset[str]] = {}
    vanish_doubt: dict[str, str] = {}
    requests: tuple[int, ...] = ()
    protected: frozenset[str] = frozenset()
    expired: frozenset[str] = frozenset()
    since: int | None = None
    no_list: str = ""
    """Why the relays where the author writes (NIP-65) are not compared, or "" if they are."""

    def cell(self, relay: str, kind: int) -> CoverageCell:
        """Return the cell of a relay and a kind."""
        return self.cells[relay][kind]

    def union(self, kind: int) -> frozenset[str]:
        """Return the ids of a kind that count."""
        return self.unions[kind]

    def held(self, relay: str, kind: int) -> int:
        """Return how many of the union a relay has, or a lower bound if the cell is not whole."""
        return len(self.cell(relay, kind).held & self.union(kind))

    def lacking(self, relay: str, kind: int) -> frozenset[str] | None:
        """Return the ids of the union that a relay lacks, or None if it was not read to its end."""
        cell = self.cell(relay, kind)
        return self.union(kind) - cell.held if cell.whole else None

    def due(self, relay: str, kind: int) -> frozenset[str]:
        """Return the ids of the union that a relay should have.

        A relay need not have protected and expired events, and requests to vanish from other
        relays.
        """
        ids = self.union(kind)
        return ids - self.protected - self.expired - self._to_others(relay, ids)

    def missing(self, relay: str, kind: int) -> frozenset[str] | None:
        """Return the ids that a relay should have and lacks, or None if it was not read fully."""
        cell = self.cell(relay, kind)
        return self.due(relay, kind) - cell.held if cell.whole else None

    def _to_others(self, relay: str, ids: frozenset[str]) -> frozenset[str]:
        """Return which of the ids are requests to vanish from other relays only."""
        read = (self.events[one] for one in ids if one in self.events)
        url = {normalize(relay)}
        return frozenset(e.id for e in read if e.kind == VANISH and not vanishes_here(e, url))

    def alone(self, relay: str, kind: int) -> int:
        """Return how many unconfirmed ids of a kind a relay names. They count nowhere."""
        return len(self.cell(relay, kind).held & self.unconfirmed.get(kind, frozenset()))

    def undeleted(self, relay: str) -> frozenset[str]:
        """Return ids that a relay still has although their author deleted them."""
        held = self._of(relay)
        return _deleted(held, self.events, self.gone) | self.vanished.get(relay, frozenset())

    def requests_lacking(self, relay: str) -> frozenset[str]:
        """Return requests (kinds 5, 62) that a relay lacks, about events that it still has.

        A repair sends these. Empty if the relay was not read to the end of their kind.
        """
        served, held = self.undeleted(relay), self._of(relay)
        named = frozenset(
            {kind for kind in READ if self.cells[relay].get(kind, CoverageCell()).whole}
        )
        return frozenset(
            one.id
            for one in self.events.values()
            if one.kind in named and one.id not in held and self._is_about(one, relay, served)
        )

    def _is_about(self, request: Event, relay: str, served: frozenset[str]) -> bool:
        if request.kind == VANISH:
            here = vanishes_here(request, {normalize(relay)})
            return here and bool(served & self.vanished.get(relay, frozenset()))
        return bool(_deleted(served, self.events, DeletedIds.of([request])))

    def _of(self, relay: str) -> frozenset[str]:
        """Return all ids that a relay has."""
        return frozenset().union(*(one.held for one in self.cells[relay].values()))

    def holders(self, event_id: str) -> list[str]:
        """Return the relays that have an event."""
        return [
            relay
            for relay in self.relays
            if any(event_id in one.held for one in self.cells[relay].values())
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the matrix in the form of its JSON."""
        return {
            "author": self.author,
            "kinds": [
                {"kind": kind, "union": len(self.union(kind)), "store": self.stored(kind)}
                for kind in self.kinds
            ],
            "relays": [self._row(relay) for relay in self.relays],
            "protected": sorted(self.protected),
            "expired": sorted(self.expired),
            "no_list": self.no_list,
        }

    def stored(self, kind: int) -> int | None:
        """Return how many of the union of a kind the store has, or None without a store."""
        if kind not in self.local:
            return None
        return len(self.local[kind] & self.union(kind))

    def _row(self, relay: str) -> dict[str, Any]:
        return {
            "relay": relay,
            "share": share(self, relay),
            "kinds": [self._cell(relay, kind) for kind in self.kinds],
            "deleted_but_served": sorted(self.undeleted(relay)),
            "deleted_but_served_doubt": self.vanish_doubt.get(relay, ""),
            "requests_lacking": sorted(self.requests_lacking(relay)),
        }

    def _cell(self, relay: str, kind: int) -> dict[str, Any]:
        cell, lacking = self.cell(relay, kind), self.lacking(relay, kind)
        return {
            "kind": kind,
            "held": self.held(relay, kind),
            "unconfirmed": self.alone(relay, kind),
            "whole": cell.whole,
            "by": cell.by,
            "why": cell.why,
            "lacking": None if lacking is None else sorted(lacking),
        }


def share(coverage: Coverage, relay: str) -> float | None:
    """Return the share that a relay has of the events of all kinds that it should have.

    None if the relay was not read to its end, or if no event is known that it should have.
    """
    if relay in coverage.vanished:  # the events of the union that it should have are unknown
        return None
    due = missing = 0
    for kind in coverage.kinds:
        ids = coverage.missing(relay, kind)
        if ids is None:
            return None
        missing += len(ids)
        due += len(coverage.due(relay, kind))
    return (due - missing) / due if due else None


def covered(
    author: str,
    cells: dict[str, dict[int, CoverageCell]],
    kinds: Sequence[int],
    *,
    local: Mapping[int, frozenset[str]] = MappingProxyType({}),
    events: Mapping[str, Event] = MappingProxyType({}),
    tested: SampleTest | None = None,
    vanished: Mapping[str, frozenset[str]] = MappingProxyType({}),
    vanish_doubt: Mapping[str, str] = MappingProxyType({}),
    protected: frozenset[str] = frozenset(),
    expired: frozenset[str] = frozenset(),
    since: int | None = None,
) -> Coverage:
    """Return the matrix of cells. `events` are the events that were read, with deletions.

    - `tested`: results of samples of the relays' ids, or None without samples.
    - `vanished`: ids that relays serve from before a request to vanish.
    - `vanish_doubt`: why there may be more of these ids.
    - `protected` and `expired`: ids of such events.
    - `since`: the time (Unix seconds) before which nothing was read.
    """
    requests = tuple(sorted(READ.difference(kinds).intersection(*cells.values())))
    gone = DeletedIds.of(one for one in events.values() if one.kind == DELETION)
    old = older(events.values())
    unions, unconfirmed = {}, {}
    for kind in (*kinds, *requests):
        stored = local.get(kind, frozenset())
        named = stored.union(*(row[kind].held for row in cells.values()))
        known = confirmed(kind, cells, stored | events.keys(), tested or SampleTest())
        counting = named - old - _deleted(named, events, gone)
        unions[kind], unconfirmed[kind] = counting & known, counting - known
    return Coverage(
        author=author,
        relays=tuple(cells),
        kinds=tuple(kinds),
        cells=cells,
        local=dict(local),
        events=dict(events),
        gone=gone,
        unions=unions,
        unconfirmed=unconfirmed,
        vanished=dict(vanished),
        vanish_doubt=dict(vanish_doubt),
        requests=requests,
        protected=protected,
        expired=expired,
        since=since,
    )


def confirmed(
    kind: int,
    cells: Mapping[str, Mapping[int, CoverageCell]],
    sure: frozenset[str],
    tested: SampleTest,
) -> frozenset[str]:
    """Return `sure` and the ids of a kind that exist.

    An id exists if its event came from a relay. It also exists if one believed relay names it, or
    two relays that are not refuted.
    """
    known, once = set(sure), set[str]()
    for relay, row in cells.items():
        cell = row[kind]
        if cell.by == "events":
            known |= cell.held
        elif relay in tested.refuted:
            continue
        elif (relay, kind) in tested.believed:
            known |= cell.held
        else:
            known |= once & cell.held
            once |= cell.held
    return frozenset(known)


def older(events: Iterable[Event]) -> frozenset[str]:
    """Return ids of replaceable and addressable events that have a newer version here."""
    best: dict[Coordinate, Event] = {}
    old: set[str] = set()
    for event in events:
        address = address_of(event)
        if address is None:
            continue
        other = best.setdefault(address, event)
        if other is event:
            continue
        newer = version(event).beats(version(other))
        best[address] = event if newer else other
        old.add(other.id if newer else event.id)
    return frozenset(old)


def _deleted(ids: frozenset[str], events: Mapping[str, Event], gone: DeletedIds) -> frozenset[str]:
    """Return which of the ids are deleted. Deletion events themselves never are."""
    read = {key for key in ids if key in events}
    return frozenset({key for key in read if gone.covers(events[key])} | (ids & gone.ids - read))
