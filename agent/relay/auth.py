"""NIP-42: is this AUTH event an answer to our challenge? Pure but for the signature check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.errors import InvalidEvent, InvalidRelayURL
from nostr_client.keys import verify
from nostr_client.kinds import CLIENT_AUTH
from nostr_client.relayurl import normalize

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from nostr_client.event import Event

MAX_KEYS = 32
"""Keys that one connection may prove: apps hold a handful, each costs a set entry per query."""


def auth_refusal(
    event: Event, challenge: str, urls: AbstractSet[str], now: float, window_s: int
) -> str:
    """Why `event` does not prove its key on this connection, or ""; `now` in Unix seconds."""
    if event.kind != CLIENT_AUTH:
        return f"invalid: AUTH takes an event of kind {CLIENT_AUTH}"
    if event.first_tag("challenge") != challenge:
        return "invalid: not the challenge of this connection"
    if _normal(event.first_tag("relay")) not in urls:
        return "invalid: the relay tag names another relay"
    if abs(event.created_at - now) > window_s:
        return f"invalid: created_at is more than {window_s} s from now"
    try:
        verify(event)
    except InvalidEvent as error:
        return f"invalid: {error}"
    return ""


def _normal(url: str | None) -> str | None:
    try:
        return normalize(url or "")
    except InvalidRelayURL:
        return None
