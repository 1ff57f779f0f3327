"""Signed events for store tests, made from few keys, so that the same one is made twice alike."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.sync.files.jsonl import export_jsonl

if TYPE_CHECKING:
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.store.sqlite import SqliteStore

NOW = 1_750_000_000


@cache
def signer(number: int) -> KeySigner:
    return KeySigner((number + 1).to_bytes(32, "big"), rand=bytes)


def make(
    author: int = 0,
    kind: int = 1,
    *,
    at: int = NOW - 1_000,
    tags: tuple[tuple[str, ...], ...] = (),
    content: str = "",
) -> VerifiedEvent:
    template = EventTemplate(kind=kind, created_at=at, tags=tags, content=content)
    return signer(author).sign_now(template)


def pubkey(author: int) -> str:
    return signer(author).pubkey


async def exported(store: SqliteStore, *filters: Filter) -> bytes:
    """The events of a store as an export writes them."""
    out = io.BytesIO()
    await export_jsonl(store.export(filters), out.write)
    return out.getvalue()
