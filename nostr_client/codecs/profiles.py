"""Names of people from their profiles (kind 0), made safe to show. Pure.

A name is what its owner wants to be called: anybody may take any name, so the key stands behind it
wherever it is shown. Sources: NIP-01 (`name`), NIP-24 (`display_name`). Its `nip05` is not
resolved, pictures are not fetched.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.kinds import METADATA
from nostr_client.errors import clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nostr_client.codecs.event import Event

NAME_BYTES: Final = 64
"""UTF-8 bytes of a name that are shown, before escapes: longer ones hide the key behind them."""

MOST_CONTENT: Final = 65_536
"""Characters of a profile that is parsed: real ones have some 600."""

MOST_MARKS: Final = 3
"""Combining marks on one letter: writing systems need no more, and stacks of them cover lines."""

_FIELDS: Final = ("display_name", "name")

_KEPT_OUT: Final = re.compile(r"n(?:pub|sec|profile|event|addr|ote)1|[0-9a-f]{40}")
"""What looks like an identifier, however short: we show keys with their middle left out."""

_ADDRESS: Final = re.compile(r"://|@|\w\.\w\w")
"""What programs make a link of, or a mention."""

_STYLES: Final = dict.fromkeys(map(ord, "\ufe0e\ufe0f"))
"""Variation selectors that choose between text and emoji: dropped, as nearly all emoji have one."""

_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
"""Characters that Python calls printable and that show nothing (Default_Ignorable_Code_Point of
Unicode, and the blank Braille pattern)."""


def visible(text: str, limit: int = NAME_BYTES) -> str:
    """Return foreign text as one line of characters that can be seen, in their own order.

    Cut to `limit` UTF-8 bytes. Control, zero-width and direction-changing characters, and marks
    beyond `MOST_MARKS` on one letter, become escapes as `\\x202e`.
    """
    clipped = clip(text.translate(_STYLES).strip(), limit)
    if clipped.isascii():
        return clipped
    return _without_stacks(_BLANK.sub(_escape, clipped))


def _escape(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def _without_stacks(text: str) -> str:
    shown, marks = [], MOST_MARKS
    for c in text:
        marks = marks + 1 if unicodedata.category(c) in ("Mn", "Me") else 0
        shown.append(c if marks <= MOST_MARKS else f"\\x{ord(c):02x}")
    return "".join(shown)


def profile_name(content: str) -> str | None:
    """Return the name in the content of a kind 0 event, safe to show; None where it has none.

    `display_name` comes before `name`. A name that holds an identifier or a key is not shown: it
    would be taken for the key behind it.
    """
    if len(content) > MOST_CONTENT:
        return None
    try:
        found = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    texts = (found.get(field) for field in _FIELDS)
    names = (visible(text) for text in texts if isinstance(text, str))
    return next((name for name in names if name and not _KEPT_OUT.search(_folded(name))), None)


def _folded(name: str) -> str:
    """Return a name as it looks: letters of other widths and cases are the same."""
    return unicodedata.normalize("NFKC", name).casefold()


def is_address(name: str) -> bool:
    """Whether a program that shows links and mentions may make one of this name."""
    return _ADDRESS.search(_folded(name)) is not None


def names_of(profiles: Iterable[Event]) -> dict[str, str]:
    """Return the name of each author (hex) by the newest of these kind 0 events."""
    newest: dict[str, Event] = {}
    for event in profiles:
        known = newest.get(event.pubkey)
        if event.kind == METADATA and (known is None or nip01_order(event) < nip01_order(known)):
            newest[event.pubkey] = event
    named = ((pubkey, profile_name(event.content)) for pubkey, event in newest.items())
    return {pubkey: name for pubkey, name in named if name is not None}


def person(pubkey: str, names: Mapping[str, str]) -> str:
    """Return a key (hex) as people read it: `Alice (npub1...)`, or the npub of one without a name.

    `names` come from `names_of`. Raises InvalidIdentifier.
    """
    npub = nip19.PublicKey(pubkey).encode()
    name = names.get(pubkey)
    return npub if name is None else f"{name} ({npub})"
