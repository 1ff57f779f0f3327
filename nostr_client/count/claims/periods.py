"""When each relay began and ceased to answer a question, and when its registers changed.

A row is a time in which the relay stayed the same: it answered with the same registers, or it
failed. So what a relay showed at any time can be read again: the last answer of a day is not
enough for two digests of one day. The newest row has the registers; an older row has only those
that differ from the row after it, because few of 256 registers change at once. Functions work over
a connection, in the caller's transaction. Times are Unix seconds.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nostr_client.count.claims.changes import KEEP_S
from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from nostr_client.count.merge import Claim

MOST_PERIODS: Final = 1_000
"""Rows of one relay for one query; the oldest are removed when there are more.

256 registers rise about 1,800 times until 100,000 people were counted, most often at the start. A
relay that fails every other time decides how many rows there are.
"""

_APART_S: Final = 0.001
"""Seconds between two rows if the clock does not say that time passed."""

_TABLE: Final = """
CREATE TABLE claim_period (
    q INTEGER NOT NULL,
    r INTEGER NOT NULL,
    begun_at REAL NOT NULL,
    last_at REAL NOT NULL,
    answers INTEGER NOT NULL,
    registers BLOB,
    PRIMARY KEY (q, r, begun_at)
) STRICT, WITHOUT ROWID
"""

PERIODS: Final = Schema("nostr_tally.periods", partial(run_script, script=_TABLE))
TABLES: Final = ("claim_period",)

_LAST: Final = (
    "(SELECT max(coalesce(answered_at, asked_at)) FROM claim c WHERE c.q = p.q AND c.r = p.r)"
)
"""When a relay was last asked: the claims say it, and the newest row is not written each time."""
_ENDED: Final = (
    "(EXISTS (SELECT 1 FROM claim c WHERE c.q = p.q AND c.r = p.r AND NOT answered)"
    " OR EXISTS (SELECT 1 FROM claim_members m WHERE m.q = p.q AND m.r = p.r))"
)
"""Whether a new answer has something to remove: a failure, or what was said of single events."""
_NEWEST: Final = (
    f"SELECT r, {_ENDED}, begun_at, max(last_at, ifnull({_LAST}, 0)), answers, registers"
    " FROM json_each(?2) wanted JOIN claim_period p ON p.q = ?1 AND p.r = wanted.value"
    " AND begun_at = (SELECT max(begun_at) FROM claim_period WHERE q = ?1 AND r = wanted.value)"
)
_SURPLUS: Final = (
    "DELETE FROM claim_period WHERE q = ?1 AND r = ?2 AND (last_at < ?3 OR begun_at <="
    " (SELECT begun_at FROM claim_period WHERE q = ?1 AND r = ?2"
    " ORDER BY begun_at DESC LIMIT 1 OFFSET ?4))"
)
_END: Final = (
    "UPDATE claim_period SET last_at = ?, registers = ? WHERE q = ? AND r = ? AND begun_at = ?"
)
_ROWS: Final = (
    "SELECT url, begun_at, last_at, answers, registers, said FROM"
    " (SELECT q, r, url, max(coalesce(answered_at, asked_at)) AS said,"
    " ifnull((SELECT max(begun_at) FROM claim_period p"
    " WHERE p.q = c.q AND p.r = c.r AND p.answers AND begun_at <= ?2), 0) AS back"
    " FROM claim c JOIN claim_query USING (q) JOIN claim_relay USING (r)"
    " WHERE key = ?1 GROUP BY q, r)"
    " JOIN claim_period USING (q, r) WHERE begun_at >= back ORDER BY url, begun_at DESC"
)
"""The rows back to the one in which a relay last answered at a time: older ones say nothing."""


class Standing(NamedTuple):
    """What a relay showed at a time.

    `answers`: whether it answered, or failed. `answered_at`: its last answer of that time, None
    without one. `registers`: the last ones until then, None if there were none. `seen_at`: when it
    was last asked at all.
    """

    answers: bool
    answered_at: float | None
    registers: bytes | None
    seen_at: float


class _Period(NamedTuple):
    begun_at: float
    last_at: float
    answers: int
    registers: bytes | None


def note_periods(conn: sqlite3.Connection, q: int, claims: Sequence[tuple[int, Claim]]) -> set[int]:
    """Store how relays answered to a query, with their numbers; call it before the claims are.

    Returns the relays with rows that a new answer removes: failures, and answers about events.
    An answer without registers leaves those of before. Registers of a reading that is not complete
    are no others: reading on raises them.
    """
    wanted = json.dumps([r for r, _ in claims])
    rows = conn.execute(_NEWEST, (q, wanted)).fetchall()
    newest = {r: _Period(*row) for r, _, *row in rows}
    for r, claim in claims:
        at, last = claim.answered_at or claim.asked_at, newest.get(r)
        if at is None:
            continue
        is_whole = claim.reading is None or claim.reading.complete
        registers = claim.registers if is_whole else None
        registers = registers or (None if last is None else last.registers)
        answers = claim.status.value == "ok"
        if last is None or (bool(last.answers), last.registers) != (answers, registers):
            _begin(conn, q, r, _Period(at, at, answers, registers), last)
    return {r for r, ended, *_ in rows if ended}


def _begin(conn: sqlite3.Connection, q: int, r: int, period: _Period, last: _Period | None) -> None:
    """Insert a row, and end the row before it."""
    at = period.begun_at
    if last is not None:
        at = max(at, last.begun_at + _APART_S)
        changed = _difference(last.registers, period.registers)
        conn.execute(_END, (last.last_at, changed, q, r, last.begun_at))
    sql = "INSERT INTO claim_period VALUES (?, ?, ?, ?, ?, ?)"
    conn.execute(sql, (q, r, at, at, period.answers, period.registers))
    conn.execute(_SURPLUS, (q, r, at - KEEP_S, MOST_PERIODS))


def _difference(before: bytes | None, after: bytes | None) -> bytes | None:
    """Return the registers of `before` that differ, as pairs of position and value."""
    if before is None or after is None:
        return None
    pairs = ((n, was) for n, (was, now) in enumerate(zip(before, after, strict=True)) if was != now)
    return bytes(byte for pair in pairs for byte in pair)


def _earlier(after: bytes | None, difference: bytes | None) -> bytes | None:
    """Return the registers before `after`, by what `_difference` returned."""
    if after is None or difference is None:
        return None
    found = bytearray(after)
    for n, was in zip(difference[::2], difference[1::2], strict=True):
        found[n] = was
    return bytes(found)


def standings(conn: sqlite3.Connection, key: str, at: float) -> dict[str, Standing]:
    """Return what relays showed at a time for a question, by URL, as far as the store knows."""
    rows = groupby(conn.execute(_ROWS, (key, at)), key=itemgetter(0))
    found = {url: _standing(_periods(mine), at) for url, mine in rows}
    return {url: one for url, one in found.items() if one is not None}


def _periods(rows: Iterable[tuple[Any, ...]]) -> list[_Period]:
    """Return the rows of one relay, newest first; the newest one lasts until the newest claim."""
    found = [(_Period(*row), said) for _, *row, said in rows]
    newest, said = found[0]
    lasting = newest._replace(last_at=max(newest.last_at, said or 0.0))
    return [lasting, *(one for one, _ in found[1:])]


def _standing(newest_first: Sequence[_Period], at: float) -> Standing | None:
    registers: bytes | None = None
    for n, one in enumerate(newest_first):
        registers = _earlier(registers, one.registers) if n else one.registers
        if one.begun_at <= at:
            answered = next((o.last_at for o in newest_first[n:] if o.answers), None)
            last = None if answered is None else min(answered, at)
            return Standing(bool(one.answers), last, registers, min(one.last_at, at))
    return None
