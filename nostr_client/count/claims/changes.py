"""Which events a relay gave newly, and which it gives no longer: the log of its known events.

A row is one event of one relay for one query; of a replaceable kind, it is one author, whose newer
versions change nothing here. What a relay gave by its first complete reading has no row until it is
gone. Live events of relays that give no events have a table of their own, and so have newer lists
that no longer match, each with the relay that gave it. The last answer of each day of a relay stays
too. Functions work over a
connection, in the caller's transaction. Times are Unix seconds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import hll
from nostr_client.count.figures import LARGEST, PastClaim
from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from nostr_client.count.claims.coverage import HeldEvent
    from nostr_client.count.merge import Claim

DAY: Final = 86_400
KEEP_S: Final = 92 * DAY
"""Seconds that a loss and a live event are remembered: a quarter year, as hourly numbers are."""

MOST_RECEIVED: Final = 10_000
"""Received events of one query; the oldest are removed when there are more."""

MOST_CHANGES: Final = 10_000
"""Changes of one relay for one query; the oldest are removed when there are more.

A relay can replace all its events each round, so their number is its choice. This many are more
than a list of people shows, and a few megabytes.
"""

MOST_LEFT: Final = 10_000
"""Newer lists of one relay for one query that no longer match; those proven first are removed when
there are more. Anybody can make keys that follow and unfollow."""

_TABLES: Final = """
CREATE TABLE claim_change (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    member BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    author BLOB NOT NULL,
    amount INTEGER NOT NULL,
    known_at INTEGER,
    found_at INTEGER,
    lost_at INTEGER,
    PRIMARY KEY (q, r, member)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim_past (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    day INTEGER NOT NULL,
    asked_at REAL NOT NULL,
    status TEXT NOT NULL,
    method TEXT,
    count INTEGER,
    registers BLOB,
    PRIMARY KEY (q, r, day)
) STRICT, WITHOUT ROWID
"""

_RECEIVED: Final = """
DROP TABLE IF EXISTS claim_received;
CREATE TABLE claim_received (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    member BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    author BLOB NOT NULL,
    amount INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    is_new INTEGER NOT NULL,
    PRIMARY KEY (q, r, member)
) STRICT, WITHOUT ROWID
"""

_LEFT: Final = """
CREATE TABLE IF NOT EXISTS claim_left (q, author, created_at, id, size, earlier, proven_at);
ALTER TABLE claim_left RENAME TO claim_left_before;
CREATE TABLE claim_left (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    author BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    size INTEGER NOT NULL,
    earlier INTEGER NOT NULL,
    proven_at INTEGER NOT NULL,
    PRIMARY KEY (q, r, author)
) STRICT, WITHOUT ROWID;
INSERT INTO claim_left SELECT q, 0, author, created_at, id, size, earlier, proven_at
 FROM claim_left_before;
DROP TABLE claim_left_before
"""

CHANGES: Final = Schema("nostr_tally.changes", partial(run_script, script=_TABLES))
RECEIVED: Final = Schema("nostr_tally.received", partial(run_script, script=_RECEIVED))
"""A table of an older file does not have the relays, so nobody knows of which watch its rows are.
"""

LEFT: Final = Schema("nostr_tally.left", partial(run_script, script=_LEFT))
"""Rows of an older file do not have their relays: they are of relay 0, and so of no watch. Once a
relay gives the same list, its row has the time of the older one."""

TABLES: Final = ("claim_change", "claim_received", "claim_left", "claim_past")

_ROW: Final = "q, r, member, created_at, id, author, amount"
_FOUND: Final = (
    f"INSERT INTO claim_change ({_ROW}, known_at, found_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET created_at = excluded.created_at, id = excluded.id,"
    " amount = excluded.amount, found_at = excluded.found_at, lost_at = NULL"
)
_FOUND_EARLY: Final = (
    "UPDATE claim_change SET created_at = ?, id = ?, amount = ?, lost_at = NULL"
    " WHERE q = ? AND r = ? AND member = ?"
)
_LOST: Final = (
    f"INSERT INTO claim_change ({_ROW}, lost_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET created_at = excluded.created_at, id = excluded.id,"
    " amount = excluded.amount, lost_at = excluded.lost_at"
)
_SURPLUS: Final = (
    "DELETE FROM claim_change WHERE q = ?1 AND r = ?2 AND member IN (SELECT member"
    " FROM claim_change WHERE q = ?1 AND r = ?2"
    " ORDER BY coalesce(lost_at, found_at, 0) DESC, lost_at IS NOT NULL, member"
    " LIMIT -1 OFFSET ?3)"
)
_ANSWER: Final = (
    "INSERT INTO claim_past VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " asked_at = excluded.asked_at, status = excluded.status, method = excluded.method,"
    " count = excluded.count, registers = excluded.registers"
    " WHERE excluded.status = 'ok' OR claim_past.status <> 'ok'"
)


class LiveEvent(NamedTuple):
    """A live event of a relay (`url`) whose events are not read, and when it came.

    `is_new`: its author is provably not in the registers that the watch's relays gave before.
    """

    url: str
    event: HeldEvent
    at: int
    is_new: bool


class Departure(NamedTuple):
    """A newer list of an author that no longer matches the question.

    `size` counts the keys that it names, `earlier` those of the last list that matched; 0 if that
    is not known.
    """

    author: bytes
    created_at: int
    id: bytes
    size: int
    earlier: int
    proven_at: int


class ChangeLog:
    """Writes the changes of one relay's known events for one query.

    `replaces`: only an author's newest event counts, so a row stands for an author.
    """

    def __init__(self, conn: sqlite3.Connection, q: int, r: int, *, replaces: bool) -> None:
        self._conn = conn
        self._key = (q, r)
        self._replaces = replaces

    def note(
        self,
        lost: Iterable[HeldEvent],
        fresh: Iterable[HeldEvent],
        replaced: Collection[HeldEvent],
        at: int,
        *,
        was_whole: bool,
    ) -> None:
        """Record events that are gone and events that came; `replaced` are the older versions.

        The newest MOST_CHANGES stay; an event whose row is removed is like one of the first
        reading.
        `was_whole`: the relay was read completely before. What came until then is not news.
        """
        gone, came = self._members(lost), self._members(fresh)
        older = self._members(replaced).keys() | (gone.keys() & came.keys())
        fell = [(member, one) for member, one in gone.items() if member not in came]
        rows = [(*self._key, member, *_fields(one), at) for member, one in fell]
        self._conn.executemany(_LOST, rows)
        news = [(member, one) for member, one in came.items() if was_whole and member not in older]
        found = [(*self._key, member, *_fields(one), at, at) for member, one in news]
        self._conn.executemany(_FOUND, found)
        known = came.keys() - {member for member, _ in news}
        self._conn.executemany(_FOUND_EARLY, [self._version(m, came[m]) for m in known])
        if fell or news:
            self._remove_old(at)

    def _remove_old(self, at: int) -> None:
        """Remove losses of long ago, then the oldest changes above MOST_CHANGES."""
        sql = "DELETE FROM claim_change WHERE q = ? AND r = ? AND lost_at < ?"
        self._conn.execute(sql, (*self._key, at - KEEP_S))
        sql = "SELECT count(*) FROM claim_change WHERE q = ? AND r = ?"
        (number,) = self._conn.execute(sql, self._key).fetchone()
        if number > MOST_CHANGES:
            self._conn.execute(_SURPLUS, (*self._key, MOST_CHANGES))

    def _members(self, events: Iterable[HeldEvent]) -> dict[bytes, HeldEvent]:
        counted = (one for one in events if one.counts)
        return {_member(one, self._replaces): one for one in counted}

    def _version(self, member: bytes, one: HeldEvent) -> tuple[object, ...]:
        return (one.created_at, one.id, one.amount, *self._key, member)


def _member(one: HeldEvent, replaces: bool) -> bytes:
    return one.author if replaces else one.id


def _fields(one: HeldEvent) -> tuple[int, bytes, bytes, int]:
    return one.created_at, one.id, one.author, one.amount


def note_received(
    conn: sqlite3.Connection, q: int, received: Sequence[tuple[int, LiveEvent]], *, replaces: bool
) -> None:
    """Store live events with the numbers of their relays.

    Of a replaceable kind, what was known of the author stays. An author is new only if all copies
    of the event say so. A newer version says nothing of it: registers have the author by then.
    """
    sql = (
        "INSERT INTO claim_received VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
        " SET created_at = excluded.created_at, id = excluded.id, amount = excluded.amount,"
        " is_new = is_new AND (excluded.is_new OR id <> excluded.id)"
    )
    rows = [
        (q, r, _member(one.event, replaces), *_fields(one.event), one.at, one.is_new)
        for r, one in received
    ]
    conn.executemany(sql, rows)
    if rows:
        conn.execute(
            "DELETE FROM claim_received WHERE q = ?1 AND (received_at < ?2 OR received_at <"
            " (SELECT received_at FROM claim_received WHERE q = ?1"
            " ORDER BY received_at DESC LIMIT 1 OFFSET ?3))",
            (q, rows[-1][-2] - KEEP_S, MOST_RECEIVED),
        )


def leave(conn: sqlite3.Connection, q: int, r: int, departures: Iterable[Departure]) -> None:
    """Store newer lists of a relay that no longer match: of each author the newest, and at most
    MOST_LEFT."""
    sql = (
        "INSERT INTO claim_left VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ifnull((SELECT proven_at"
        " FROM claim_left WHERE q = ?1 AND r = 0 AND author = ?3 AND id = ?5), ?8))"
        " ON CONFLICT DO UPDATE SET"
        " created_at = excluded.created_at, id = excluded.id, size = excluded.size,"
        " earlier = excluded.earlier, proven_at = excluded.proven_at"
        " WHERE excluded.created_at > claim_left.created_at"
    )
    conn.executemany(sql, [(q, r, *one) for one in departures])
    conn.execute(
        "DELETE FROM claim_left WHERE q = ?1 AND r = ?2 AND author IN (SELECT author"
        " FROM claim_left WHERE q = ?1 AND r = ?2 ORDER BY proven_at DESC, author"
        " LIMIT -1 OFFSET ?3)",
        (q, r, MOST_LEFT),
    )


def day_of(claim: Claim) -> int | None:
    """Return the day of a claim, in days since 1970; None if its relay was not asked."""
    return None if claim.asked_at is None else int(claim.asked_at) // DAY


def note_answers(
    conn: sqlite3.Connection, q: int, claims: Sequence[tuple[int, Claim]], new_day: Collection[int]
) -> None:
    """Store what relays answered to a query, with their numbers: the last of each day.

    A failure does not replace an answer of its day. Registers of a reading that is not complete are
    left out: reading on raises them. `new_day`: the relays whose answers of long ago are removed.
    """
    rows = [
        (
            *(q, r, day_of(claim), claim.asked_at, claim.status.value),
            None if claim.method is None else claim.method.value,
            claim.count,
            claim.registers if claim.reading is None or claim.reading.complete else None,
        )
        for r, claim in claims
        if claim.asked_at is not None
    ]
    conn.executemany(_ANSWER, rows)
    old = [(q, r, int(at - KEEP_S) // DAY) for _, r, _, at, *_ in rows if r in new_day]
    if old:
        conn.executemany("DELETE FROM claim_past WHERE q = ? AND r = ? AND day < ?", old)


def past_answers(conn: sqlite3.Connection, key: str, url: str) -> list[PastClaim]:
    """Return the last answer of each day of a relay to a question, newest first."""
    sql = (
        "SELECT asked_at, status, method, count, registers FROM claim_past"
        " JOIN claim_query USING (q) JOIN claim_relay USING (r)"
        " WHERE key = ? AND url = ? ORDER BY day DESC"
    )
    return [
        PastClaim(
            asked_at=at,
            status=status,
            method=method,
            count=None if count is None else min(count, LARGEST),
            estimate=None if registers is None else round(hll.estimate(registers), 1),
        )
        for at, status, method, count, registers in conn.execute(sql, (key, url))
    ]
