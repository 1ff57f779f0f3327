"""The known events of one relay for one query, in SQLite: a `ListMemory` that lasts.

Events, mark and registers change in the transaction of the caller, so they agree after any crash.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll
from nostr_client.count.claims.changes import ChangeLog
from nostr_client.count.claims.coverage import VOID, EventChanges, HeldEvent, ReadCoverage
from nostr_client.count.claims.memory import is_newer, supersedes
from nostr_client.count.merge import Listing, Method, Retracted
from nostr_client.count.merge.values import NOTHING_RETRACTED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from nostr_client.count.claims.coverage import Update

_END: Final = 2**63 - 1
_KEY: Final = 32
"""Bytes of a public key, and of an event id."""
_WINDOW: Final = "q = ? AND r = ? AND created_at BETWEEN ? AND ?"
_DELETE: Final = "DELETE FROM claim_event WHERE q = ? AND r = ? AND created_at = ? AND id = ?"
_PLAIN: Final = ("created_at", "id", "author", "amount")
_RECEIPT: Final = (*_PLAIN, "label", "signer", "receiver")
_FOUND_AGAIN: Final = " ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at"
_INSERT: Final = (
    "INSERT INTO claim_event (q, r, created_at, id, author, amount, seen_at)"
    f" VALUES (?, ?, ?, ?, ?, ?, ?){_FOUND_AGAIN}"
)
_INSERT_RECEIPT: Final = (
    "INSERT INTO claim_event"
    " (q, r, created_at, id, author, amount, seen_at, label, signer, receiver)"
    f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?){_FOUND_AGAIN}"
)
_MEMBERS: Final = (
    "SELECT CAST(group_concat(id || author, '') AS BLOB) FROM claim_event"
    " WHERE q = ? AND r = ? AND amount <> ?"
)
"""Ids and authors as one value: for each row of an answer, a thread waits for the others."""
_decode: Final = msgspec.json.Decoder(ReadCoverage).decode
_encode: Final = msgspec.json.Encoder().encode


class ClaimMembers(msgspec.Struct, frozen=True, array_like=True):
    """The part of a stored claim about single events that is not read into a place.

    `listing`: what the claim lists. `retracted`: what it retracts.
    """

    listing: Listing | None
    retracted: Retracted


pack: Final = msgspec.msgpack.Encoder().encode
unpack: Final = msgspec.msgpack.Decoder(ClaimMembers).decode


def retracted_by(conn: sqlite3.Connection, q: int, r: int, oldest: float) -> Retracted | None:
    """Return what the answer by events of a relay retracts; None without one since `oldest`."""
    sql = (
        "SELECT members FROM claim LEFT JOIN claim_members USING (q, r)"
        " WHERE q = ? AND r = ? AND answered = 1 AND method = ? AND asked_at >= ?"
    )
    row = conn.execute(sql, (q, r, Method.EVENTS.value, oldest)).fetchone()
    if row is None:
        return None
    return NOTHING_RETRACTED if row[0] is None else unpack(row[0]).retracted


class HeldRows:
    """A `Memory` over a connection; `offset` is the query's HLL offset, None without one.

    `replaces`: only an author's newest event counts. It lives as long as one call of
    `Database.write` (or `read`, for queries), which ends with `flush`.
    """

    def __init__(
        self,
        conn: sqlite3.Connection,
        q: int,
        r: int,
        offset: int | None,
        *,
        replaces: bool = False,
    ) -> None:
        self._conn = conn
        self._key = (q, r)
        self._offset = offset
        self._replaces = replaces
        self.fresh: set[bytes] = set()
        self._mark = ReadCoverage()
        self._registers: bytes | None = None
        self._held: int | None = 0
        self._since: dict[int, int] = {}
        self._unsaved = False
        self._log = ChangeLog(conn, q, r, replaces=replaces)
        self._older: list[HeldEvent] = []
        """Versions that newer ones replaced in the last write."""
        self._load()

    def _load(self) -> None:
        sql = "SELECT mark, registers, held FROM claim_mark WHERE q = ? AND r = ?"
        row = self._one(sql, *self._key)
        if row is not None:
            self._mark = _decode(row[0])
            self._registers, self._held = row[1:]

    @property
    def mark(self) -> ReadCoverage:
        return self._mark

    def registers(self) -> bytes | None:
        """The registers of the known events; None if the query has no offset."""
        return self._registers

    def count(self, start: int, end: int | None) -> int:
        if start <= 0 and end is None:
            return self._number()
        if end is None:
            return self._counted_since(start)
        if start <= 0 and end + 1 in self._since:
            return self._number() - self._since[end + 1]
        return self._counted(start, end)

    def _counted_since(self, start: int) -> int:
        if start not in self._since:
            self._since[start] = self._counted(start, None)
        return self._since[start]

    def _number(self) -> int:
        """Return the number of known events: it is stored, as every round asks for it."""
        if self._held is None:
            self._held = self._counted(0, None)
        return self._held

    def _counted(self, start: int, end: int | None) -> int:
        sql = f"SELECT count(*) FROM claim_event WHERE {_WINDOW}"
        row = self._one(sql, *self._key, start, _last(end))
        return int(row[0]) if row else 0

    def nth(self, start: int, n: int) -> int | None:
        sql = f"SELECT created_at FROM claim_event WHERE {_WINDOW} ORDER BY created_at, id"
        row = self._one(f"{sql} LIMIT 1 OFFSET ?", *self._key, start, _END, n - 1)
        return int(row[0]) if row else None

    def apply(self, update: Update) -> EventChanges:
        sql = f"SELECT created_at, id, author, amount, seen_at FROM claim_event WHERE {_WINDOW}"
        before = self._conn.execute(sql, (*self._key, update.start, _last(update.end))).fetchall()
        found = {event.id for event in update.found}
        lost = [HeldEvent(*one) for *one, _ in before if one[1] not in found]
        self._delete(lost)
        inside = all(update.spans(event.created_at) for event in update.found)
        held = {id for _, id, *_ in before} & found if inside else None
        fresh = self._put(update.found, update.at, held)
        self._note(lost, fresh, update.at)
        changes = EventChanges(
            added=len(fresh),
            gone=len(self._without_newer(lost)),
            exposure=float(sum(update.at - seen for *_, seen in before)),
            fresh=tuple(sorted(event.created_at for event in fresh)),
        )
        self._update_registers(fresh, rebuild=bool(lost))
        self._save(self.mark.moved(update, changes, self._newest_after(update)))
        return changes

    def _note(self, lost: Sequence[HeldEvent], fresh: Sequence[HeldEvent], at: int) -> None:
        """Log what came and what is gone; before the first complete reading nothing is news."""
        if lost or fresh:
            was_whole = self._mark.whole_at is not None
            self._log.note(lost, fresh, self._older, at, was_whole=was_whole)

    def _newest_after(self, update: Update) -> int | None:
        """Return the newest known event: after an open window the newest one found, if any."""
        if update.end is None and not self._replaces:
            inside = [e.created_at for e in update.found if update.start <= e.created_at]
            past = [at for at in inside if at <= update.at]
            if past:
                return max(past)
        return self._newest(update.at)

    def _delete(self, events: Sequence[HeldEvent]) -> None:
        if not events:
            return
        held = self._number()
        self._since.clear()
        keys = [(*self._key, event.created_at, event.id) for event in events]
        self._held = held - self._conn.executemany(_DELETE, keys).rowcount

    def confirm(self, at: int, *, judged: bool = False) -> None:
        self._save(self.mark.as_confirmed(at, judged=judged))

    def prove(self, at: int) -> None:
        self._save(self.mark.as_proven(at))

    def differ(self, by: int) -> None:
        self._save(msgspec.structs.replace(self.mark, differs=by))

    def add(self, events: Iterable[HeldEvent], at: int) -> int:
        fresh = self._put(list(events), at)
        if fresh:
            self._note((), fresh, at)
            self._update_registers(fresh, rebuild=False)
            self._save(self.mark)
        return len(fresh)

    def events(self) -> Iterable[HeldEvent]:
        receipts = self._offset is None  # receipts make no registers
        fields = _RECEIPT if receipts else _PLAIN
        sql = f"SELECT {', '.join(fields)} FROM claim_event WHERE q = ? AND r = ?"
        held = itertools.starmap(HeldEvent, self._conn.execute(sql, self._key).fetchall())
        return map(_with_payment, held) if receipts else held

    def judge(self, events: Iterable[HeldEvent]) -> None:
        self._conn.executemany(
            "UPDATE claim_event SET amount = ?, label = ?"
            " WHERE q = ? AND r = ? AND created_at = ? AND id = ?",
            [(e.amount, e.label, *self._key, e.created_at, e.id) for e in events],
        )

    def retracted(self, oldest: float) -> Retracted | None:
        return retracted_by(self._conn, *self._key, oldest)

    def ids_and_authors(self) -> tuple[frozenset[bytes], frozenset[bytes]]:
        row = self._one(_MEMBERS, *self._key, VOID)
        members: bytes = (row and row[0]) or b""
        ids = (members[at : at + _KEY] for at in range(0, len(members), 2 * _KEY))
        authors = (members[at : at + _KEY] for at in range(_KEY, len(members), 2 * _KEY))
        return frozenset(ids), frozenset(authors)

    def unseen(self, now: int) -> float:
        confirmed = self.mark.confirmed_at or 0
        if confirmed >= now:
            return 0.0
        sql = "SELECT total(max(? - max(seen_at, ?), 0)) FROM claim_event WHERE q = ? AND r = ?"
        row = self._one(sql, now, confirmed, *self._key)
        return float(row[0]) if row else 0.0

    def _without_newer(self, lost: list[HeldEvent]) -> list[HeldEvent]:
        """Return those of the lost events that no newer version of theirs replaced."""
        if not self._replaces or not lost:
            return lost
        newest = {event.author: event for event in self.events()}
        return [one for one in lost if not is_newer(newest.get(one.author), one)]

    def _put(
        self, events: Sequence[HeldEvent], at: int, held: set[bytes] | None = None
    ) -> list[HeldEvent]:
        """Write events, and drop those that newer ones replace; return those that were unknown.

        `held`: the ids of known ones, if the caller has them.
        """
        self._older = []
        if held is None:
            held = self._ids({event.created_at for event in events})
        fresh = [event for event in {e.id: e for e in events}.values() if event.id not in held]
        if self._replaces and fresh:
            fresh = self._make_room(fresh)
            held = self._ids({event.created_at for event in events})
        kept = {event.id for event in fresh} | held
        before = self._number()
        if fresh:
            self._since.clear()
        self._insert({e.id: e for e in events if e.id in kept}.values(), at)
        self._held = before + len(fresh)
        self.fresh.update(event.id for event in fresh)
        return fresh

    def _insert(self, events: Collection[HeldEvent], at: int) -> None:
        """Insert rows; only receipts fill all columns."""
        rows = [(*self._key, e.created_at, e.id, e.author, e.amount, at) for e in events]
        if any(event.signer for event in events):
            more = [(e.label, e.signer + e.payment, e.receiver) for e in events]
            both = [(*row, *rest) for row, rest in zip(rows, more, strict=True)]
            self._conn.executemany(_INSERT_RECEIPT, both)
        else:
            self._conn.executemany(_INSERT, rows)

    def _make_room(self, fresh: list[HeldEvent]) -> list[HeldEvent]:
        """Delete the older versions of each author's newest event among `fresh`."""
        newest: dict[bytes, HeldEvent] = {}
        for event in fresh:
            if not is_newer(newest.get(event.author), event):
                newest[event.author] = event
        older: list[HeldEvent] = []
        for other in self.events():
            event = newest.get(other.author, other)
            if event is other:
                continue
            if supersedes(event, other):
                older.append(other)
            else:
                del newest[other.author]
        self._delete(older)
        self._older = older
        return list(newest.values())

    def _ids(self, times: set[int]) -> set[bytes]:
        """Return the known ids in the range of these times."""
        if not times:
            return set()
        sql = f"SELECT id FROM claim_event WHERE {_WINDOW}"
        return {id for (id,) in self._conn.execute(sql, (*self._key, min(times), max(times)))}

    def _newest(self, now: int) -> int | None:
        sql = f"SELECT max(created_at) FROM claim_event WHERE {_WINDOW}"
        row = self._one(sql, *self._key, 0, now)
        return row[0] if row else None

    def _save(self, mark: ReadCoverage) -> None:
        self._mark = mark
        self._unsaved = True

    def flush(self) -> None:
        """Write the mark, the registers and the number, if they changed."""
        if not self._unsaved:
            return
        self._unsaved, mark = False, self._mark
        self._conn.execute(
            "INSERT INTO claim_mark (q, r, last_read, registers, mark, held)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last_read = excluded.last_read,"
            " registers = excluded.registers, mark = excluded.mark, held = excluded.held",
            (*self._key, mark.last_read, self._registers, _encode(mark).decode(), self._number()),
        )

    def _update_registers(self, fresh: Sequence[HeldEvent], *, rebuild: bool) -> None:
        """Update the registers: additions only raise them; after a removal rebuild them from all
        authors."""
        if self._offset is None or not (fresh or rebuild or self._registers is None):
            return
        # A newest version that does not count removes its author.
        rebuild = rebuild or (self._replaces and not all(event.counts for event in fresh))
        if rebuild or self._registers is None:
            sql = "SELECT DISTINCT author FROM claim_event WHERE q = ? AND r = ? AND amount <> ?"
            authors = [author for (author,) in self._conn.execute(sql, (*self._key, VOID))]
            self._registers = hll.from_pubkeys(authors, self._offset)
        else:
            counted = [event.author for event in fresh if event.counts]
            added = hll.from_pubkeys(counted, self._offset)
            self._registers = hll.merge(self._registers, added)

    def _one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._conn.execute(sql, values).fetchone()
        return found


def _last(end: int | None) -> int:
    return _END if end is None else end


def _with_payment(event: HeldEvent) -> HeldEvent:
    """Return the column `signer`: the key, and after it the payment, if known."""
    signer = event.signer
    return event._replace(signer=signer[:_KEY], payment=signer[_KEY:]) if signer[_KEY:] else event


def is_complete(mark: str) -> bool:
    """Whether a stored mark says that its relay was read to the end."""
    return _decode(mark).complete
