"""Read events about relays: lists of people (NIP-65), and relays that monitors reached (NIP-66).

Pure. A list (kind 10002) has read relays and write relays. A monitor publishes an event (kind
30166) for each relay that is online. A relay without such an event is unknown, not dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import RELAY_DISCOVERY
from nostr_client.codecs.relay_url import normal_or_none
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.event import Event

RELAY_LIST: Final = 10002

LIVE_FOR_S: Final = 2 * 86_400.0
"""Seconds for which a monitor's event counts. Most monitors check every hour, some once a day."""

AHEAD_S: Final = 600.0
"""Seconds that a monitor's clock may be ahead. An event of the far future would always count."""

MOST_LISTED: Final = 50
"""Most relays taken from one list.

NIP-65 asks for two to four of each kind; some lists name thousands.
"""


class RelayList(msgspec.Struct, frozen=True, kw_only=True):
    """Relays of a list as normalised URLs, each once, in the order of the list.

    Most people put the best relay first. `surplus` counts tags beyond the bound. `invalid` counts
    tags without a valid relay URL.
    """

    author: str
    created_at: int
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    surplus: int = 0
    invalid: int = 0


def parse_relay_list(event: Event, *, most: int = MOST_LISTED) -> RelayList:
    """Read a relay list. A tag without "read" or "write" means both.

    A relay with one tag for "read" and one for "write" is used for both. Raises InvalidInput for
    another kind of event. No content of the list raises an error.
    """
    if event.kind != RELAY_LIST:
        raise InvalidInput(f"not a relay list: kind {event.kind}")
    uses: dict[str, set[str]] = {}
    surplus = invalid = 0
    for tag in event.tags:
        if tag[0] != "r" or len(tag) < 2:
            continue
        url = normal_or_none(tag[1])
        if url is None:
            invalid += 1
        elif url not in uses and len(uses) >= most:
            surplus += 1
        else:
            uses.setdefault(url, set()).update(_uses(tag))
    return RelayList(
        author=event.pubkey,
        created_at=event.created_at,
        read=tuple(url for url, how in uses.items() if "read" in how),
        write=tuple(url for url, how in uses.items() if "write" in how),
        surplus=surplus,
        invalid=invalid,
    )


def _uses(tag: tuple[str, ...]) -> tuple[str, ...]:
    """Return the uses of a relay. An unknown marker means no use."""
    marker = tag[2] if len(tag) > 2 else ""
    if marker == "":
        return ("read", "write")
    return (marker,) if marker in ("read", "write") else ()


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
