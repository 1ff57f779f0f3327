"""Events as rows and back: hex as bytes, tags as their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nostr_client.errors import StoreCorrupt
from nostr_client.event import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EVENT_COLUMNS = "e.id, u.pubkey, e.created_at, e.kind, e.tags, e.content, e.sig"
EVENT_TABLES = "event e JOIN author u ON u.a = e.a"

INSERT_EVENT = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_TAG = "INSERT INTO tag VALUES (?, ?, ?, ?, ?)"

encode_tags = msgspec.json.Encoder().encode
_decode_tags = msgspec.json.Decoder(tuple[tuple[str, ...], ...]).decode


def decode_tags(raw: bytes) -> tuple[tuple[str, ...], ...]:
    """The `tags` column of an event. Raises StoreCorrupt."""
    try:
        return _decode_tags(raw)
    except (msgspec.DecodeError, TypeError) as error:
        raise StoreCorrupt("an event's tags are damaged") from error


def read_event(row: Sequence[Any]) -> Event:
    """The event of a row of EVENT_COLUMNS. Raises StoreCorrupt."""
    id_, pubkey, created_at, kind, tags, content, sig = row
    try:
        return Event(
            id_.hex(),
            pubkey.hex(),
            created_at,
            kind,
            _decode_tags(tags),
            content.decode(),
            sig.hex(),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise StoreCorrupt("an event's row is damaged") from error


def read_events(rows: Iterable[Sequence[Any]]) -> list[Event]:
    """The events of rows of EVENT_COLUMNS. Raises StoreCorrupt."""
    return [read_event(row) for row in rows]
