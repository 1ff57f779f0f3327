"""Private kinds: events that leave this machine only where the user names them. Pure functions.

One table serves the local relay, uploads, mirrors, repairs and exports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from nostr_client.codecs import kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter

PRIVATE_KINDS: Final = {
    kinds.ENCRYPTED_MESSAGE: "NIP-04 direct message",
    kinds.SEAL: "NIP-59 seal",
    14: "NIP-17 chat message",
    15: "NIP-17 file message",
    kinds.APP_DATA_ITEM: "NIP-78 application data, regular kind",
    444: "NIP-EE welcome to a group",
    kinds.GIFT_WRAP: "NIP-59 gift wrap",
    1234: "NIP-37 draft, older kind",
    7374: "NIP-60 wallet quote",
    7375: "NIP-60 wallet token",
    7376: "NIP-60 wallet history",
    kinds.ZAP_REQUEST: "NIP-57 zap request, for the wallet's server only",
    10013: "NIP-37 relays for private content",
    17375: "NIP-60 wallet",
    21059: "NIP-59 ephemeral gift wrap",
    30024: "NIP-23 draft",
    kinds.APP_DATA: "NIP-78 application data",
    30403: "NIP-99 draft of a listing",
    31234: "NIP-37 draft",
}
"""Kinds that are private whatever the event holds, each with its NIP."""

RECEIVER_ONLY: Final = frozenset({kinds.ENCRYPTED_MESSAGE, kinds.GIFT_WRAP})
"""Kinds that relays hand to their receivers alone. Some name them by NIP-77 to anybody: strfry
lists both, and a REQ hides them."""

LISTS: Final = frozenset(
    {10000, 10001, 10002, 10003, 10004, 10005, 10006, 10007, 10008, 10009, 10011, 10012, 10015}
    | {10017, 10018, 10020, 10030, 10040, 10050, 10054, 10063, 10064, 10101, 10102}
    | {30000, 30001, 30002, 30003, 30004, 30005, 30006, 30007, 30008, 30015, 30030, 30063, 30267}
    | {31924, 39089, 39092}
)
"""NIP-51 lists: one with a content is private, as its content holds the encrypted items.
30001 is the former kind of bookmarks. 10040 is NIP-85's list of assertion providers."""

JOBS: Final = range(5000, 7001)
"""NIP-90 requests, results and feedback: with an `encrypted` tag they are for one party only."""

PROTECTED: Final = "-"
"""The tag of an event that relays take from its author alone (NIP-70)."""

REPOST_KINDS: Final = (kinds.REPOST, kinds.GENERIC_REPOST)
_NESTED: Final = 8
"""Reposts of reposts that are looked into; each further one doubles the size of the text."""

_MARK: Final = re.compile(r'\[\s*"(?:-|\\u002[dD])"\s*[],]')
"""The tag in text that is not read as JSON."""

_KIND: Final = re.compile(r'"kind"\s*:\s*(\d{1,5})\b')
"""The kind in text that is not read as JSON."""


def is_private(event: Event) -> bool:
    """True for a private kind, a NIP-51 list with encrypted items, an encrypted NIP-90 job, and
    for a repost of one of these."""
    return _is_private(event.kind, event.tags, event.content) or reposts_private(event)


def _is_private(kind: float, tags: Iterable[Sequence[Any]], content: object) -> bool:
    if kind in PRIVATE_KINDS:
        return True
    if kind in LISTS:
        return bool(content)
    return kind in JOBS and any(tag[0] == "encrypted" for tag in tags if tag)


def stays(event: Event, filters: Sequence[Filter], *, include_private: bool) -> bool:
    """True for a private event that stays here: no matching filter names its kind.

    A filter that names reposts does not name what they hold.
    """
    if include_private or not is_private(event):
        return False
    return event.kind in REPOST_KINDS or not is_named(event, filters)


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
            if stays(event, self._filters, include_private=self._all):
                self.held_back += 1
            else:
                yield event


def is_protected(event: Event) -> bool:
    """True when the event carries NIP-70's `-` tag."""
    return PROTECTED in [tag[0] for tag in event.tags]


def reposts_protected(event: Event) -> bool:
    """True for a repost (kinds 6 and 16) whose content holds a protected event (NIP-18, NIP-70).

    The reposts that a repost holds are looked into. Text that is no JSON here may be JSON for
    somebody else, so there the tag alone decides.
    """
    return event.kind in REPOST_KINDS and _holds(event.content, _NESTED, _PROTECTED)


def reposts_private(event: Event) -> bool:
    """True for a repost whose content holds a private event; looked into as for protected ones."""
    return event.kind in REPOST_KINDS and _holds(event.content, _NESTED, _PRIVATE)


class _Sought(NamedTuple):
    """What is looked for in a repost: in an event as JSON, and in text that is not read as JSON."""

    in_event: Callable[[dict[str, Any]], bool]
    in_text: Callable[[str], bool]


def _holds(text: str, deeper: int, sought: _Sought) -> bool:
    try:
        found: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return sought.in_text(text)
    embedded = found if isinstance(found, list) else [found]
    return any(_is_or_holds(one, deeper, sought) for one in embedded if isinstance(one, dict))


def _is_or_holds(embedded: dict[str, Any], deeper: int, sought: _Sought) -> bool:
    if sought.in_event(embedded):
        return True
    content = embedded.get("content")
    if embedded.get("kind") not in REPOST_KINDS or not isinstance(content, str):
        return False
    return deeper > 0 and _holds(content, deeper - 1, sought)


def _tags(embedded: dict[str, Any]) -> list[list[Any]]:
    tags = embedded.get("tags")
    return [tag for tag in tags if isinstance(tag, list) and tag] if isinstance(tags, list) else []


def _protects(embedded: dict[str, Any]) -> bool:
    return any(tag[0] == PROTECTED for tag in _tags(embedded))


def _keeps_private(embedded: dict[str, Any]) -> bool:
    kind = embedded.get("kind")
    if not isinstance(kind, (int, float)):  # 4.0 is 4, here and in JavaScript
        return False
    return _is_private(kind, _tags(embedded), embedded.get("content"))


_PROTECTED: Final = _Sought(_protects, lambda text: _MARK.search(text) is not None)
_PRIVATE: Final = _Sought(
    _keeps_private, lambda text: any(int(kind) in PRIVATE_KINDS for kind in _KIND.findall(text))
)
