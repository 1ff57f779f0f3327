"""Reading relay lists and events by id over a pool, for `RelayFinder`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.outbox.finding import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.filters import Filter
    from nostr_client.keys import VerifiedEvent
    from nostr_client.outbox.choose import RelayChoice
    from nostr_client.pool import RelayPool


class PoolFetch:
    """A `Fetch` over a pool; relays that the user did not name are connected to with care.

    `timeout` in seconds, for all relays of one question.
    """

    def __init__(self, pool: RelayPool, choice: RelayChoice, timeout: float) -> None:
        self._pool = pool
        self._named = {*choice.own, *choice.indexers, *choice.defaults}
        self._timeout = timeout

    async def __call__(
        self, relays: Sequence[str], filters: Sequence[Filter]
    ) -> list[VerifiedEvent]:
        for url in relays:
            self._pool.relay(url, stranger=url not in self._named)
        gathered = await self._pool.fetch(filters, relays, self._timeout)
        pages = gathered.answers.values()
        if not any(page.events or page.complete for page in pages):
            raise NoAnswer
        events = {v.event.id: v for page in pages for v in page.events}
        return sorted(events.values(), key=lambda v: -v.event.created_at)
