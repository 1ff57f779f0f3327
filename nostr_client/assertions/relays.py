"""Ask relays for the events of a card key, and send them its cards, over connections of their own.

No AUTH of another key is seen beside the card key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.assertions.introduction import NEWEST, OF_PEOPLE
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import DELETION
from nostr_client.errors import ProtocolError
from nostr_client.network.pool import RelayAnswers, RelayPool
from nostr_client.options import Options, ReadBudget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.assertions.publisher import Publisher
    from nostr_client.codecs.event import Event
    from nostr_client.network.relay import Relay

_BUDGET: Final = ReadBudget(events=4 * NEWEST, bytes=4_000_000)


class CardRelays(NamedTuple):
    """Where cards go. `timeout`: seconds for sending to all; `events_by` has its own limit."""

    urls: Sequence[str]
    options: Options
    timeout: float = 600.0

    async def events_by(self, key: str, urls: Sequence[str]) -> RelayAnswers[list[Event]]:
        """Return the newest events of a key (hex) that relays have, with the newest deletions and
        the newest events of the kinds that people sign. Takes no longer than the group's deadline.
        """
        asked = [
            Filter(authors=[key], limit=NEWEST),
            Filter(authors=[key], kinds=OF_PEOPLE, limit=NEWEST),
            Filter(authors=[key], kinds=[DELETION], limit=NEWEST),
        ]

        async def ask(relay: Relay) -> list[Event]:
            page = await relay.fetch(asked, budget=_BUDGET)
            if not page.complete:
                raise ProtocolError("its answer is not complete", relay=relay.url)
            return [one.event for one in page.events if one.event.pubkey == key]

        async with RelayPool(options=self.options) as pool:
            return await pool.gather(urls, ask)

    async def send(self, publisher: Publisher, unknown: Mapping[str, str]) -> None:
        """Send what the relays lack; none to those of `unknown`, which have the reason."""
        async with RelayPool(options=self.options) as pool:
            await publisher.send(pool, self.urls, self.timeout, unknown)
