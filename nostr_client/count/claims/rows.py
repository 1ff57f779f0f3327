"""Claims as rows of the store: functions over a connection, inside the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from nostr_client.count.claims.changes import TABLES as CHANGED
from nostr_client.count.claims.changes import note_answers
from nostr_client.count.claims.held import ClaimMembers, HeldRows, is_complete, pack, unpack
from nostr_client.count.claims.memory import reading_of
from nostr_client.count.claims.periods import TABLES as PERIODS
from nostr_client.count.claims.periods import note_periods
from nostr_client.count.merge import Claim, ClaimStatus, Method, Retracted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Sequence

ROUND_S: Final = 60
"""Seconds in which a reading is of now: nothing is thought to go within a round."""

_encode: Final = msgspec.json.Encoder().encode
_COLUMNS: Final = (
    "name",
    "status",
    "method",
    "count",
    "count_high",
    "approximate",
    "limited",
    "registers",
    "events_read",
    "bytes_read",
    "last_read",
    "asked_at",
    "answered_at",
    "latency_ms",
    "warnings",
)
_SELECT: Final = f"SELECT url, r, answered, {', '.join('c.' + name for name in _COLUMNS)}"
_UPSERT: Final = (
    f"INSERT OR REPLACE INTO claim (q, r, answered, {', '.join(_COLUMNS)})"
    f" VALUES (?, ?, ?{', ?' * len(_COLUMNS)})"
)


class StoredQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query in the store: one `key` for all spellings of the same question.

    `offset` is its HLL offset, or None. `sums`: its events have values to sum. `replaces`: only an
    author's newest event counts.
    """

    key: str
    name: str
    target: str | None
    filters: str
    offset: int | None = None
    sums: bool = False
    replaces: bool = False


class StoredAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The stored answers of one relay: the newest answer, and a failure if that is newer.

    A bare zero is stored as a failure: one relay family refuses so.
    """

    url: str
    answer: Claim | None = None
    failure: Claim | None = None

    def usable(self, now: float, keep: float) -> Claim | None:
        """Return the answer to count with, unless it is older than `keep` seconds."""
        if self.answer is None or now - (self.answer.asked_at or 0.0) > keep:
            return None
        return self.answer


def is_answer(claim: Claim) -> bool:
    """Whether a claim may replace an earlier answer."""
    return claim.answered and not claim.weak_zero


def held_rows(conn: sqlite3.Connection, q: int, r: int, asked: StoredQuery) -> HeldRows:
    """Return the known events of a relay for a query, by their numbers."""
    return HeldRows(conn, q, r, asked.offset, replaces=asked.replaces)


def query_number(conn: sqlite3.Connection, asked: StoredQuery) -> int:
    """Return the row of a query; insert a new one."""
    row = conn.execute("SELECT q FROM claim_query WHERE key = ?", (asked.key,)).fetchone()
    if row is not None:
        return int(row[0])
    sql = "INSERT INTO claim_query (key, name, target, filters) VALUES (?, ?, ?, ?) RETURNING q"
    (q,) = conn.execute(sql, (asked.key, asked.name, asked.target, asked.filters)).fetchone()
    return int(q)


def relay_number(conn: sqlite3.Connection, url: str) -> int:
    """Return the row of a relay; insert a new one."""
    row = conn.execute("SELECT r FROM claim_relay WHERE url = ?", (url,)).fetchone()
    if row is not None:
        return int(row[0])
    (r,) = conn.execute("INSERT INTO claim_relay (url) VALUES (?) RETURNING r", (url,)).fetchone()
    return int(r)


def remember(
    conn: sqlite3.Connection, q: int, claims: Sequence[tuple[int, Claim]], new_day: Collection[int]
) -> None:
    """Store claims about one query, with the numbers of their relays; an answer ends an earlier
    failure.

    `new_day`: the relays whose answers of long ago are removed, once a day.
    """
    ended = note_periods(conn, q, claims)
    _end_earlier(conn, q, [r for r, claim in claims if r in ended and is_answer(claim)])
    conn.executemany(_UPSERT, [(q, r, is_answer(claim), *_row(claim)) for r, claim in claims])
    packed = [(q, r, pack(members)) for r, claim in claims if (members := _members(claim))]
    if packed:
        conn.executemany("INSERT OR REPLACE INTO claim_members VALUES (?, ?, ?)", packed)
    note_answers(conn, q, claims, new_day)


def _end_earlier(conn: sqlite3.Connection, q: int, answered: Sequence[int]) -> None:
    """Remove failures, and what earlier answers said about single events; one statement for all."""
    if answered:
        relays = f"q = ? AND r IN (?{', ?' * (len(answered) - 1)})"
        conn.execute(f"DELETE FROM claim WHERE {relays} AND answered = 0", (q, *answered))
        conn.execute(f"DELETE FROM claim_members WHERE {relays}", (q, *answered))


def _members(claim: Claim) -> ClaimMembers | None:
    if not is_answer(claim):
        return None
    nothing = claim.listing is None and claim.retracted == Retracted()
    return None if nothing else ClaimMembers(claim.listing, claim.retracted)


def recall(
    conn: sqlite3.Connection, asked: StoredQuery, urls: Iterable[str] | None, now: int
) -> list[StoredAnswers]:
    """Return the relays' answers to a query, by URL; all of them if `urls` is None.

    Answers by events come with the known events, as of `now`.
    """
    row = conn.execute("SELECT q FROM claim_query WHERE key = ?", (asked.key,)).fetchone()
    if row is None:
        return []
    wanted = None if urls is None else set(urls)
    found: dict[str, StoredAnswers] = {}
    for url, answered, claim in _claims(conn, int(row[0]), asked, wanted, now):
        before = found.get(url, StoredAnswers(url=url))
        changes = {"answer": claim} if answered else {"failure": claim}
        found[url] = msgspec.structs.replace(before, **changes)
    return [found[url] for url in sorted(found)]


def registers_of(
    conn: sqlite3.Connection, name: str | None, *, but: str, since: float, most: int
) -> list[dict[str, bytes]]:
    """Return the registers of each relay, by URL, in the newest questions of a name; None: of all.

    `but`: the key of a question that is left out. `since`: older answers are left out. Of a relay
    that was read to its end they are those of the people that were read; of one that was not, none.
    """
    newest = (
        "SELECT q FROM claim JOIN claim_query t USING (q)"
        " WHERE (?1 IS NULL OR t.name = ?1) AND t.key <> ?2"
        " GROUP BY q ORDER BY max(asked_at) DESC LIMIT ?3"
    )
    sql = (
        "SELECT c.q, url, method, c.registers, m.registers, m.mark FROM claim c"
        " JOIN claim_relay USING (r) LEFT JOIN claim_mark m ON m.q = c.q AND m.r = c.r"
        f" WHERE c.q IN ({newest}) AND answered = 1 AND asked_at >= ?4"
    )
    found: dict[int, dict[str, bytes]] = {}
    for q, url, method, said, read, mark in conn.execute(sql, (name, but, most, since)):
        registers = said
        if method == Method.EVENTS:
            registers = read if mark is not None and is_complete(mark) else None
        if registers is not None:
            found.setdefault(q, {})[url] = registers
    return list(found.values())


def forget(conn: sqlite3.Connection, asked: StoredQuery) -> bool:
    """Remove a query with everything known about it; return False if it does not exist."""
    row = conn.execute("SELECT q FROM claim_query WHERE key = ?", (asked.key,)).fetchone()
    if row is None:
        return False
    own = ("claim", "claim_mark", "claim_event", "claim_members")
    for table in (*own, *CHANGED, *PERIODS, "claim_query"):
        conn.execute(f"DELETE FROM {table} WHERE q = ?", row)
    return True


def _claims(
    conn: sqlite3.Connection, q: int, asked: StoredQuery, wanted: set[str] | None, now: int
) -> Iterator[tuple[str, bool, Claim]]:
    sql = f"{_SELECT} FROM claim c JOIN claim_relay USING (r) WHERE q = ?"
    members = dict(conn.execute("SELECT r, members FROM claim_members WHERE q = ?", (q,)))
    for url, r, answered, *columns in conn.execute(sql, (q,)).fetchall():
        if wanted is not None and url not in wanted:
            continue
        claim = _claim(columns)
        if answered and r in members:
            packed = unpack(members[r])
            claim = msgspec.structs.replace(
                claim, listing=packed.listing, retracted=packed.retracted
            )
        if claim.answered and claim.method is Method.EVENTS:
            claim = _with_held(conn, q, r, asked, claim, now)
        yield url, bool(answered), claim


def _with_held(
    conn: sqlite3.Connection, q: int, r: int, asked: StoredQuery, claim: Claim, now: int
) -> Claim:
    """Return a claim by events with the known events; registers and mark are the newest after a
    crash too."""
    held = held_rows(conn, q, r, asked)
    is_of_now = claim.asked_at is not None and claim.asked_at >= now - ROUND_S
    at = held.mark.last_read if is_of_now else None
    reading = reading_of(held, now if at is None else min(at, now), sums=asked.sums)
    return msgspec.structs.replace(
        claim,
        registers=held.registers(),
        last_read=held.mark.last_read if reading.complete else claim.last_read,
        reading=reading,
    )


def _row(claim: Claim) -> tuple[Any, ...]:
    """Return the values of `_COLUMNS`; written out, as every answer of every relay passes here."""
    return (
        claim.relay,
        claim.status.value,
        None if claim.method is None else claim.method.value,
        claim.count,
        claim.count_high,
        claim.approximate,
        claim.limited,
        None if claim.method is Method.EVENTS else claim.registers,
        claim.events_read,
        claim.bytes_read,
        claim.last_read,
        claim.asked_at,
        claim.answered_at,
        claim.latency_ms,
        _encode(claim.warnings).decode(),
    )


def _claim(columns: list[Any]) -> Claim:
    values = dict(zip(_COLUMNS, columns, strict=True))
    values |= {
        "relay": values.pop("name"),
        "status": ClaimStatus(values["status"]),
        "method": None if values["method"] is None else Method(values["method"]),
        "warnings": tuple(msgspec.json.decode(values["warnings"])),
        "approximate": _flag(values["approximate"]),
        "limited": _flag(values["limited"]),
    }
    return Claim(**values)


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


class LastAsked(NamedTuple):
    """When a relay was last asked a question, and last answered; Unix seconds."""

    asked: float
    answered: float | None


def last_asked(conn: sqlite3.Connection) -> dict[tuple[str, str], LastAsked]:
    """Return when each relay was last asked each question, by the question's key and the URL."""
    sql = (
        "SELECT key, url, max(asked_at), max(CASE WHEN answered THEN asked_at END)"
        " FROM claim JOIN claim_query USING (q) JOIN claim_relay USING (r)"
        " WHERE asked_at IS NOT NULL GROUP BY q, r"
    )
    return {(key, url): LastAsked(*times) for key, url, *times in conn.execute(sql)}
