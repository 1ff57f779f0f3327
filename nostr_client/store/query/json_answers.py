"""Answer a short question with the JSON of its events, most of which a cache has.

The same newest events are asked for again and again. An event never changes, and its `seq` is never
used twice. One statement on an index therefore returns the numbers of the events, and the cache has
their JSON by number. A second statement reads the events that the cache does not have.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.codecs.event import Tags
from nostr_client.store.lookup import rows_in
from nostr_client.store.query.select import TimeBounds, plan, select
from nostr_client.store.query.short_answers import MOST_BYTES
from nostr_client.store.rows import read_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.store.query.select import QueryContext
    from nostr_client.store.rows import JsonEvent

    Key = tuple[int, int]  # created_at, seq

CACHE_BYTES: Final = 4 * 2**20
"""Bytes of remembered events: several thousand notes, and little beside a reader's page cache."""

MOST_JSON: Final = 2 * MOST_BYTES
"""Most bytes of the JSON of a short answer: escapes and the other fields make it longer."""

_ENTRY_BYTES: Final = 400
"""Bytes of an entry without its JSON."""

_KEYS = "k.created_at, k.seq"
_SMALL = f"CASE WHEN length(e.tags) + length(e.content) <= {MOST_BYTES} THEN"
_EVENTS = (
    f"SELECT e.seq, e.id, u.pubkey, e.created_at, e.kind, {_SMALL} e.tags END,"
    f" {_SMALL} e.content END, e.sig, e.exp"
    " FROM event e JOIN author u ON u.a = e.a WHERE e.seq IN"
)
_BY_ID, _BY_TIME = itemgetter(0), itemgetter(1)


class JsonAnswer(NamedTuple):
    """The JSON of events, newest first, then by id. `more` says that the limit left out events."""

    events: list[JsonEvent]
    more: bool


class JsonCache:
    """The JSON of events that were asked for lately, by `seq`. It is bounded in bytes.

    If the newer half is full, it becomes the older half, and the events of the older half that
    nobody asked for meanwhile are forgotten.
    """

    def __init__(self, most: int = CACHE_BYTES) -> None:
        self._most = most // 2
        self._bytes = 0
        self._newer: dict[int, JsonEvent] = {}
        self._older: dict[int, JsonEvent] = {}

    def get(self, seqs: Sequence[int]) -> list[JsonEvent | None]:
        """Return the event of each number, or None."""
        found = list(map(self._newer.get, seqs))
        if None in found and self._older:
            return [
                self._promoted(seq) if one is None else one
                for seq, one in zip(seqs, found, strict=True)
            ]
        return found

    def _promoted(self, seq: int) -> JsonEvent | None:
        found = self._older.pop(seq, None)
        if found is not None:
            self.add(seq, found)
        return found

    def add(self, seq: int, event: JsonEvent) -> None:
        """Remember an event."""
        self._bytes += len(event.json) + _ENTRY_BYTES
        if self._bytes > self._most:
            self._older, self._newer = self._newer, {}
            self._bytes = len(event.json) + _ENTRY_BYTES
        self._newer[seq] = event


def short_json(
    conn: sqlite3.Connection, context: QueryContext, filter: Filter, limit: int, cache: JsonCache
) -> JsonAnswer | None:
    """Return the answer of a short question as JSON, or None. Raises StoreCorrupt.

    `limit` is that of `short_answers.limit_of`.
    """
    keys = _keys(conn, context, filter, limit + 1)
    more = len(keys) > limit
    if more and keys[limit - 1][0] == keys[limit][0]:
        return None  # the ids decide which of the events of one second are within the limit
    found = _events(conn, keys[:limit], cache)
    if found is None:
        return None
    shown = _shown(filter, found, context.now)
    return None if more and len(shown) < len(found) else JsonAnswer(_sorted(shown), more)


def _keys(conn: sqlite3.Connection, context: QueryContext, filter: Filter, limit: int) -> list[Key]:
    """Return the time and number of the newest matching events, newest first."""
    chosen = plan(conn, context, filter, expired=True)
    if chosen.nothing:
        return []
    columns = _KEYS if chosen.unique else f"DISTINCT {_KEYS}"
    window = TimeBounds(filter.since, filter.until)
    newest = select(chosen, columns, window, limit=limit, order="k.created_at DESC")
    return conn.execute(newest.sql, newest.params).fetchall()


def _events(
    conn: sqlite3.Connection, keys: Sequence[Key], cache: JsonCache
) -> list[JsonEvent] | None:
    """Return the events of keys, in order.

    Returns None if there are too many bytes or a row is damaged. The general way then reports it.
    """
    found = cache.get([seq for _, seq in keys])
    if None in found:
        missing = [seq for (_, seq), one in zip(keys, found, strict=True) if one is None]
        read = _read(conn, missing, cache)
        if read is None:
            return None
        found = [
            read.get(key[1]) if one is None else one for key, one in zip(keys, found, strict=True)
        ]
    events = [one for one in found if one is not None]
    if [one.created_at for one in events] != [at for at, _ in keys]:
        return None
    return events if sum([len(one.json) for one in events]) <= MOST_JSON else None


def _read(
    conn: sqlite3.Connection, seqs: Sequence[int], cache: JsonCache
) -> dict[int, JsonEvent] | None:
    read: dict[int, JsonEvent] = {}
    left = MOST_BYTES
    for seq, *row, expires in rows_in(conn, _EVENTS, seqs):
        tags, content = row[4], row[5]
        if type(tags) is not bytes or type(content) is not bytes:
            return None
        left -= len(tags) + len(content)
        if left < 0:
            return None
        read[seq] = read_json(row, expires)
        cache.add(seq, read[seq])
    return read


def _shown(filter: Filter, found: list[JsonEvent], now: int) -> list[JsonEvent]:
    """Return the events without expired ones and without collisions of tag hashes."""
    shown = [one for one in found if one.expires is None or one.expires > now]
    if not filter.tags:
        return shown
    return [one for one in shown if filter.matches_tags(_decode_tags_only(one.json).tags)]


class _TagsOnly(msgspec.Struct, gc=False):
    tags: Tags


_decode_tags_only = msgspec.json.Decoder(_TagsOnly).decode


def _sorted(events: list[JsonEvent]) -> list[JsonEvent]:
    """Sort events of one second by id. They are newest first already."""
    if len({one.created_at for one in events}) == len(events):
        return events
    events.sort(key=_BY_ID)
    events.sort(key=_BY_TIME, reverse=True)
    return events
