"""Event kinds: how a relay keeps an event of each class, and the kinds this product speaks of.

Source: NIP-01 (classes), the NIP named beside each constant.
"""

from __future__ import annotations

from typing import Final

METADATA: Final = 0  # NIP-01
TEXT_NOTE: Final = 1  # NIP-10
CONTACTS: Final = 3  # NIP-02
ENCRYPTED_MESSAGE: Final = 4  # NIP-04
DELETION: Final = 5  # NIP-09
REPOST: Final = 6  # NIP-18
REACTION: Final = 7  # NIP-25
SEAL: Final = 13  # NIP-59
GENERIC_REPOST: Final = 16  # NIP-18
VANISH: Final = 62  # NIP-62
APP_DATA_ITEM: Final = 78  # NIP-78
GIFT_WRAP: Final = 1059  # NIP-59
COMMENT: Final = 1111  # NIP-22
ZAP_REQUEST: Final = 9734  # NIP-57
ZAP: Final = 9735  # NIP-57
MUTE_LIST: Final = 10000  # NIP-51
RELAY_LIST: Final = 10002  # NIP-65
CLIENT_AUTH: Final = 22242  # NIP-42
APP_DATA: Final = 30078  # NIP-78
RELAY_DISCOVERY: Final = 30166  # NIP-66

MAX_KIND: Final = 65535

EPHEMERAL: Final = range(20_000, 30_000)
"""Kinds that are passed on and never kept (NIP-01)."""


def is_replaceable(kind: int) -> bool:
    """True where only the newest event of an author and kind is kept: 0, 3, 10000..19999."""
    return kind in (METADATA, CONTACTS) or 10_000 <= kind < 20_000


def is_addressable(kind: int) -> bool:
    """True where only the newest event of an author, kind and `d` tag is kept: 30000..39999."""
    return 30_000 <= kind < 40_000


def has_versions(kind: int) -> bool:
    """True where a newer event replaces an older one: replaceable and addressable kinds."""
    return is_replaceable(kind) or is_addressable(kind)


def is_ephemeral(kind: int) -> bool:
    """True where an event is passed on and never kept: 20000..29999."""
    return kind in EPHEMERAL


def is_regular(kind: int) -> bool:
    """True where every event is kept: all kinds that no other class claims.

    NIP-01 leaves 2, 45 to 999 and 40000 to 65535 unclassified; relays keep them as regular.
    """
    return not (has_versions(kind) or is_ephemeral(kind))
