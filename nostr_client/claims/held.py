"""What is held of one relay for one query, in SQLite: the same as `ListMemory`, and it lasts.

Events, mark and registers change in the transaction of the caller, so they agree after any crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client import hll
from nostr_client.claims.mark import Changes, Held, Mark
from nostr_client.claims.memory import is_newer, supersedes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from nostr_client.claims.mark import Update

_END: Final = 2**63 - 1
_WINDOW: Final = "q = ? AND r = ? AND created_at BETWEEN ? AND ?"
_DELETE: Final = "DELETE FROM claim_event WHERE q = ? AND r = ? AND created_at = ? AND id = ?"
_decode: Final = msgspec.json.Decoder(Mark).decode
_encode: Final = msgspec.json.Encoder().encode


class HeldRows:
    """A `Memory` over a connection; `offset` is the query's HLL offset, None where it has none.

    `replaces`: an author's newest event is the only one. Lives as long as one call of
    `Database.write` (or `read`, for what only asks).
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
        self._mark: Mark | None = None

    @property
    def mark(self) -> Mark:
        if self._mark is None:
            row = self._one("SELECT mark FROM claim_mark WHERE q = ? AND r = ?", *self._key)
            self._mark = Mark() if row is None else _decode(row[0])
        return self._mark

    def registers(self) -> bytes | None:
        """The registers of what is held; None where the query has no offset."""
        row = self._one("SELECT registers FROM claim_mark WHERE q = ? AND r = ?", *self._key)
        return None if row is None else row[0]

    def count(self, start: int, end: int | None) -> int:
        sql = f"SELECT count(*) FROM claim_event WHERE {_WINDOW}"
        row = self._one(sql, *self._key, start, _last(end))
        return int(row[0]) if row else 0

    def nth(self, start: int, n: int) -> int | None:
        sql = f"SELECT created_at FROM claim_event WHERE {_WINDOW} ORDER BY created_at, id"
        row = self._one(f"{sql} LIMIT 1 OFFSET ?", *self._key, start, _END, n - 1)
        return int(row[0]) if row else None

    def apply(self, update: Update) -> Changes:
        sql = f"SELECT created_at, id, author, seen_at FROM claim_event WHERE {_WINDOW}"
        before = self._conn.execute(sql, (*self._key, update.start, _last(update.end))).fetchall()
        found = {event.id for event in update.found}
        lost = [Held(at, id, author) for at, id, author, _ in before if id not in found]
        keys = [(*self._key, event.created_at, event.id) for event in lost]
        self._conn.executemany(_DELETE, keys)
        fresh = self._put(update.found, update.at)
        changes = Changes(
            added=len(fresh),
            gone=len(self._without_newer(lost)),
            exposure=float(sum(update.at - seen for *_, seen in before)),
            fresh=tuple(sorted(event.created_at for event in fresh)),
        )
        self._save(self.mark.moved(update, changes, self._newest(update.at)))
        self._update_registers(fresh, anew=bool(lost))
        return changes

    def confirm(self, at: int) -> None:
        self._save(msgspec.structs.replace(self.mark, confirmed_at=at, holes=()))

    def differ(self, by: int) -> None:
        self._save(msgspec.structs.replace(self.mark, differs=by))

    def add(self, events: Iterable[Held], at: int) -> int:
        fresh = self._put(list(events), at)
        if fresh:
            self._save(self.mark)
            self._update_registers(fresh, anew=False)
        return len(fresh)

    def events(self) -> Iterable[Held]:
        sql = "SELECT created_at, id, author, amount FROM claim_event WHERE q = ? AND r = ?"
        return map(Held._make, self._conn.execute(sql, self._key).fetchall())

    def unseen(self, now: int) -> float:
        confirmed = self.mark.confirmed_at or 0
        sql = "SELECT total(max(? - max(seen_at, ?), 0)) FROM claim_event WHERE q = ? AND r = ?"
        row = self._one(sql, now, confirmed, *self._key)
        return float(row[0]) if row else 0.0

    def _without_newer(self, lost: list[Held]) -> list[Held]:
        """Those of the lost events that no newer version of theirs replaced."""
        if not self._replaces or not lost:
            return lost
        newest = {event.author: event for event in self.events()}
        return [one for one in lost if not is_newer(newest.get(one.author), one)]

    def _put(self, events: Sequence[Held], at: int) -> list[Held]:
        """Write events, and drop those that newer ones replace; those that were not held before."""
        held = self._ids({event.created_at for event in events})
        fresh = [event for event in {e.id: e for e in events}.values() if event.id not in held]
        if self._replaces and fresh:
            fresh = self._make_room(fresh)
            held = self._ids({event.created_at for event in events})
        kept = {event.id for event in fresh} | held
        rows = {e.id: (*self._key, e.created_at, e.id, e.author, e.amount, at) for e in events}
        self._conn.executemany(
            "INSERT INTO claim_event VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at",
            [row for id, row in rows.items() if id in kept],
        )
        return fresh

    def _make_room(self, fresh: list[Held]) -> list[Held]:
        """Delete the older versions; the newest of each author among `fresh`."""
        newest: dict[bytes, Held] = {}
        for event in fresh:
            if not is_newer(newest.get(event.author), event):
                newest[event.author] = event
        for other in self.events():
            event = newest.get(other.author, other)
            if event is other:
                continue
            if supersedes(event, other):
                self._conn.execute(_DELETE, (*self._key, other.created_at, other.id))
            else:
                del newest[other.author]
        return list(newest.values())

    def _ids(self, times: set[int]) -> set[bytes]:
        """The ids held in the range of these times."""
        if not times:
            return set()
        sql = f"SELECT id FROM claim_event WHERE {_WINDOW}"
        return {id for (id,) in self._conn.execute(sql, (*self._key, min(times), max(times)))}

    def _newest(self, now: int) -> int | None:
        sql = f"SELECT max(created_at) FROM claim_event WHERE {_WINDOW}"
        row = self._one(sql, *self._key, 0, now)
        return row[0] if row else None

    def _save(self, mark: Mark) -> None:
        self._mark = mark
        self._conn.execute(
            "INSERT INTO claim_mark (q, r, last_read, mark) VALUES (?, ?, ?, ?) ON CONFLICT"
            " DO UPDATE SET last_read = excluded.last_read, mark = excluded.mark",
            (*self._key, mark.last_read, _encode(mark).decode()),
        )

    def _update_registers(self, fresh: Iterable[Held], *, anew: bool) -> None:
        """Registers only grow by adding; after a removal they are made from all authors."""
        if self._offset is None:
            return
        before = self.registers()
        if anew or before is None:
            sql = "SELECT DISTINCT author FROM claim_event WHERE q = ? AND r = ?"
            authors = [author for (author,) in self._conn.execute(sql, self._key)]
            registers = hll.from_pubkeys(authors, self._offset)
        else:
            added = hll.from_pubkeys([event.author for event in fresh], self._offset)
            registers = hll.merge(before, added)
        sql = "UPDATE claim_mark SET registers = ? WHERE q = ? AND r = ?"
        self._conn.execute(sql, (registers, *self._key))

    def _one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._conn.execute(sql, values).fetchone()
        return found


def _last(end: int | None) -> int:
    return _END if end is None else end
