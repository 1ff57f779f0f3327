"""Fetch the newest profiles (kind 0) of people, from relays that the program asks anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import METADATA
from nostr_client.errors import RelayError
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.relay import Relay

MOST_PEOPLE: Final = 200
"""Most people of one REQ. A longer table shows keys for the other people."""


async def newest_profiles(
    relays: Sequence[Relay], people: Sequence[str], seconds: float
) -> dict[str, VerifiedEvent]:
    """Return the newest profile that any relay has of each person (hex), for the first 200 people.

    Every relay gets one REQ and `seconds` to answer. A relay that fails gives no profiles. Safe to
    cancel.
    """
    if not people:
        return {}
    asked = Filter(kinds=[METADATA], authors=people[:MOST_PEOPLE])
    async with task_group() as group:
        tasks = [group.create_task(_read(relay, asked, seconds)) for relay in relays]
    newest: dict[str, VerifiedEvent] = {}
    for one in (one for task in tasks for one in task.result()):
        other = newest.get(one.event.pubkey, one)
        newest[one.event.pubkey] = min(one, other, key=nip01_order)
    return newest


async def _read(relay: Relay, asked: Filter, seconds: float) -> list[VerifiedEvent]:
    try:
        page = await relay.fetch([asked], seconds, partial=True)
    except RelayError:
        return []
    return [one for one in page.events if asked.matches(one.event)]
