"""Check a store: its pages, ids, signatures, and derived data."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from nostr_client.codecs.keys import verify_many
from nostr_client.errors import InvalidEvent, InvalidInput, StoreCorrupt
from nostr_client.store import digest
from nostr_client.store.base import PROBLEMS_KEPT, DifferenceLog, StoreProblem, VerifyReport
from nostr_client.store.derived import DerivedCheck
from nostr_client.store.maintain import has_search
from nostr_client.store.query import search
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, in_parts, read_event
from nostr_client.store.schema import NEXT_SEQ

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from nostr_client.codecs.event import Event
    from nostr_client.store.rows import TagHasher

    Progress = Callable[[int, int], None]

CHUNK = 256

_ALL = f"""
SELECT e.seq, {EVENT_COLUMNS} FROM {EVENT_TABLES} ORDER BY e.seq
"""
_NUMBERED = f"""
SELECT 1 FROM meta WHERE key = '{NEXT_SEQ}' AND typeof(value) = 'integer'
AND value > (SELECT ifnull(max(seq), 0) FROM event)
"""
_ORPHANS = "SELECT hex(id) FROM event WHERE a NOT IN (SELECT a FROM author)"


class StoreVerifier:
    """One pass over one snapshot.

    `progress` is called with the number of checked events and the number of all events.
    """

    def __init__(
        self, conn: sqlite3.Connection, hasher: TagHasher, progress: Progress | None = None
    ) -> None:
        self._conn = conn
        self._hasher = hasher
        self._progress = progress
        self._events = 0
        self._tags = 0
        self._found = 0
        self._problems: list[StoreProblem] = []
        self._damaged: set[int] = set()

    def run(self) -> VerifyReport:
        """Check everything. Data that cannot be read is a problem of the report, not an error."""
        try:
            self._pages()
            self._all_events()
            self._authors()
            self._derived()
            self._totals()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_INTERRUPT:
                raise
            self._add("", f"the file cannot be read further: {error}")
        return VerifyReport(
            events=self._events,
            tags=self._tags,
            found=self._found,
            problems=tuple(self._problems),
        )

    def _add(self, id_: str, what: str) -> None:
        self._found += 1
        if len(self._problems) < PROBLEMS_KEPT:
            self._problems.append(StoreProblem(id_, what))

    def _pages(self) -> None:
        for (text,) in self._conn.execute(f"PRAGMA integrity_check({PROBLEMS_KEPT})"):
            if text != "ok":
                self._add("", text)

    def _all_events(self) -> None:
        (total,) = self._conn.execute("SELECT count(*) FROM event").fetchone()
        for rows in in_parts(self._conn.execute(_ALL), CHUNK):
            self._chunk(rows)
            if self._progress is not None:
                self._progress(self._events, total)

    def _chunk(self, rows: Sequence[Sequence[Any]]) -> None:
        events: list[Event] = []
        for row in rows:
            self._events += 1
            try:
                events.append(read_event(row[1:]))
            except StoreCorrupt as error:
                self._damaged.add(row[0])
                self._add(row[1].hex() if isinstance(row[1], bytes) else "", str(error))
        for event, answer in zip(events, verify_many(events), strict=True):
            if isinstance(answer, InvalidEvent):
                self._add(event.id, str(answer))

    def _derived(self) -> None:
        """Check the data derived from the events, without a repair."""
        found = DifferenceLog()
        try:
            DerivedCheck(self._conn, self._hasher, found, damaged=self._damaged).run()
        except (StoreCorrupt, InvalidInput) as error:  # for example an invalid filter
            self._add("", f"derived rows cannot be read: {error}")
        self._tags = found.compared.get("tag", 0)
        for one in found.kept:
            self._add(one.event_id, one.text)
        self._found += found.number - len(found.kept)

    def _totals(self) -> None:
        if has_search(self._conn):
            indexed, expected = search.count(self._conn)
            if indexed != expected:
                self._add("", f"the text index holds {indexed} contents, not {expected}")
        if self._conn.execute(_NUMBERED).fetchone() is None:
            self._add("", "the number of the next event is missing or taken")
        if self._found or not digest.is_kept(self._conn):
            return  # the digest of damaged ids proves nothing further
        if digest.read(self._conn) != digest.compute(self._conn):
            self._add("", "events came or went outside of the rules: the digest does not fit")

    def _authors(self) -> None:
        for (id_,) in self._conn.execute(_ORPHANS):
            self._add(id_.lower(), "its author is missing")
