"""The derived parts of `store.db` against its events: columns, tag index, requests, counters.

Everything is read in one snapshot. What is found is told with what a repair has to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from agent.reindex.compare import BUCKETS, Found, Sums, unequal_buckets
from agent.reindex.dead import Requests
from agent.reindex.fingerprintcheck import check_fingerprints
from agent.reindex.protocol import Repairs
from agent.reindex.rows import event_of, from_store
from nostr_client import kinds
from nostr_client.counters import audit
from nostr_client.counters.engine.read import steps
from nostr_client.errors import CounterError
from nostr_client.store import rules
from nostr_client.store.base import Status
from nostr_client.store.lookup import rows_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from agent.reindex.inputs import Settings
    from agent.reindex.rows import Row
    from nostr_client.store.index_schema import Mark
    from nostr_client.store.taghash import TagHasher

    TagRow = tuple[int, int, int, int, int]

MOST_REPAIRS: Final = 100_000
"""Places that one repair mends; a second one mends the rest."""

_TAGS: Final = "SELECT h, created_at, seq, kind, a FROM tag"


class StoreCheck:
    """One check of one snapshot, which lasts as long as the connection's transaction."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        hasher: TagHasher,
        mark: Mark,
        settings: Settings,
        found: Found,
    ) -> None:
        self._conn = conn
        self._hasher = hasher
        self._mark = mark
        self._settings = settings
        self._found = found
        self._a: dict[bytes, int] = {}

    def run(self) -> Repairs:
        """Check everything."""
        self._a = dict(self._conn.execute("SELECT pubkey, a FROM author"))
        requests = Requests(self._settings, expires=False)
        requests.note(map(_true, self._rows()))
        requests.settle()
        requests.rank(map(_true, self._rows()))
        dead, columns, wanted = self._walk(requests)
        self._counters()
        return Repairs(
            tags=tuple(self._tags(wanted))[:MOST_REPAIRS],
            dead=tuple(dead)[:MOST_REPAIRS],
            columns=tuple(columns)[:MOST_REPAIRS],
            requests=tuple(self._requests())[:MOST_REPAIRS],
            scopes=tuple(check_fingerprints(self._conn, self._found)),
        )

    def _rows(self) -> Iterator[Row]:
        return from_store(self._conn, self._mark)

    def _walk(self, requests: Requests) -> tuple[list[str], list[int], Sums]:
        """Status and columns of each event, and the buckets of the tag rows it should have."""
        dead: list[str] = []
        columns: list[int] = []
        wanted: Sums = [[0] * BUCKETS, [0] * BUCKETS]
        events = 0
        for row in self._rows():
            events += 1
            true = _true(row)
            status = requests.status(true)
            if status is not Status.STORED:
                dead.append(row.id.hex())
                self._found.add("event", row.id.hex(), f"it is stored, but it is {status}")
            if row != true:
                columns.append(row.seq or 0)
                self._found.add("event", row.id.hex(), "its address or expiration does not fit")
            _sum(wanted, self._tag_rows(row))
        self._found.compared["event"] = events
        return dead, columns, wanted

    def _tag_rows(self, row: Row) -> Iterator[TagRow]:
        a, seq = self._a.get(row.pubkey, 0), row.seq or 0
        for h in self._hasher.of_tags(row.tags):
            yield h, row.created_at, seq, row.kind, a

    def _tags(self, wanted: Sums) -> Iterator[int]:
        """Events whose rows of the tag index are not what their tags give."""
        held: Sums = [[0] * BUCKETS, [0] * BUCKETS]
        _sum(held, self._conn.execute(_TAGS))
        self._found.compared["tag"] = sum(held[0])
        unequal = unequal_buckets(wanted, held)
        if not unequal:
            return
        rows = (row for row in self._rows() if (row.seq or 0) % BUCKETS in unequal)
        ours = {one for row in rows for one in self._tag_rows(row)}
        theirs = {row for row in self._conn.execute(_TAGS) if row[2] % BUCKETS in unequal}
        for seq in sorted({row[2] for row in ours ^ theirs}):
            less = sum(row[2] == seq for row in ours - theirs)
            more = sum(row[2] == seq for row in theirs - ours)
            cause = f"of the tag index, {less} rows are missing, {more} should not be"
            self._found.add("tag", f"seq {seq}", cause)
            yield seq

    def _requests(self) -> Iterator[int]:
        """Requests whose ids, addresses or authors are not blocked."""
        for row in self._rows():
            if row.kind == kinds.DELETION and not self._blocks(row):
                self._found.add("tomb", row.id.hex(), "what it deletes is not blocked")
                yield row.seq or 0
            elif row.kind == kinds.VANISH and not self._vanishes(row):
                self._found.add("vanished", row.id.hex(), "its author is not blocked")
                yield row.seq or 0

    def _blocks(self, row: Row) -> bool:
        wanted, a = rules.deletion(event_of(row)), self._a.get(row.pubkey)
        ids = {bytes.fromhex(id_) for id_ in wanted.ids}
        rows = rows_in(self._conn, "SELECT id, a FROM tomb_id WHERE id IN", list(ids))
        sql = "SELECT until FROM tomb_addr WHERE a = ? AND kind = ? AND d = ?"
        untils = [
            self._conn.execute(sql, (a, one.kind, one.d)).fetchone() for one in wanted.addresses
        ]
        held = {id_ for id_, by in rows if by == a}
        return ids <= held and all(until and until[0] >= row.created_at for until in untils)

    def _vanishes(self, row: Row) -> bool:
        if not rules.vanishes_here(event_of(row), self._settings.urls):
            return True
        sql = "SELECT until FROM vanished WHERE a = ?"
        until = self._conn.execute(sql, (self._a.get(row.pubkey),)).fetchone()
        return until is not None and until[0] >= row.created_at

    def _counters(self) -> None:
        """Counters whose kept messages do not add up to their value."""
        present = "SELECT 1 FROM sqlite_schema WHERE name = 'counter_latest'"
        if self._conn.execute(present).fetchone() is None:
            return
        subjects = self._conn.execute("SELECT stream, subject FROM counter_latest").fetchall()
        self._found.compared["counter"] = len(subjects)
        for stream, subject in subjects:
            try:
                holds = audit.recount(steps(self._conn, stream, subject)).holds
            except (CounterError, TypeError, ValueError) as error:  # its digits may be no text
                self._found.add("counter", subject, f"its messages cannot be read: {error}")
                continue
            if not holds:
                self._found.add("counter", subject, "its kept messages do not add up to its value")


def _true(row: Row) -> Row:
    """The row with the columns that its event gives."""
    event = event_of(row)
    return row._replace(d=rules.d_of(event), exp=rules.expiration(event))


def _sum(sums: Sums, rows: Iterator[TagRow] | sqlite3.Cursor) -> None:
    numbers, totals = sums
    for row in rows:
        at = row[2] % BUCKETS
        numbers[at] += 1
        totals[at] += crc32(repr(row).encode())
