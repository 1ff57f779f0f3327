"""What a client sends: frozen values, each knows its text."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter

_encoder: Final = msgspec.json.Encoder()


def dump(*parts: object) -> str:
    """One frame: a compact JSON array of `parts`."""
    return _encoder.encode(parts).decode()


class Req(msgspec.Struct, frozen=True):
    """Open a subscription (NIP-01). Ids: 1 to 64 characters; other relays want printable ASCII."""

    sub_id: str
    filters: tuple[Filter, ...]

    def to_json(self) -> str:
        """`["REQ", id, filter, ...]`."""
        return dump("REQ", self.sub_id, *(f.to_dict() for f in self.filters))


class Close(msgspec.Struct, frozen=True):
    """End a subscription (NIP-01)."""

    sub_id: str

    def to_json(self) -> str:
        """`["CLOSE", id]`."""
        return dump("CLOSE", self.sub_id)


class Publish(msgspec.Struct, frozen=True):
    """Hand an event over (NIP-01's client EVENT)."""

    event: Event

    def to_json(self) -> str:
        """`["EVENT", event]`."""
        return dump("EVENT", self.event)


class Count(msgspec.Struct, frozen=True):
    """Ask for a count (NIP-45); the id must not be one of an open subscription."""

    query_id: str
    filters: tuple[Filter, ...]

    def to_json(self) -> str:
        """`["COUNT", id, filter, ...]`."""
        return dump("COUNT", self.query_id, *(f.to_dict() for f in self.filters))


class Auth(msgspec.Struct, frozen=True):
    """Answer a challenge with a signed event of kind 22242 (NIP-42)."""

    event: Event

    def to_json(self) -> str:
        """`["AUTH", event]`."""
        return dump("AUTH", self.event)


class NegOpen(msgspec.Struct, frozen=True):
    """Begin a negentropy session (NIP-77); `filter` is a filter, or the id of an event with one."""

    sub_id: str
    filter: Filter | str
    message: bytes

    def to_json(self) -> str:
        """`["NEG-OPEN", id, filter or event id, hex]`."""
        asked: Any = self.filter if isinstance(self.filter, str) else self.filter.to_dict()
        return dump("NEG-OPEN", self.sub_id, asked, self.message.hex())


class NegMsg(msgspec.Struct, frozen=True):
    """One negentropy message, in either direction (NIP-77)."""

    sub_id: str
    message: bytes

    def to_json(self) -> str:
        """`["NEG-MSG", id, hex]`."""
        return dump("NEG-MSG", self.sub_id, self.message.hex())


class NegClose(msgspec.Struct, frozen=True):
    """End a negentropy session (NIP-77)."""

    sub_id: str

    def to_json(self) -> str:
        """`["NEG-CLOSE", id]`."""
        return dump("NEG-CLOSE", self.sub_id)


ClientMessage = Req | Close | Publish | Count | Auth | NegOpen | NegMsg | NegClose
