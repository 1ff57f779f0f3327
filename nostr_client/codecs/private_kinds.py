"""Private kinds: events that leave this machine only where the user names them. Pure functions.

One table serves the local relay, uploads, mirrors, repairs and exports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs import kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter

PRIVATE_KINDS: Final = {
    kinds.ENCRYPTED_MESSAGE: "NIP-04 direct message",
    kinds.SEAL: "NIP-59 seal",
    14: "NIP-17 chat message",
    15: "NIP-17 file message",
    kinds.GIFT_WRAP: "NIP-59 gift wrap",
    1234: "NIP-37 draft, older kind",
    7374: "NIP-60 wallet quote",
    7375: "NIP-60 wallet token",
    7376: "NIP-60 wallet history",
    10013: "NIP-37 relays for private content",
    17375: "NIP-60 wallet",
    21059: "NIP-59 ephemeral gift wrap",
    30024: "NIP-23 draft",
    kinds.APP_DATA: "NIP-78 application data",
    31234: "NIP-37 draft",
}
"""Kinds that are private whatever the event holds, each with its NIP."""

RECEIVER_ONLY: Final = frozenset({kinds.ENCRYPTED_MESSAGE, kinds.GIFT_WRAP})
"""Kinds that relays hand to their receivers alone. Some name them by NIP-77 to anybody: strfry
lists both, and a REQ hides them."""

LISTS: Final = frozenset(
    {10000, 10001, 10003, 10004, 10005, 10006, 10007, 10009, 10012, 10015, 10017, 10018, 10020}
    | {10030, 10050, 10101, 10102}
    | {30000, 30001, 30002, 30003, 30004, 30005, 30006, 30007, 30015, 30030, 30063, 30267, 31924}
    | {39089, 39092}
)
"""NIP-51 lists: one with a content is private, as its content holds the encrypted items.
30001 is the former kind of bookmarks."""

PROTECTED: Final = "-"
"""The tag of an event that relays take from its author alone (NIP-70)."""

_REPOSTS: Final = (kinds.REPOST, kinds.GENERIC_REPOST)
_NESTED: Final = 8
"""Reposts of reposts that are looked into; each further one doubles the size of the text."""

_MARK: Final = re.compile(r'\[\s*"(?:-|\\u002[dD])"\s*[],]')
"""The tag in text that is not read as JSON."""


def is_private(event: Event) -> bool:
    """True for a private kind, and for a NIP-51 list with encrypted items."""
    return event.kind in PRIVATE_KINDS or (event.kind in LISTS and bool(event.content))


def maybe_private_kinds() -> tuple[int, ...]:
    """The kinds of which an event may be private, for a filter that finds those that are."""
    return tuple(sorted(PRIVATE_KINDS.keys() | LISTS))


def is_named(event: Event, filters: Sequence[Filter]) -> bool:
    """True when a filter that matches the event names its kind."""
    return any(one.kinds is not None and one.matches(event) for one in filters)


class PublicEvents:
    """Passes events on but for private ones that no filter names; `held_back` counts those."""

    def __init__(
        self, events: AsyncIterator[Event], filters: Sequence[Filter], *, include_private: bool
    ) -> None:
        self._events = events
        self._filters = filters
        self._all = include_private
        self.held_back = 0

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for event in self._events:
            if self._all or not is_private(event) or is_named(event, self._filters):
                yield event
            else:
                self.held_back += 1


def is_protected(event: Event) -> bool:
    """True when the event carries NIP-70's `-` tag."""
    return any(tag[0] == PROTECTED for tag in event.tags)


def reposts_protected(event: Event) -> bool:
    """True for a repost (kinds 6 and 16) whose content holds a protected event (NIP-18, NIP-70).

    The reposts that a repost holds are looked into. Text that is no JSON here may be JSON for
    somebody else, so there the tag alone decides.
    """
    return event.kind in _REPOSTS and _holds_protected(event.content, _NESTED)


def _holds_protected(text: str, deeper: int) -> bool:
    try:
        found: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _MARK.search(text) is not None
    embedded = found if isinstance(found, list) else [found]
    return any(_is_protected(one, deeper) for one in embedded if isinstance(one, dict))


def _is_protected(embedded: dict[str, Any], deeper: int) -> bool:
    tags, content = embedded.get("tags"), embedded.get("content")
    if isinstance(tags, list) and any(_is_mark(tag) for tag in tags):
        return True
    if embedded.get("kind") not in _REPOSTS or not isinstance(content, str):
        return False
    return deeper > 0 and _holds_protected(content, deeper - 1)


def _is_mark(tag: object) -> bool:
    return isinstance(tag, list) and bool(tag) and tag[0] == PROTECTED
