"""Apply stored and removed events to `index.db`, after the transaction that stores or removes them.

The tables depend only on the stored events, not on the order of their arrival. An index that
follows commits equals an index that was built in bulk. The exception is `hot.registers`, because
registers cannot shrink. If a target loses an author, its registers are marked `dirty`. Dirty
registers may be too high until they are computed again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from nostr_client import hll
from nostr_client.codecs import kinds
from nostr_client.codecs.zaps import paid
from nostr_client.store.index.schema import ALIAS as ALIAS
from nostr_client.store.index.schema import DAY, HOT, TRACKED_NAMES
from nostr_client.store.lookup import rows_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.store.rows import TagHasher


class QueryTarget(NamedTuple):
    """Target of a canonical question: events of one kind with one tag."""

    name: str
    value: str
    kind: int


KNOWN_COLD = 100_000
"""Most targets below HOT whose number of events is remembered, about 30 MB."""

_COUNT = "SELECT count(*) FROM (SELECT 1 FROM tag WHERE h = ? AND kind = ? LIMIT ?)"
_PER_AUTHOR = "SELECT a, count(*) FROM tag WHERE h = ? AND kind = ? GROUP BY a"
_HOT_ROW = f"INSERT INTO {ALIAS}.hot VALUES (?, ?, ?, ?, ?, ?, ?, 0)"
_SHIFT = f"UPDATE {ALIAS}.hot SET events = events + ?, authors = authors + ? WHERE t = ?"
_ADD_HOT = f"""
INSERT INTO {ALIAS}.hot_author VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n
RETURNING n
"""
_ADD_DAILY = f"""
INSERT INTO {ALIAS}.daily_author VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n
RETURNING n
"""
_SHIFT_DAILY = f"""
INSERT INTO {ALIAS}.daily VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
SET events = events + excluded.events, authors = authors + excluded.authors
"""
_SHIFT_ZAP = f"""
INSERT INTO {ALIAS}.zap VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
SET receipts = receipts + excluded.receipts, msats = min(msats + excluded.msats, {9 * 10**18})
"""
_DROP_DAILY_AUTHOR = f"""
DELETE FROM {ALIAS}.daily_author WHERE day = ? AND kind = ? AND a = ? AND n <= 0
"""
_DROP_DAILY = f"DELETE FROM {ALIAS}.daily WHERE day = ? AND kind = ? AND events <= 0"
_DROP_ZAP = f"DELETE FROM {ALIAS}.zap WHERE name = ? AND value = ? AND receipts <= 0"
_HOT_HASHES = (
    "SELECT h, kind FROM tag WHERE kind IN ({kinds}) GROUP BY h, kind HAVING count(*) >= ?"
)


def least() -> int:
    """Return the least number of events of a hot target.

    The value `hot` in `about` of a file may differ from it.
    """
    return HOT


class Updater:
    """Applies events to the tables. Belongs to the writer thread."""

    def __init__(self, hasher: TagHasher) -> None:
        self._hasher = hasher
        self._hot: dict[QueryTarget, int] = {}
        self._cold: dict[QueryTarget, int] = {}
        self._authors: dict[str, int] = {}

    def load(self, conn: sqlite3.Connection) -> None:
        """Read which targets are hot.

        Call it also after an undone transaction.
        """
        rows = conn.execute(f"SELECT name, value, kind, t FROM {ALIAS}.hot")
        self._hot = {QueryTarget(name, value, kind): t for name, value, kind, t in rows}
        self._cold.clear()

    def apply(
        self,
        conn: sqlite3.Connection,
        came: Iterable[Sequence[Event]],
        gone: Sequence[Event] = (),
        *,
        scan: bool = False,
    ) -> None:
        """Apply added events, in parts, and removed events to the tables.

        All changes are already committed, so the tag rows show the final state. A target that
        became hot is read once, after all events are counted.

        `scan`: one pass over the tag index is cheaper than a read for each target, because there
        are many events.
        """
        fresh: Counter[QueryTarget] = Counter()
        for events in came:
            numbers = _numbers(conn, events)
            fresh.update(self._join_hot(conn, events, numbers))
            _shift_daily(conn, events, numbers, 1)
            _shift_zaps(conn, events, 1)
        if gone:
            self._remove(conn, gone)
        if scan:
            self._promote_scanned(conn, fresh)
            return
        for target, number in fresh.items():
            self._warm(conn, target, number)

    def _remove(self, conn: sqlite3.Connection, events: Sequence[Event]) -> None:
        numbers = _numbers(conn, events)
        self._remove_targets(conn, events, numbers)
        _shift_daily(conn, events, numbers, -1)
        _shift_zaps(conn, events, -1)

    def _promote_scanned(self, conn: sqlite3.Connection, fresh: Iterable[QueryTarget]) -> None:
        hashes = _hot_hashes(conn)
        for target in sorted(t for t in fresh if (self._h(t), t.kind) in hashes):
            self._promote(conn, target)
        self._cold.clear()

    def _h(self, target: QueryTarget) -> int:
        return self._hasher(target.name, target.value)

    def _join_hot(
        self, conn: sqlite3.Connection, events: Sequence[Event], numbers: dict[str, int]
    ) -> Counter[QueryTarget]:
        """Add events to the targets that are hot.

        Return the number of events of each other target.
        """
        fresh: Counter[QueryTarget] = Counter()
        joined: dict[QueryTarget, Counter[int]] = {}
        for event in events:
            for target in targets(event):
                if target in self._hot:
                    joined.setdefault(target, Counter())[numbers[event.pubkey]] += 1
                else:
                    fresh[target] += 1
        for target, authors in joined.items():
            self._join(conn, target, authors)
        return fresh

    def _join(self, conn: sqlite3.Connection, target: QueryTarget, authors: Counter[int]) -> None:
        t = self._hot[target]
        new = [
            a for a, n in authors.items() if conn.execute(_ADD_HOT, (t, a, n)).fetchone()[0] == n
        ]
        conn.execute(_SHIFT, (authors.total(), len(new), t))
        if new:
            (old,) = conn.execute(f"SELECT registers FROM {ALIAS}.hot WHERE t = ?", (t,)).fetchone()
            both = hll.merge(old, registers_of(conn, target, new))
            conn.execute(f"UPDATE {ALIAS}.hot SET registers = ? WHERE t = ?", (both, t))

    def _warm(self, conn: sqlite3.Connection, target: QueryTarget, number: int) -> None:
        """Add events to a target below HOT, and promote the target if it is hot now."""
        known = self._cold.get(target)
        if known is None:
            (total,) = conn.execute(_COUNT, (self._h(target), target.kind, HOT)).fetchone()
        else:
            total = known + number
        if total < HOT:
            if len(self._cold) >= KNOWN_COLD:
                self._cold.clear()
            self._cold[target] = total
            return
        self._cold.pop(target, None)
        self._promote(conn, target)

    def _promote(self, conn: sqlite3.Connection, target: QueryTarget) -> None:
        """Start to keep a target, from the present tag index."""
        per_author = conn.execute(_PER_AUTHOR, (self._h(target), target.kind)).fetchall()
        events = sum(n for _, n in per_author)
        (t,) = conn.execute(f"SELECT ifnull(max(t), 0) + 1 FROM {ALIAS}.hot").fetchone()
        registers = registers_of(conn, target, [a for a, _ in per_author])
        conn.execute(_HOT_ROW, (t, *target, events, len(per_author), registers))
        conn.executemany(f"INSERT INTO {ALIAS}.hot_author VALUES ({t}, ?, ?)", per_author)
        self._hot[target] = t

    def _remove_targets(
        self, conn: sqlite3.Connection, events: Sequence[Event], numbers: dict[str, int]
    ) -> None:
        left: dict[QueryTarget, Counter[int]] = {}
        for event in events:
            for target in targets(event):
                if target in self._hot:
                    left.setdefault(target, Counter())[numbers[event.pubkey]] += 1
                elif target in self._cold:
                    self._cold[target] -= 1
        for target, authors in left.items():
            self._leave(conn, target, authors)

    def _leave(self, conn: sqlite3.Connection, target: QueryTarget, authors: Counter[int]) -> None:
        t = self._hot[target]
        gone = [
            a for a, n in authors.items() if conn.execute(_ADD_HOT, (t, a, -n)).fetchone()[0] <= 0
        ]
        conn.executemany(
            f"DELETE FROM {ALIAS}.hot_author WHERE t = ? AND a = ?", [(t, a) for a in gone]
        )
        conn.execute(_SHIFT, (-authors.total(), -len(gone), t))
        if gone:
            conn.execute(f"UPDATE {ALIAS}.hot SET dirty = 1 WHERE t = ?", (t,))
        row = conn.execute(f"SELECT events FROM {ALIAS}.hot WHERE t = ?", (t,)).fetchone()
        if row[0] < HOT:
            self._demote(conn, target)

    def _demote(self, conn: sqlite3.Connection, target: QueryTarget) -> None:
        t = self._hot.pop(target)
        for table in ("hot", "hot_author"):
            conn.execute(f"DELETE FROM {ALIAS}.{table} WHERE t = ?", (t,))


def targets(event: Event) -> Iterator[QueryTarget]:
    """Yield each tracked target of an event once."""
    kind = event.kind
    names = TRACKED_NAMES.get(kind)
    if names is None:
        return
    seen = {(tag[0], tag[1]) for tag in event.tags if len(tag) > 1 and tag[0] in names}
    for name, value in seen:
        yield QueryTarget(name, value, kind)


def registers_of(conn: sqlite3.Connection, target: QueryTarget, authors: Sequence[int]) -> bytes:
    """Return the HLL registers of some authors for a target."""
    offset = hll.offset({f"#{target.name}": [target.value]})
    if offset is None:
        return bytes(hll.M)
    rows = rows_in(conn, "SELECT pubkey FROM author WHERE a IN", authors)
    return hll.from_raw(b"".join(pubkey for (pubkey,) in rows), offset)


def _numbers(conn: sqlite3.Connection, events: Sequence[Event]) -> dict[str, int]:
    keys = [bytes.fromhex(key) for key in {event.pubkey for event in events}]
    rows = rows_in(conn, "SELECT pubkey, a FROM author WHERE pubkey IN", keys)
    return {pubkey.hex(): a for pubkey, a in rows}


def _shift_daily(
    conn: sqlite3.Connection, events: Iterable[Event], numbers: dict[str, int], sign: int
) -> None:
    seen: Counter[tuple[int, int, int]] = Counter()
    for event in events:
        seen[event.created_at // DAY, event.kind, numbers[event.pubkey]] += 1
    days: dict[tuple[int, int], list[int]] = {}
    for (day, kind, a), n in seen.items():
        (now,) = conn.execute(_ADD_DAILY, (day, kind, a, sign * n)).fetchone()
        total = days.setdefault((day, kind), [0, 0])
        total[0] += sign * n
        total[1] += (now == n) if sign > 0 else -(now <= 0)
    conn.executemany(_SHIFT_DAILY, [(*key, *shift) for key, shift in days.items()])
    if sign < 0:
        conn.executemany(_DROP_DAILY_AUTHOR, list(seen))
        conn.executemany(_DROP_DAILY, list(days))


def _shift_zaps(conn: sqlite3.Connection, events: Iterable[Event], sign: int) -> None:
    rows = [
        (name, value, sign, sign * msats)
        for event in events
        if event.kind == kinds.ZAP
        for name, value, msats in paid(event)
    ]
    conn.executemany(_SHIFT_ZAP, rows)
    if sign < 0:
        conn.executemany(_DROP_ZAP, [row[:2] for row in rows])


def _hot_hashes(conn: sqlite3.Connection) -> set[tuple[int, int]]:
    kinds_of = ",".join(str(kind) for kind in sorted(TRACKED_NAMES))
    return set(conn.execute(_HOT_HASHES.format(kinds=kinds_of), (HOT,)))
