"""Look for events that a relay accepted: some relays accept events and drop them, run after run.

What enters: the events of one run that a relay accepted. What leaves: the ids that it lacks, and
those instead of which it has newer versions.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import has_versions, is_addressable
from nostr_client.errors import RelayError
from nostr_client.network.paging.by_id import events_by_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from nostr_client.codecs.event import Event
    from nostr_client.network.relay import Relay

LOOKED_FOR: Final = 30
"""Accepted events that are asked for, and if one is missing, all of them."""


class Lacking(NamedTuple):
    """Ids that the relay accepted and does not have."""

    dropped: set[bytes]
    replaced: set[bytes]
    """Versions instead of which the relay has a newer one."""


class _Version(NamedTuple):
    """A replaceable or addressable event; `d` is None without one, `order` is that of NIP-01."""

    author: str
    kind: int
    d: str | None
    order: tuple[int, str]

    @property
    def newest(self) -> Filter:
        """The filter of the version that a relay has."""
        tags = None if self.d is None else {"#d": [self.d]}
        return Filter(authors=[self.author], kinds=[self.kind], tags=tags)


class AcceptedEvents:
    """The events of one run that a relay accepted, without those that expire."""

    def __init__(self, relay: Relay, seconds: float) -> None:
        """`seconds`: longest wait for the answers to one look."""
        self._relay = relay
        self._seconds = seconds
        self._accepted: dict[bytes, _Version | None] = {}

    def add(self, event: Event) -> None:
        """Add an event that the relay accepted."""
        if event.first_tag("expiration") is None:
            self._accepted[bytes.fromhex(event.id)] = _version(event)

    async def lacking(self) -> Lacking:
        """Return the ids that the relay lacks. A relay that does not answer is believed.

        Safe to cancel.
        """
        ids = sorted(self._accepted)
        try:
            async with asyncio.timeout(self._seconds):
                missing = await self._missing(ids[:LOOKED_FOR])
                if any(missing) and len(ids) > LOOKED_FOR:
                    missing = await self._missing(ids)
        except (RelayError, TimeoutError):
            return Lacking(set(), set())
        return missing

    async def _missing(self, ids: Collection[bytes]) -> Lacking:
        """Return the ids that the relay does not send, without versions that are not checked."""
        found = await events_by_id(self._relay, ids)
        if found.unread:  # what the frame held is unknown
            return Lacking(set(), set())
        missing = set(ids).difference(bytes.fromhex(one.event.id) for one in found.events)
        versions = {id: one for id in sorted(missing) if (one := self._accepted[id])}
        looked_at = dict([*versions.items()][:LOOKED_FOR])
        replaced = await self._replaced(looked_at) if looked_at else set()
        unknown = versions.keys() - looked_at.keys()
        return Lacking(missing - replaced - unknown, replaced)

    async def _replaced(self, versions: dict[bytes, _Version]) -> set[bytes]:
        """Return the versions instead of which the relay has a newer one."""
        replaced = set()
        for id, one in versions.items():
            page = await self._relay.fetch(one.newest)
            if any(nip01_order(found.event) < one.order for found in page.events):
                replaced.add(id)
        return replaced


def _version(event: Event) -> _Version | None:
    if not has_versions(event.kind):
        return None
    d = (event.first_tag("d") or "") if is_addressable(event.kind) else None
    return _Version(event.pubkey, event.kind, d, nip01_order(event))
