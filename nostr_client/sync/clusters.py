"""One second with more events than a relay compares: cut by the kinds, then the authors seen in it.

A filter can not say "other kinds", so what is seen, on our side and in a page of the relay, is all
that can be named. Whether that is all there is, two COUNTs tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.errors import RelayError
from nostr_client.paging import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.event import Event
    from nostr_client.filters import Filter
    from nostr_client.page import Page
    from nostr_client.relay import Relay

_VALUES: Final = 200
"""Authors in one filter: relays refuse more than some hundreds."""

UNPROVEN: Final = (
    "a second holds more events than the relay compares at once; of those, only the kinds and "
    "authors that were seen are compared"
)


class Parts(NamedTuple):
    """Filters that together ask for what was seen; `all`: they match all that the relays hold."""

    filters: list[Filter]
    all: bool


async def named_parts(
    filter: Filter, relays: Sequence[Relay], held: Iterable[Event] = ()
) -> Parts | None:
    """The filter of one second in parts that name what it left open.

    None when nothing is open, and when a page of REQ is enough. `held`: events of that second that
    we have.
    """
    if filter.kinds is not None and filter.authors is not None:
        return None
    pages = [await _page(relay, filter) for relay in relays]
    if all(page is not None and not page.sent.second_may_be_cut(0) for page in pages):
        return None
    seen = [*held, *[one.event for page in pages if page is not None for one in page.events]]
    if not seen:
        return None
    if filter.kinds is None:
        named = [filter.replace(kinds=sorted({event.kind for event in seen}))]
    else:
        authors = sorted({event.pubkey for event in seen})
        chunks = (authors[at : at + _VALUES] for at in range(0, len(authors), _VALUES))
        named = [filter.replace(authors=chunk) for chunk in chunks]
    shown = [await _hold_no_more(relay, filter, named) for relay in relays]
    return Parts(named, all(shown))


async def _page(relay: Relay, filter: Filter) -> Page | None:
    try:
        return await relay.fetch(filter.replace(limit=PAGE))
    except RelayError:
        return None


async def _hold_no_more(relay: Relay, filter: Filter, parts: Sequence[Filter]) -> bool:
    """Whether the relay counts as many events for the parts together as for the filter."""
    if relay.capabilities.count is False:
        return False
    total = await _count(relay, filter)
    return bool(total) and total == sum([await _count(relay, part) or 0 for part in parts])


async def _count(relay: Relay, filter: Filter) -> int | None:
    try:
        answer = await relay.count(filter)
    except RelayError:
        return None
    return None if answer.approximate or answer.limited else answer.count
