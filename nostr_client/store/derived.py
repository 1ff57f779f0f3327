"""Check everything that a store derives from its events.

The derived data are columns, the tag index, blocks of deleted events, and fingerprints. `store
verify`, a backup and `--check` of a rebuild run this check. The check reads everything in one
snapshot. Its result says what a repair must do.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

import msgspec

from nostr_client.codecs import kinds
from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidInput
from nostr_client.negentropy.chunks import head_of, record, records
from nostr_client.store import rules
from nostr_client.store.base import SaveStatus
from nostr_client.store.index.update import ALIAS
from nostr_client.store.lookup import rows_in
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, read_event, read_events
from nostr_client.store.tombstones import event_of, from_store, tombstones

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from nostr_client.store.base import DifferenceLog


BUCKETS: Final = 1024
LIVE: Final = "live"
"""Schema name of the attached live index."""

_OF_CLEAN: Final = f"""
SELECT name, value, kind, registers FROM {{s}}.hot b WHERE NOT EXISTS
(SELECT 1 FROM {LIVE}.hot l WHERE l.name = b.name AND l.value = b.value AND l.kind = b.kind
 AND l.dirty)
"""
_OF_DIRTY: Final = f"""
SELECT l.name, l.value, l.kind, l.registers, b.registers FROM {LIVE}.hot l
JOIN {ALIAS}.hot b ON l.name = b.name AND l.value = b.value AND l.kind = b.kind WHERE l.dirty
"""


class TableShape(NamedTuple):
    """SQL that reads a table, and the number of key columns."""

    sql: str
    keys: int


SHAPES: Final = {
    "hot": TableShape("SELECT name, value, kind, events, authors FROM {s}.hot", 3),
    "hot_author": TableShape(
        "SELECT name, value, kind, a, n FROM {s}.hot_author JOIN {s}.hot USING (t)", 4
    ),
    "registers": TableShape(_OF_CLEAN, 3),
    "daily": TableShape("SELECT * FROM {s}.daily", 2),
    "daily_author": TableShape("SELECT * FROM {s}.daily_author", 3),
    "zap": TableShape("SELECT * FROM {s}.zap", 2),
}

KEY_TEXTS: Final = {
    "hot": "{0} of kind {2}: {1}",
    "hot_author": "{3} in {0} of kind {2}: {1}",
    "registers": "{0} of kind {2}: {1}",
    "daily": "{0}, kind {1}",
    "daily_author": "{2} on {0}, kind {1}",
    "zap": "{0}: {1}",
}
"""How the text of a row's key is written.

