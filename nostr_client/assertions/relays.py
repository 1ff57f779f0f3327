"""Ask relays for the events of a card key, and send them its cards, over connections of their own.

No AUTH of another key is seen beside the card key.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.assertions.introduction import NEWEST, OF_PEOPLE, KeyEvents
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import DELETION
from nostr_client.errors import DeadlineExceeded, ProtocolError, RelayError
from nostr_client.network.paging.pager import Pager
from nostr_client.network.pool import RelayAnswers, RelayPool
from nostr_client.options import Options, ReadBudget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.assertions.publisher import Publisher
    from nostr_client.network.paging.page import EventPage
    from nostr_client.network.relay import Relay

PAGES: Final = 20
"""Pages of the events of a key that a run reads from each relay: up to 10,000 events, with the 500
of most relays."""

READ_S: Final = 60.0
"""Seconds for the pages after the first one."""

_UNREAD: Final = "has more events of this key than a run reads"

_BUDGET: Final = ReadBudget(events=5_000, bytes=8_000_000)


class CardRelays(NamedTuple):
    """Where cards go. `timeout`: seconds for sending to all; `events_by` has its own limit."""

    urls: Sequence[str]
    options: Options
    timeout: float = 600.0

    async def events_by(self, key: str, urls: Sequence[str]) -> RelayAnswers[KeyEvents]:
        """Return what relays have of a key (hex): the newest deletions and the newest events of the
        kinds that people sign, then all events of any kind, up to PAGES pages.

        A relay whose first answers do not come within the group's deadline has an error.
        """
        seconds = self.options.timeouts.group

        async def ask(relay: Relay) -> KeyEvents:
            found = KeyEvents()
            async with asyncio.timeout(seconds):
                await _of_people(relay, key, found)
                pager = Pager(Filter(authors=[key]))
                await _page(relay, key, pager, found)
            try:
                async with asyncio.timeout(READ_S):
                    await _rest(relay, key, pager, found)
            except (TimeoutError, RelayError):
                found.unread = _UNREAD
            return found

        async def answered(relay: Relay) -> KeyEvents:
            try:
                return await ask(relay)
            except TimeoutError:
                raise DeadlineExceeded(f"no answer in {seconds:g} s", relay=relay.url) from None

        async with RelayPool(options=self.options) as pool:
            return await pool.gather(urls, answered, timeout=seconds + 2 * READ_S)

    async def send(self, publisher: Publisher, unknown: Mapping[str, str]) -> None:
        """Send what the relays lack; none to those of `unknown`, which have the reason."""
        async with RelayPool(options=self.options) as pool:
            await publisher.send(pool, self.urls, self.timeout, unknown)


async def _of_people(relay: Relay, key: str, found: KeyEvents) -> None:
    filters = [
        Filter(authors=[key], kinds=OF_PEOPLE, limit=NEWEST),
        Filter(authors=[key], kinds=[DELETION], limit=NEWEST),
    ]
    page = await relay.fetch(filters, budget=_BUDGET)
    _take(page, relay, key, found)


async def _rest(relay: Relay, key: str, pager: Pager, found: KeyEvents) -> None:
    """Read the pages after the first one, while they show nothing of a person."""
    for _ in range(PAGES - 1):
        if found.is_a_persons or pager.next_filter() is None:
            break
        await _page(relay, key, pager, found)
    if not (found.is_a_persons or pager.complete):
        found.unread = _UNREAD


async def _page(relay: Relay, key: str, pager: Pager, found: KeyEvents) -> None:
    wanted = pager.next_filter()
    if wanted is not None:
        page = await relay.fetch(wanted, budget=_BUDGET)
        _take(page, relay, key, found)
        pager.turn(page.sent)


def _take(page: EventPage, relay: Relay, key: str, found: KeyEvents) -> None:
    """Add the events of a page. Raises ProtocolError if the page is not complete."""
    if not page.complete:
        raise ProtocolError("its answer is not complete", relay=relay.url)
    for one in page.events:
        if one.event.pubkey == key:
            found.add(one.event)
