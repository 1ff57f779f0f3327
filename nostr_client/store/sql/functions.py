"""Define SQL functions in Python for the views.

They compute identifiers, profiles, the target of a reaction and the amount of a zap. They use the
rules of `codecs`, like counts and derived tables.
"""

from __future__ import annotations

import re
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
"""Character that replaces a NUL, because SQLite's JSON functions end a text at a NUL."""

_KEY: Final = re.compile("[0-9a-f]{64}")

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def add_functions(conn: sqlite3.Connection) -> None:
    """Register the functions that the views call on a connection."""
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
    """Return the tags of a row as JSON text without a NUL."""
    if b"\\u0000" not in raw:
        return raw.decode("utf-8", "replace")
    shown = [[part.replace(NUL, SHOWN_NUL) for part in tag] for tag in decode_tags(raw)]
    return encode_tags(shown).decode()


def private(kind: int, tags: bytes, content: bytes) -> bool:
    """Return whether an event is private (`codecs.private_kinds`)."""
    return is_private(_event(kind, tags, content.decode("utf-8", "replace")))


def npub(pubkey: object) -> str | None:
    """Return the NIP-19 form of a public key, of 32 bytes or of their hex; None for anything
    else."""
    text = pubkey.hex() if isinstance(pubkey, bytes) else pubkey
    if not isinstance(text, str) or not _KEY.fullmatch(text):
        return None
    return nip19.PublicKey(text).encode()


def profile(content: bytes | None, field: str) -> str | None:
    """Return one text of a profile's content (kind 0).

    Returns None if the text is missing or the content is not a JSON object.
    """
    if content is None:
        return None
    try:
        found = _decode(content).get(field)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def reacted_to_of(tags: bytes) -> str | None:
    """Return the id of the event to which a reaction belongs (NIP-25)."""
    return reacted_to(_event(REACTION, tags))


def label_of(content: bytes) -> str:
    """Return the label of a reaction: `+`, `-`, or its text."""
    return reaction_label(_event(REACTION, b"[]", content.decode("utf-8", "replace")))


def place_of(tags: bytes, target: str) -> str | None:
    """Return `direct` or `thread` for a reply to a target (NIP-10), or None for a mention."""
    return reply_place(_event(TEXT_NOTE, tags), target)


@lru_cache(64)  # SQLite calls it for each column of a zap
def zap_of(tags: bytes) -> str | None:
    """Return the zap of a valid receipt (NIP-57) as a JSON array, or None for an invalid receipt.

    The array has millisats, sender, receiver and target.
    """
    found = read_zap(_event(RECEIPT, tags))
    if found is None:
        return None
    parts = (found.amount, found.sender, found.receiver, found.about)
    return msgspec.json.encode(parts).decode()


def _event(kind: int, tags: bytes, content: str = "") -> Event:
    """Return an event for rules that read only kind, tags and content."""
    return Event("", "", 0, kind, _tags(tags), content, "")


@lru_cache(256)  # SQLite calls it for each tag of a note
def _tags(raw: bytes) -> Tags:
    try:
        return decode_tags(raw)
    except StoreCorrupt:
        return ()
