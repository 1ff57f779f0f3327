"""Read which relays monitors reached, and when (NIP-66, kind 30166). Pure.

A monitor publishes an event for each relay that is online. A relay without such an event is
unknown, not dead. Source: NIP-66.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import RELAY_DISCOVERY
from nostr_client.codecs.relay_url import normal_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.event import Event

LIVE_FOR_S: Final = 2 * 86_400.0
"""Seconds for which a monitor's event counts. Most monitors check every hour, some once a day."""

AHEAD_S: Final = 600.0
"""Seconds that a monitor's clock may be ahead. An event of the far future would always count."""


def live_request(relays: Iterable[str], monitors: Sequence[str], now: float) -> Filter:
    """Return the filter for monitors' events about these relays. URLs are normalised.

    The `d` tag is a normalised URL. Monitors write a URL without a path with a final slash.
    """
    urls = [spelled for url in relays for spelled in (url, f"{url}/")]
    return Filter(
        kinds=[RELAY_DISCOVERY],
        authors=monitors,
        since=max(0, int(now - LIVE_FOR_S)),
        tags={"#d": urls},
    )


def live_relays(events: Iterable[Event], asked: Filter, now: float) -> set[str]:
    """Return the normalised URLs of relays that the events of a request report as live."""
    found = set()
    for event in events:
        if not asked.matches(event) or event.created_at > now + AHEAD_S:
            continue
        for tag in event.tags:
            if tag[0] == "d" and len(tag) > 1 and (url := normal_or_none(tag[1])) is not None:
                found.add(url)
    return found
