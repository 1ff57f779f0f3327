"""Convert events to rows and back.

Hex becomes bytes, tags become JSON, and indexed tags become keyed hashes.
"""

from __future__ import annotations

import string
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nostr_client.codecs.event import Event, parse_event
from nostr_client.errors import StoreCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


LETTERS = frozenset(string.ascii_letters)
"""The tag names that filters can contain (NIP-01)."""

CACHE_SIZE = 100_000
"""Most remembered hashes, about 20 MB. A third of the tags name a few thousand people and notes."""


class TagHasher:
    """Hashes a tag's name and value to a signed 64-bit integer, the range of SQLite's INTEGER."""

    def __init__(self, key: bytes, *, bits: int = 64) -> None:
        self._state = blake2b(key=key, digest_size=8)
        self._shift = 64 - bits
        self._cache: dict[str, dict[str, int]] = {letter: {} for letter in LETTERS}
        self._cached = 0

    def __call__(self, name: str, value: str) -> int:
        """Return the hash of one tag. `name` is one ASCII letter."""
        found = self._cache[name].get(value)
        return self._compute(name, value) if found is None else found

    def of_tags(self, tags: Iterable[Sequence[str]]) -> set[int]:
        """Return the distinct hashes of the indexed tags.

        Indexed are tags with a one-letter name and a value.
        """
        of_name, compute, hashes = self._cache.get, self._compute, set()
        for tag in tags:
            known = of_name(tag[0])
            if known is not None and len(tag) > 1:
                h = known.get(tag[1])
                hashes.add(compute(tag[0], tag[1]) if h is None else h)
        return hashes

    def _compute(self, name: str, value: str) -> int:
        state = self._state.copy()
        state.update((name + value).encode())
        h = int.from_bytes(state.digest(), "big", signed=True) >> self._shift
        if len(value) <= 100:
            self._remember(name, value, h)
        return h

    def _remember(self, name: str, value: str, h: int) -> None:
        if self._cached >= CACHE_SIZE:
            self._cached = 0
            for known in self._cache.values():
                known.clear()
        self._cached += 1
        self._cache[name][value] = h


EVENT_COLUMNS = "e.id, u.pubkey, e.created_at, e.kind, e.tags, e.content, e.sig"
EVENT_TABLES = "event e JOIN author u ON u.a = e.a"

PART_BYTES = 8 * 2**20
"""Bytes of texts and blobs after which a list of rows ends. One event may have a megabyte."""

INSERT_EVENT = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_TAG = "INSERT INTO tag VALUES (?, ?, ?, ?, ?)"

_hex = bytes.hex  # bytes only: a damaged column may hold a float, which also has `hex`
encode_tags = msgspec.json.Encoder().encode
_decode_tags = msgspec.json.Decoder(tuple[tuple[str, ...], ...]).decode


def decode_tags(raw: bytes) -> tuple[tuple[str, ...], ...]:
    """Return the tags of the column `tags`. Raises StoreCorrupt."""
    try:
        return _decode_tags(raw)
    except (msgspec.DecodeError, TypeError) as error:
        raise StoreCorrupt("an event's tags are damaged") from error


def read_event(row: Sequence[Any]) -> Event:
    """Return the event of a row of EVENT_COLUMNS. Raises StoreCorrupt."""
    id_, pubkey, created_at, kind, tags, content, sig = row
    check_numbers(created_at, kind)
    try:
        return Event(
            _hex(id_),
            _hex(pubkey),
            created_at,
            kind,
            _decode_tags(tags),
            content.decode(),
            _hex(sig),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise StoreCorrupt("an event's row is damaged") from error


class JsonEvent(NamedTuple):
    """A stored event as JSON, with the fields that decide its place in an answer."""

    id: str
    created_at: int
    kind: int
    json: bytes
    """The bytes that `Event.to_json` would give."""

    expires: int | None = None
    """Unix seconds, or None."""

    def parsed(self) -> Event:
        """Return the event of the JSON."""
        return parse_event(self.json)


def read_json(row: Sequence[Any], expires: int | None = None) -> JsonEvent:
    """Return the JSON of a row of EVENT_COLUMNS without making an event. Raises StoreCorrupt.

    The column `tags` is JSON already, and is only checked.
    """
    id_, pubkey, created_at, kind, tags, content, sig = row
    check_numbers(created_at, kind)
    try:
        _decode_tags(tags)
        hex_id, text = _hex(id_), encode_tags(content.decode()).decode()
        made = (
            f'{{"id":"{hex_id}","pubkey":"{_hex(pubkey)}","created_at":{created_at},"kind":{kind},'
            f'"tags":{tags.decode()},"content":{text},"sig":"{_hex(sig)}"}}'
        )
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise StoreCorrupt("an event's row is damaged") from error
    return JsonEvent(hex_id, created_at, kind, made.encode(), expires)


def check_numbers(created_at: object, kind: object) -> None:
    """Raise StoreCorrupt unless both are integers.

    A column of a damaged page may have any type.
    """
    if type(created_at) is not int or type(kind) is not int:
        raise StoreCorrupt("an event's row is damaged")


def read_events(rows: Iterable[Sequence[Any]]) -> list[Event]:
    """Return the events of rows of EVENT_COLUMNS. Raises StoreCorrupt."""
    return [read_event(row) for row in rows]


def in_parts(rows: Iterable[tuple[Any, ...]], most: int) -> Iterator[list[tuple[Any, ...]]]:
    """Yield lists of at most `most` rows.

    A list ends earlier after the row that fills PART_BYTES.
    """
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


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from nostr_client.codecs.event import Tags

    TagRow = tuple[int, int, int, int, int]


class TagRows:
    """Collects the tag rows of events. `of_tags` returns the hashes of an event's tags."""

    def __init__(self, of_tags: Callable[[Tags], Collection[int]]) -> None:
        self._of_tags = of_tags
        self._hashes: list[int] = []
        self._counts: list[int] = []
        self._events: list[int] = []

    def add(self, event: Event, seq: int, a: int) -> None:
        """Add the rows of one event. `a` is its author's number."""
        hashes = self._of_tags(event.tags)
        if hashes:
            self._hashes.extend(hashes)
            self._counts.append(len(hashes))
            self._events.extend((event.created_at, seq, event.kind, a))

    def ordered(self) -> Iterator[TagRow]:
        """Yield rows for INSERT_TAG in ascending order of their hash. Loads numpy."""
        import numpy as np

        hashes = np.array(self._hashes, np.int64)
        order = hashes.argsort(kind="stable")
        of_event = np.repeat(np.arange(len(self._counts)), self._counts)[order]
        columns = np.array(self._events, np.int64).reshape(-1, 4)[of_event].T
        rest: Iterable[list[int]] = (column.tolist() for column in columns)
        return zip(hashes[order].tolist(), *rest, strict=True)
