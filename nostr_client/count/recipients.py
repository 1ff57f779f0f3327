"""Whom the zaps of an event or address may pay: fetches the target and reads its author and splits.

An identifier's author hint proves nothing; the verified event does (NIP-57).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.errors import RelayError
from nostr_client.filters import Filter
from nostr_client.references import receivers
from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.queries import Query
    from nostr_client.event import Event
    from nostr_client.relay import Relay

MOST: Final = 10_000
"""Targets kept in memory: some 200 bytes each."""


class Recipients:
    """Resolves queries for zaps, and keeps what the targets said for its lifetime.

    The target of an id never changes. A newer version of an address may name other splits, which
    count from the next process on.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, frozenset[str]] = OrderedDict()

    async def resolve(self, query: Query, relays: Sequence[Relay], seconds: float) -> Query:
        """The query with its receivers, or as it is where no relay gives the target in time.

        Raises nothing that a relay did. Safe to cancel.
        """
        if not query.needs_target or query.target is None:
            return query
        if query.target not in self._known:
            found = await _fetch(query.target, relays, seconds)
            if found is None:
                return query
            self._known[query.target] = receivers(found)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return msgspec.structs.replace(query, receivers=self._known[query.target])


async def _fetch(target: str, relays: Sequence[Relay], seconds: float) -> Event | None:
    """The newest version that any relay gives; of an id the first answer, as it cannot differ."""
    asked = _filter_of(target)
    newest: Event | None = None
    async with task_group() as group:
        tasks = [group.create_task(_ask(relay, asked, seconds)) for relay in relays]
        for done in asyncio.as_completed(tasks):
            for event in await done:
                if newest is None or event.created_at > newest.created_at:
                    newest = event
            if newest is not None and asked.ids:
                for task in tasks:
                    task.cancel()
                break
    return newest


async def _ask(relay: Relay, asked: Filter, seconds: float) -> list[Event]:
    try:
        page = await relay.fetch([asked], seconds, partial=True)
    except RelayError:
        return []
    return [one.event for one in page.events if asked.matches(one.event)]


def _filter_of(target: str) -> Filter:
    if ":" not in target:
        return Filter(ids=[target])
    kind, author, identifier = target.split(":", 2)
    return Filter(kinds=[int(kind)], authors=[author], tags={"#d": [identifier]}, limit=1)
