"""A sample of the shared events that every relay takes, and what is true of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nostr_client.codecs.event import Event, parse_event
from nostr_client.codecs.keys import VerifiedEvent, verify
from nostr_client.codecs.kinds import is_regular
from tests.conftest import shared_path

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 200
LARGEST = 8_000  # bytes of an event: some relays take no more by default


def sample() -> list[VerifiedEvent]:
    """`SIZE` events of regular kinds spread over the file: no relay replaces or expires them."""
    fit = [event for event in _events() if _is_plain(event)]
    return [verify(event) for event in fit[:: max(1, len(fit) // SIZE)][:SIZE]]


def _events() -> Iterator[Event]:
    with shared_path("data/events.jsonl").open("rb") as lines:
        for line in lines:
            yield parse_event(line)


def _is_plain(event: Event) -> bool:
    special = {"expiration", "-"}
    return (
        is_regular(event.kind)
        and event.kind not in (4, 5, 13, 62, 1059, 1060)
        and len(event.to_json()) < LARGEST
        and not special.intersection(tag[0] for tag in event.tags)
    )


def most_common_kind(events: list[VerifiedEvent]) -> tuple[int, int]:
    """The kind that most of them are of, and how many are."""
    return Counter(one.event.kind for one in events).most_common(1)[0]