The part that differs most from row to row comes first.
"""

_PERSON: Final = {"hot_author": 3, "daily_author": 2}
_DAY: Final = ("daily", "daily_author")
_EPOCH: Final = date(1970, 1, 1).toordinal()

Sums = list[list[int]]


class Key(NamedTuple):
    """Key of a row. Its text is made only when the row is shown."""

    conn: sqlite3.Connection
    table: str
    parts: tuple[Any, ...]

    def __str__(self) -> str:
        parts: list[Any] = [one if printable(one) else repr(one) for one in self.parts]
        if self.table in _PERSON:
            at = _PERSON[self.table]
            sql = "SELECT lower(hex(pubkey)) FROM author WHERE a = ?"
            found = self.conn.execute(sql, (parts[at],)).fetchone()
            parts[at] = found[0] if found else f"nobody ({parts[at]})"
        if self.table in _DAY:
            parts[0] = _day(parts[0])
        return KEY_TEXTS[self.table].format(*parts)


def printable(part: object) -> bool:
    """Return whether a part of a key can be shown as it is."""
    return not isinstance(part, str) or (part.isprintable() and part != "")


def _day(number: object) -> str:
    try:
        return str(date.fromordinal(_EPOCH + int(str(number))))
    except (ValueError, OverflowError):
        return f"day {number}"


def compare(conn: sqlite3.Connection, found: DifferenceLog) -> None:
    """Compare every table of the attached rebuilt index with the attached live index."""
    for table, shape in SHAPES.items():
        _compare_table(conn, table, shape, found)
    for *key, live, rebuilt in conn.execute(_OF_DIRTY):
        if any(a < b for a, b in zip(live, rebuilt, strict=True)):
            key_of_row = Key(conn, "registers", tuple(key))
            found.add(
                "registers", key_of_row, "a dirty target's registers are below what was rebuilt"
            )


def _compare_table(
    conn: sqlite3.Connection, table: str, shape: TableShape, found: DifferenceLog
) -> None:
    rebuilt = sums(conn.execute(shape.sql.format(s=ALIAS)), shape.keys)
    live = sums(conn.execute(shape.sql.format(s=LIVE)), shape.keys)
    found.compared[table] = sum(rebuilt[0])
    unequal = unequal_buckets(rebuilt, live)
    if not unequal:
        return
    ours = dict(_within(conn.execute(shape.sql.format(s=ALIAS)), shape.keys, unequal))
    theirs = dict(_within(conn.execute(shape.sql.format(s=LIVE)), shape.keys, unequal))
    for key in sorted(ours.keys() | theirs.keys(), key=repr):
        if ours.get(key) != theirs.get(key):
            found.add(table, Key(conn, table, key), _cause(theirs.get(key), ours.get(key)))


def _cause(live: tuple[Any, ...] | None, rebuilt: tuple[Any, ...] | None) -> str:
    if live is None:
        return "the live index misses it"
    if rebuilt is None:
        return "the events do not give it"
    if isinstance(live[0], bytes):
        return "the registers of a clean target are not those of its authors"
    return f"live {', '.join(map(str, live))}; rebuilt {', '.join(map(str, rebuilt))}"


def bucket_of(key: object) -> int:
    """Return the bucket of a key."""
    return crc32(repr(key).encode()) % BUCKETS


def sums(rows: Iterable[tuple[Any, ...]], keys: int) -> Sums:
    """Return the number of rows and the sum of their crc32, for each bucket."""
    numbers, totals = [0] * BUCKETS, [0] * BUCKETS
    for row in rows:
        at = bucket_of(row[:keys])
        numbers[at] += 1
        totals[at] += crc32(repr(row).encode())
    return [numbers, totals]


def unequal_buckets(one: Sums, other: Sums) -> set[int]:
    """Return the buckets in which the two sides differ."""
    return {at for at in range(BUCKETS) if one[0][at] != other[0][at] or one[1][at] != other[1][at]}


def _within(
    rows: Iterable[tuple[Any, ...]], keys: int, buckets: set[int]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    for row in rows:
        if bucket_of(row[:keys]) in buckets:
            yield row[:keys], row[keys:]


if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator

    from nostr_client.store.base import DifferenceLog
    from nostr_client.store.rows import TagHasher
    from nostr_client.store.tombstones import EventRow, Tombstones

    TagRow = tuple[int, int, int, int, int]

MOST_REPAIRS: Final = 100_000
"""Most places that one repair corrects. A second repair corrects the rest."""

_TAGS: Final = "SELECT h, created_at, seq, kind, a FROM tag"
_CHUNKS: Final = "SELECT lo_ts, lo_id, n, sum, ids FROM neg_chunk WHERE scope = ?"
_LOG: Final = "SELECT ts, id, gone FROM neg_log WHERE n > ? ORDER BY n"
_ALL: Final = f"SELECT {EVENT_COLUMNS} FROM {EVENT_TABLES}"
_EVERYTHING: Final = Filter()


class Repairs(msgspec.Struct, frozen=True):
    """What a repair must do.

    Events are given by seq, events to remove by id in hex, scopes by their filter.
    """

    tags: tuple[int, ...] = ()
    dead: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    requests: tuple[int, ...] = ()
    scopes: tuple[str, ...] = ()


class DerivedCheck:
    """One check of one snapshot, which lasts as long as the connection's transaction.

    - `urls`: normalised relay addresses that requests to vanish may name.
    - `damaged`: seqs of events that cannot be read. The check leaves them out, and also every test
      that needs all events.
    """

    def __init__(
        self,
        conn: sqlite3.Connection,
        hasher: TagHasher,
        found: DifferenceLog,
        *,
        urls: Collection[str] = (),
        damaged: Collection[int] = (),
    ) -> None:
        self._conn = conn
        self._hasher = hasher
        self._found = found
        self._urls = urls
        self._damaged = damaged
        self._a: dict[bytes, int] = {}

    def run(self) -> Repairs:
        """Run the check and add the differences to `found`.

        Raises StoreCorrupt and InvalidInput.
        """
        self._a = dict(self._conn.execute("SELECT pubkey, a FROM author"))
        blocked = None if self._damaged else tombstones(self._true_rows, self._urls, None)
        dead, columns, wanted = self._walk(blocked)
        tags = tuple(self._tags(wanted))[:MOST_REPAIRS]
        if self._damaged:
            return Repairs(tags=tags, columns=tuple(columns)[:MOST_REPAIRS])
        return Repairs(
            tags=tags,
            dead=tuple(dead)[:MOST_REPAIRS],
            columns=tuple(columns)[:MOST_REPAIRS],
            requests=tuple(self._requests())[:MOST_REPAIRS],
            scopes=tuple(self._fingerprints()),
        )

    def _rows(self) -> Iterator[EventRow]:
        return from_store(self._conn, skip=self._damaged)

    def _walk(self, blocked: Tombstones | None) -> tuple[list[str], list[int], Sums]:
        """Return dead events, events with wrong columns, and sums of the expected tag rows."""
        dead: list[str] = []
        columns: list[int] = []
        wanted: Sums = [[0] * BUCKETS, [0] * BUCKETS]
        events = 0
        for row in self._rows():
            events += 1
            true = _true(row)
            status = SaveStatus.STORED if blocked is None else blocked.status(true)
            if status is not SaveStatus.STORED:
                dead.append(row.id.hex())
                self._found.add("event", row.id.hex(), f"it is stored, but it is {status}")
            if row != true:
                columns.append(row.seq or 0)
                column = "address" if row.d != true.d else "expiration"
                cause = f"the {column} column does not fit the event"
                self._found.add("event", row.id.hex(), cause)
            _sum(wanted, self._tag_rows(row))
        self._found.compared["event"] = events
        self._found.compared["tag"] = sum(wanted[0])
        return dead, columns, wanted

    def _true_rows(self) -> Iterable[EventRow]:
        return map(_true, self._rows())

    def _tag_rows(self, row: EventRow) -> Iterator[TagRow]:
        a, seq = self._a.get(row.pubkey, 0), row.seq or 0
        for h in self._hasher.of_tags(row.tags):
            yield h, row.created_at, seq, row.kind, a

    def _held_tags(self) -> Iterable[TagRow]:
        rows: Iterable[TagRow] = self._conn.execute(_TAGS)
        return (row for row in rows if row[2] not in self._damaged) if self._damaged else rows

    def _tags(self, wanted: Sums) -> Iterator[int]:
        """Yield the seqs of events whose rows in the tag index do not match their tags."""
        held: Sums = [[0] * BUCKETS, [0] * BUCKETS]
        _sum(held, self._held_tags())
        unequal = unequal_buckets(wanted, held)
        if not unequal:
            return
        ids = {row.seq: row.id.hex() for row in self._rows()}
        rows = (row for row in self._rows() if (row.seq or 0) % BUCKETS in unequal)
        ours = {one for row in rows for one in self._tag_rows(row)}
        theirs = {row for row in self._held_tags() if row[2] % BUCKETS in unequal}
        for seq in sorted({row[2] for row in ours ^ theirs}):
            less = sum(row[2] == seq for row in ours - theirs)
            more = sum(row[2] == seq for row in theirs - ours)
            cause = f"tag index: {plural(less, 'row')} missing, {more:,} that should not be there"
            self._found.add("tag", ids.get(seq, f"seq {seq}"), cause)
            yield seq

    def _requests(self) -> Iterator[int]:
        """Yield the seqs of requests whose ids, addresses or authors are not blocked."""
        for row in from_store(self._conn, kinds=(kinds.DELETION, kinds.VANISH)):
            if row.kind == kinds.DELETION and not self._blocks(row):
                self._found.add("tomb", row.id.hex(), "what it deletes is not blocked")
                yield row.seq or 0
            elif row.kind == kinds.VANISH and not self._vanishes(row):
                self._found.add("vanished", row.id.hex(), "its author is not blocked")
                yield row.seq or 0

    def _blocks(self, row: EventRow) -> bool:
        wanted, a = rules.deletion(event_of(row)), self._a.get(row.pubkey)
        ids = {bytes.fromhex(id_) for id_ in wanted.ids}
        rows = rows_in(self._conn, "SELECT id, a FROM tomb_id WHERE id IN", list(ids))
        sql = "SELECT until FROM tomb_addr WHERE a = ? AND kind = ? AND d = ?"
        untils = [
            self._conn.execute(sql, (a, one.kind, one.d)).fetchone() for one in wanted.addresses
        ]
        held = {id_ for id_, by in rows if by == a}
        return ids <= held and all(until and until[0] >= row.created_at for until in untils)

    def _vanishes(self, row: EventRow) -> bool:
        if not rules.vanishes_here(event_of(row), self._urls):
            return True
        sql = "SELECT until FROM vanished WHERE a = ?"
        until = self._conn.execute(sql, (self._a.get(row.pubkey),)).fetchone()
        return until is not None and until[0] >= row.created_at

    def _fingerprints(self) -> Iterator[str]:
        """Yield the filters of the scopes whose chunks and log together do not match the events."""
        present = "SELECT 1 FROM sqlite_schema WHERE name = 'neg_scope'"
        if self._conn.execute(present).fetchone() is None:
            return
        scopes = self._conn.execute("SELECT scope, filter, folded FROM neg_scope").fetchall()
        self._found.compared["fingerprint"] = len(scopes)
        for scope, text, folded in scopes:
            filter = Filter.from_json(text)
            held = _held_records(self._conn, scope)
            if held is not None:
                _apply_log(self._conn, held, folded, filter)
            if held is None or held != _matching(self._conn, filter):
                cause = "the kept fingerprints are not those of the events"
                self._found.add("fingerprint", text, cause)
                yield text


def _true(row: EventRow) -> EventRow:
    """Return the row with the column values that its event gives."""
    event = event_of(row)
    return row._replace(d=rules.d_of(event), exp=rules.expiration(event))


def _sum(sums: Sums, rows: Iterable[TagRow]) -> None:
    numbers, totals = sums
    for row in rows:
        at = row[2] % BUCKETS
        numbers[at] += 1
        totals[at] += crc32(repr(row).encode())


def _held_records(conn: sqlite3.Connection, scope: int) -> set[bytes] | None:
    """Return the records of a scope's chunks.

    Returns None if a chunk is damaged or does not match its head.
    """
    held: set[bytes] = set()
    number = 0
    for stamp, id_, n, total, packed in conn.execute(_CHUNKS, (scope,)):
        try:
            head = head_of(packed)
        except InvalidInput:
            return None
        if (head.stamp, head.id, head.count) != (stamp, id_, n):
            return None
        if head.total.to_bytes(32, "little") != total:
            return None
        held.update(records(packed))
        number += n
    return held if len(held) == number else None


def _apply_log(conn: sqlite3.Connection, held: set[bytes], folded: int, filter: Filter) -> None:
    final = {record(ts, id_): gone for ts, id_, gone in conn.execute(_LOG, (folded,))}
    held.difference_update(final)
    came = {one for one, gone in final.items() if not gone}
    if filter != _EVERYTHING:
        rows = rows_in(conn, f"{_ALL} WHERE e.id IN", [one[8:] for one in came])
        matching = {bytes.fromhex(e.id) for e in read_events(rows) if filter.matches(e)}
        came = {one for one in came if one[8:] in matching}
    held.update(came)


def _matching(conn: sqlite3.Connection, filter: Filter) -> set[bytes]:
    if filter == _EVERYTHING:
        return {record(at, id_) for at, id_ in conn.execute("SELECT created_at, id FROM event")}
    events = (read_event(row) for row in conn.execute(_ALL))
    return {record(e.created_at, bytes.fromhex(e.id)) for e in events if filter.matches(e)}
