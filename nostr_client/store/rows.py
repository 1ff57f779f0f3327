"""Events as rows and back: hex as bytes, tags as their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nostr_client.errors import StoreCorrupt
from nostr_client.event import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

EVENT_COLUMNS = "e.id, u.pubkey, e.created_at, e.kind, e.tags, e.content, e.sig"
EVENT_TABLES = "event e JOIN author u ON u.a = e.a"

PART_BYTES = 8 * 2**20
"""Bytes of texts and blobs after which a list of rows ends: an event may have a megabyte."""

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


def in_parts(rows: Iterable[tuple[Any, ...]], most: int) -> Iterator[list[tuple[Any, ...]]]:
    """Rows in lists of at most `most`; one ends sooner with the row that fills PART_BYTES."""
    part: list[tuple[Any, ...]] = []
    left = PART_BYTES
    for row in rows:
        part.append(row)
        left -= sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(part) == most or left <= 0:
            yield part
            part, left = [], PART_BYTES
    if part:
        yield part
