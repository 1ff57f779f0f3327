"""What the views compute in Python: identifiers, profiles, what a reaction is to, what a zap paid.

The rules are those of `codecs`, by which counts and derived tables go too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.event import Event
from nostr_client.codecs.kinds import REACTION, TEXT_NOTE
from nostr_client.codecs.private_kinds import is_private
from nostr_client.codecs.references import reacted_to, reaction_label, reply_place
from nostr_client.codecs.zaps import RECEIPT, read_zap
from nostr_client.errors import StoreCorrupt
from nostr_client.store.rows import decode_tags, encode_tags

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from nostr_client.codecs.event import Tags

NUL: Final = "\x00"
SHOWN_NUL: Final = "\ufffd"
"""SQLite's JSON functions end a text at a NUL; this sign stands for it."""

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def add_functions(conn: sqlite3.Connection) -> None:
    """Give a connection the functions that the views call."""
    functions: dict[str, tuple[int, Callable[..., str | bool | None]]] = {
        "tags_json": (1, tags_json),
        "is_private": (3, private),
        "npub": (1, npub),
        "profile": (2, profile),
        "reacted_to": (1, reacted_to_of),
        "reaction_label": (1, label_of),
        "reply_place": (2, place_of),
        "zap": (1, zap_of),
    }
    for name, (arguments, function) in functions.items():
        conn.create_function(name, arguments, function, deterministic=True)


def tags_json(raw: bytes) -> str:
    """The tags of a row as JSON text in which nothing ends early."""
    if b"\\u0000" not in raw:
        return raw.decode()
    shown = [[part.replace(NUL, SHOWN_NUL) for part in tag] for tag in decode_tags(raw)]
    return encode_tags(shown).decode()


def private(kind: int, tags: bytes, content: bytes) -> bool:
    """Whether an event is private (`codecs.private_kinds`)."""
    return is_private(_event(kind, tags, content.decode()))


def npub(pubkey: bytes) -> str:
    """The NIP-19 form of a public key."""
    return nip19.PublicKey(pubkey.hex()).encode()


def profile(content: bytes | None, field: str) -> str | None:
    """A text of a profile's content (kind 0); None where it has none, or is no JSON object."""
    if content is None:
        return None
    try:
        found = _decode(content).get(field)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def reacted_to_of(tags: bytes) -> str | None:
    """The event id that a reaction is to (NIP-25)."""
    return reacted_to(_event(REACTION, tags))


def label_of(content: bytes) -> str:
    """What a reaction says: `+`, `-`, or its text."""
    return reaction_label(_event(REACTION, b"[]", content.decode()))


def place_of(tags: bytes, target: str) -> str | None:
    """`direct` or `thread` for a reply to a target (NIP-10), None for a mention."""
    return reply_place(_event(TEXT_NOTE, tags), target)


@lru_cache(64)  # one row asks for each column of its zap
def zap_of(tags: bytes) -> str | None:
    """The zap of a receipt that holds (NIP-57) as a JSON array; None for one that does not.

    The array has millisats, sender, receiver and what was zapped.
    """
    found = read_zap(_event(RECEIPT, tags))
    if found is None:
        return None
    parts = (found.amount, found.sender, found.receiver, found.about)
    return msgspec.json.encode(parts).decode()


def _event(kind: int, tags: bytes, content: str = "") -> Event:
    """An event of which the rules read kind, tags and content alone."""
    return Event("", "", 0, kind, _tags(tags), content, "")


@lru_cache(256)  # a note is asked for each of its tags
def _tags(raw: bytes) -> Tags:
    try:
        return decode_tags(raw)
    except StoreCorrupt:
        return ()
