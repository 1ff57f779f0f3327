"""Lists the ids of all events that one relay holds for a query, by NIP-77 and within a budget.

An id costs 64 bytes on the wire, an event some 500. The relay may answer from a snapshot that
holds its newest events only, so the lower end of a list is proven: by a COUNT of the same number,
or by REQs from the oldest id down that bring nothing beyond the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import kinds
from nostr_client.count.comparing import compare
from nostr_client.errors import RelayError
from nostr_client.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nostr_client.count.queries import Query
    from nostr_client.keys import VerifiedEvent
    from nostr_client.options import ReadBudget
    from nostr_client.relay import Relay

ID_BYTES: Final = 64
"""Bytes of one id on the wire, as hex."""

_PAGE: Final = 20
"""Events of a page at the lower end: one page is enough where the list begins with the oldest."""

_MOST_PAGES: Final = 5
"""Pages at the lower end; a relay that needs more lists its ids in no order, and is read."""

_FEW: Final = 10
"""Events of one second that fit into a page of every relay seen so far."""


_PRIVATE: Final = frozenset({kinds.ENCRYPTED_MESSAGE, kinds.GIFT_WRAP})
"""Kinds that relays name and do not send: strfry lists kinds 4 and 1059 that a REQ hides."""


class Named(NamedTuple):
    """What a relay named. `whole`: the list is proven to reach down to its oldest event.

    `events` came with the proof. `traffic`: bytes of ids and events.
    """

    ids: frozenset[bytes]
    whole: bool
    events: tuple[VerifiedEvent, ...]
    traffic: int


def is_listable(query: Query) -> bool:
    """True when an id is an event of its own, which the relay gives to whoever asks.

    So are regular kinds, where no version replaces another, but for those that relays name by
    NIP-77 and give to their receivers only.
    """
    return all(
        one.search is None and one.kinds is not None and all(map(_is_countable, one.kinds))
        for one in query.filters
    )


def _is_countable(kind: int) -> bool:
    return kinds.is_regular(kind) and kind not in _PRIVATE


async def list_ids(
    relay: Relay, query: Query, *, budget: ReadBudget, told: int | None, silence: float
) -> Named | None:
    """All ids that a relay names; None where it cannot by NIP-77, or names more than the budget.

    `told`: the relay's own exact count. `silence`: seconds between its messages. Safe to cancel.
    """
    ids: set[bytes] = set()
    events: list[VerifiedEvent] = []
    size, whole = 0, True
    for one in query.filters:
        most = min(budget.events, budget.bytes // ID_BYTES) - len(ids)
        found = await compare(relay, one, {}, most=most, silence=silence)
        if found is None:
            return None
        ids.update(found.need)
        size += ID_BYTES * len(found.need)
        if found.need and len(query.filters) == 1 and len(found.need) == told:
            break
        floor = _Floor(relay, one.replace(limit=None), found.need)
        whole = await floor.prove() and whole
        events += floor.events
        size += floor.traffic
    return Named(frozenset(ids), whole, tuple(events), size)


class _Floor:
    """The lower end of a list of ids: whether the relay holds anything below it."""

    def __init__(self, relay: Relay, filter: Filter, named: Mapping[bytes, None]) -> None:
        self._relay = relay
        self._filter = filter
        self._named = named
        self.events: list[VerifiedEvent] = []
        self.traffic = 0

    async def prove(self) -> bool:
        """True where REQs from the oldest id down bring nothing that is not on the list."""
        try:
            if not self._named:
                return not await self._page(self._filter.replace(limit=1))
            return await self._reaches_down()
        except RelayError:
            return False

    async def _reaches_down(self) -> bool:
        # A list goes from the oldest to the newest, but its order is no promise: from the first
        # id the pages go on down until they bring nothing new.
        oldest = await self._page(Filter(ids=[next(iter(self._named)).hex()]))
        seen: set[bytes] = set()
        largest = _FEW
        for _ in range(_MOST_PAGES):
            if not oldest:
                return False
            until = min(one.event.created_at for one in oldest)
            page = await self._page(self._filter.replace(until=until, limit=_PAGE))
            ids = {bytes.fromhex(one.event.id) for one in page}
            if not ids <= self._named.keys():
                return False
            if ids <= seen or len(ids) == 1:  # a full page of one second may hide others
                return len(ids) < largest
            seen |= ids
            largest = max(largest, len(ids))
            oldest = page
        return False

    async def _page(self, asked: Filter) -> Collection[VerifiedEvent]:
        page = await self._relay.fetch([asked])
        self.events += page.events
        self.traffic += page.bytes
        return page.events
