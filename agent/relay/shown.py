"""One snapshot of the store as one viewer sees it: without other people's private events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.relay.counting import CountFigures
from nostr_client import hll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.privacy import Viewer
    from nostr_client.event import Event
    from nostr_client.filters import Filter
    from nostr_client.store.snapshot import Snapshot


class Shown:
    """Questions to a snapshot on behalf of `viewer`, which agree with each other.

    Every question may raise InvalidFilter; whoever made the snapshot wraps the errors of SQLite.
    """

    def __init__(self, snapshot: Snapshot, viewer: Viewer) -> None:
        self._snapshot = snapshot
        self._viewer = viewer

    def figures(self, filters: Sequence[Filter], *, registers: bool = False) -> CountFigures:
        """The number of a union, and its registers where they are asked for."""
        found = self._registers(filters) if registers else None
        return CountFigures(self._count(filters), found)

    def _count(self, filters: Sequence[Filter]) -> int:
        plain, parted, mixed = self._viewer.split(filters)
        asked = [*plain, *self.parts(parted), *mixed]
        count = self._snapshot.count(asked) if asked else 0
        if not self.any_private(mixed):
            return count
        private = self._snapshot.count([self._viewer.private_part(f) for f in mixed])
        own = self.own(mixed)
        return max(0, count - private + (self._snapshot.count(own) if own else 0))

    def _registers(self, filters: Sequence[Filter]) -> bytes:
        """The registers of a union of filters that share an offset.

        Registers cannot be subtracted: where private events are in the way, the kinds that are
        held stand in for "any kind", and no event is read.
        """
        plain, parted, mixed = self._viewer.split(filters)
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
