"""Keep `index.db` beside a store: update it after every commit, or rebuild it.

A transaction over two files is not atomic, so no transaction writes to both. The events' file is
committed first and is authoritative. Then a transaction of the index alone applies the change.

The index records the state (`IndexedState`) from which it was derived. `_gap` finds what the index
lacks, and proves by the digest of the events that this is everything. The index applies a proven
gap. Otherwise the tables are rebuilt. This happens at `open`, and after an error at the next
commit.

The file is `<store>.index-<generation>.db`. One row of the store names the valid generation.
`adopt` therefore installs a bulk rebuild by a change of one row, while readers of the old file
finish their reads.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from nostr_client.errors import StoreError
from nostr_client.store import digest
from nostr_client.store.base import SaveStatus
from nostr_client.store.file.faults import Capture
from nostr_client.store.file.migrate import APPLICATION_ID
from nostr_client.store.index import read as index_read
from nostr_client.store.index import schema
from nostr_client.store.index.schema import HOT, TRACKED, VERSION, IndexedState, Removals
from nostr_client.store.index.update import ALIAS, QueryTarget, Updater, least, registers_of
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, in_parts, read_events
from nostr_client.store.schema import INDEX_GENERATION

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event
    from nostr_client.store.base import SaveOutcome
    from nostr_client.store.file.database import Database
    from nostr_client.store.maintain import OnRemove
    from nostr_client.store.rows import TagHasher
    from nostr_client.store.save import OnBatch

_SWAPS = 5
"""Most times that a reader attaches a newer index if the index is replaced during the read."""

CHUNK = 2_000
"""Events that are read at once while an index catches up."""

SCAN = 20_000
"""Missed events from which one pass over the tag index is cheaper than a read for each target."""

REST_S = 60.0
"""Seconds to wait after a failed rebuild. A rebuild takes 25 s for a million events."""


class HotRow(NamedTuple):
    """Index row of a target.

    All values are exact, except that `registers` may be too high if `dirty` says that an author
    left.
    """

    events: int
    authors: int
    registers: bytes
    dirty: bool


class Day(NamedTuple):
    """Events and distinct authors of one kind on one UTC day, counted in days since 1970."""

    day: int
    kind: int
    events: int
    authors: int


class Zapped(NamedTuple):
    """Number of valid zap receipts, and their sum in millisatoshi."""

    receipts: int
    msats: int


class _Gap(NamedTuple):
    """Changes that an index lacks.

    They are `number` events from seq `first` on, and the removed events in `gone`.
    """

    first: int
    number: int
    gone: Sequence[Event]


class IndexedStore(Protocol):
    """Attributes of a store that an index needs."""

    database: Database
    on_batch: list[OnBatch]
    on_remove: list[OnRemove]

    @property
    def hasher(self) -> TagHasher: ...


class Index:
    """Derived tables of one store.

    Create one for each store by `await Index.open(store)`. The index registers itself in the
    store's hooks and exists as long as the store. It counts expired events until the store sweeps
    them.

    `clock` returns monotonic seconds, for the wait after a failed rebuild.
    """

    def __init__(self, store: IndexedStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = store.database
        self._clock = clock
        self._updater = Updater(store.hasher)
        self._loaded: tuple[str, IndexedState] | None = None
        """File name and state of the index that the updater has loaded."""
        self._removals = Removals()
        self._snapshot: IndexedState | None = None
        self._moved = False
        self._rests_until = 0.0
        self._generation = -1
        self.behind = ""
        """Why the tables do not match the events, or "". The next commit tries again."""

    @classmethod
    async def open(
        cls, store: IndexedStore, *, clock: Callable[[], float] = time.monotonic
    ) -> Self:
        """Attach the index of a store, and update it if the store is open for writing.

        If the digest of the events proves that the missing changes are all known, they are applied.
        Otherwise the tables are rebuilt, in about 25 s for a million events, in the writer thread.

        A store that is open for reading needs an index of this version. It follows its writer from
        generation to generation. Raises StoreError.
        """
        index = cls(store, clock)
        if store.database.read_only:
            await index._follow()
            return index
        generation = await index._database.read(_generation)
        if store.database.path is not None:
            index_read.delete_others(store.database.path, generation)
        await index._database.attach(ALIAS, index.path(generation))
        await index._database.maintain(index._catch_up)
        store.on_batch.append(index._on_batch)
        store.on_remove.append(index._on_remove)
        store.database.after_commit.append(index._keep_up)
        return index

    def path(self, generation: int) -> Path | None:
        """Return the file of a generation, or None for a store in memory."""
        return index_read.file_of(self._database.path, generation)

    async def hot(self, name: str, value: str, kind: int) -> HotRow | None:
        """Return the row of a target.

        Returns None if the target has fewer than HOT events or is not tracked.
        """
        sql = f"SELECT events, authors, registers, dirty FROM {ALIAS}.hot"
        where = "WHERE name = ? AND value = ? AND kind = ?"
        rows = await self._rows(f"{sql} {where}", name, value, kind)
        if not rows:
            return None
        events, authors, registers, dirty = rows[0]
        return HotRow(events, authors, registers, bool(dirty))

    async def daily(self, since: int, until: int, kind: int | None = None) -> list[Day]:
        """Return the days from `since` to `until`, of one kind or of all kinds.

        Both are Unix seconds and inclusive.
        """
        sql = f"SELECT day, kind, events, authors FROM {ALIAS}.daily WHERE day BETWEEN ? AND ?"
        days = (since // schema.DAY, until // schema.DAY)
        if kind is None:
            return [Day(*row) for row in await self._rows(f"{sql} ORDER BY day, kind", *days)]
        rows = await self._rows(f"{sql} AND kind = ? ORDER BY day", *days, kind)
        return [Day(*row) for row in rows]

    async def zaps(self, name: str, value: str) -> Zapped:
        """Return the sum of the receipts for an event (`e`), an address (`a`) or a person (`p`)."""
        sql = f"SELECT receipts, msats FROM {ALIAS}.zap WHERE name = ? AND value = ?"
        rows = await self._rows(sql, name, value)
        return Zapped(*rows[0]) if rows else Zapped(0, 0)

    async def refresh(self, most: int = 100) -> int:
        """Recompute the registers of at most `most` dirty targets. Return their number."""
        return await self._database.maintain(lambda conn: _refresh(conn, most))

    async def rebuild(self) -> None:
        """Empty the tables and rebuild them from the stored events."""
        await self._database.maintain(self._rebuild)

    async def snapshot(self) -> IndexedState:
        """Return the state from which a bulk rebuild begins.

        From now on, the index remembers removed events for `adopt`. It remembers at most REMEMBERED
        removals. After more removals, `adopt` rebuilds the tables itself.
        """

        def work(conn: sqlite3.Connection) -> IndexedState:
            self._snapshot = IndexedState.of_store(conn)
            return self._snapshot

        return await self._database.write(work)

    async def adopt(self, built: Path) -> int:
        """Install a file of a bulk rebuild as the next generation. Return its number.

        `built` has the tables of `index_schema`. Its `about` has the state of the store at the time
        of the read. The file is copied, and the old generation's file is deleted.

        Later changes are applied if `snapshot` was called before the read. Without that call, after
        removals or without a proof by the digest, the tables are rebuilt here. Raises StoreError
        for a store in memory. After an error, the old generation stays valid.
        """
        old = await self._database.read(_generation)
        path, before = self.path(old + 1), self.path(old)
        if path is None or before is None:
            raise StoreError("a store in memory has no index file to take over")
        await self._database.maintain(lambda _: index_read.put(built, path))
        try:
            await self._database.attach(ALIAS, path)
            await self._database.maintain(lambda conn: self._flip(conn, old + 1))
        except StoreError:
            await self._database.attach(ALIAS, before)
            self._moved = True  # the old file may lack commits
            await self._database.maintain(lambda _: index_read.delete(path))
            raise
        self._snapshot = None
        await self._database.maintain(lambda _: index_read.delete(before))
        return old + 1

    def _flip(self, conn: sqlite3.Connection, generation: int) -> None:
        """Complete the new file before the store's row makes it valid."""
        self._catch_up(conn)
        with _transaction(conn):
            schema.set_about(conn, "generation", generation, schema=ALIAS)
        with _transaction(conn):
            conn.execute("UPDATE meta SET value = ? WHERE key = ?", (generation, INDEX_GENERATION))

    async def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        def read(conn: sqlite3.Connection) -> list[tuple[Any, ...]] | None:
            if self._database.read_only and _generation(conn) != self._generation:
                return None
            return conn.execute(sql, values).fetchall()

        for _ in range(_SWAPS):
            found = await self._database.read(read)
            if found is not None:
                return found
            await self._follow()
        raise StoreError("the index is exchanged again and again; ask later")

    async def _follow(self) -> None:
        """Attach the valid generation, for a store that another process writes."""
        generation = await self._database.read(_generation)
        path = self.path(generation)
        if path is None or not path.exists():
            raise StoreError("this store has no index; the agent builds it")
        await self._database.attach(ALIAS, path)
        await self._database.read(_check_version)
        self._generation = generation

    def _on_batch(self, _: sqlite3.Connection, pairs: Sequence[tuple[Event, SaveOutcome]]) -> None:
        self._moved = self._moved or any(o.status is SaveStatus.STORED for _, o in pairs)

    def _on_remove(self, conn: sqlite3.Connection, events: Sequence[Event]) -> None:
        self._removals.note(conn, events)
        self._moved = True

    def _keep_up(self, conn: sqlite3.Connection, here: bool) -> None:
        """Apply a commit of the events' file.

        An error of the store goes to `behind`. The callers of `save` do not get it.
        """
        if not self._moved or self._clock() < self._rests_until:
            return
        with Capture() as caught:
            self._catch_up(conn, may_rebuild=not here)
        if caught.error is not None:
            if not isinstance(caught.error, StoreError):
                raise caught.error
            self.behind = str(caught.error)

    def _catch_up(self, conn: sqlite3.Connection, *, may_rebuild: bool = True) -> None:
        """Apply missing changes to the tables, in a transaction of the index alone."""
        about = schema.about(conn, schema=ALIAS)
        gap = self._gap(conn, about)
        if gap is None:
            if not may_rebuild:
                self.behind = "the index has missed events and is to be built again"
                return
            self._rebuild(conn)
            return
        place, read = _place(conn), IndexedState.of_index(about)
        is_loaded, self._loaded = self._loaded == (place, read), None
        if is_loaded and read == IndexedState.of_store(conn):
            self._is_at(place, read)
            return
        with _transaction(conn):
            if not is_loaded:
                self._updater.load(conn)
            chunks = stored_events(conn, gap.first) if gap.number else ()
            self._updater.apply(conn, chunks, gap.gone, scan=gap.number >= SCAN)
            mark = _write_mark(conn)
        self._is_at(place, mark)

    def _rebuild(self, conn: sqlite3.Connection) -> None:
        self._loaded = None
        self._rests_until = self._clock() + REST_S  # valid until the rebuild succeeds
        with _transaction(conn):
            about = schema.about(conn, schema=ALIAS)
            if is_usable(about):
                for table in ("hot", "hot_author", "daily", "daily_author", "zap"):
                    conn.execute(f"DELETE FROM {ALIAS}.{table}")
            else:
                _drop_all(conn)
                schema.create(conn, _generation(conn), schema=ALIAS)
                conn.execute(f"PRAGMA {ALIAS}.application_id = {APPLICATION_ID}")
            self._updater.load(conn)
            self._updater.apply(conn, stored_events(conn, 0), scan=True)
            mark = _write_mark(conn)
        self._rests_until = 0.0
        self._is_at(_place(conn), mark)

    def _is_at(self, place: str, mark: IndexedState) -> None:
        """Note that a commit of the index brought the file at `place` to the state `mark`."""
        self._loaded = (place, mark)
        self._moved, self.behind = False, ""
        self._removals.forget(min(mark.removals, (self._snapshot or mark).removals))

    def _gap(self, conn: sqlite3.Connection, about: dict[str, int]) -> _Gap | None:
        """Return the changes that the index lacks, as proven by the digest.

        Returns None if the changes are not known.
        """
        read, now = IndexedState.of_index(about), IndexedState.of_store(conn)
        if read is None or not is_usable(about) or read.next_seq > now.next_seq:
            return None
        gone = self._removals.between(read, now)
        if gone is None:
            return None
        here = digest.compute(conn, read.next_seq) if read.next_seq < now.next_seq else 0
        went = digest.of_ids(bytes.fromhex(event.id[:16]) for event in gone)
        if (read.digest + here - went) % digest.MODULUS != now.digest:
            return None
        return _Gap(read.next_seq, now.next_seq - read.next_seq, gone)


@contextmanager
def _transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """Run one transaction, which must write to one file only."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        yield
        conn.execute("COMMIT")
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def catch_up_missed(conn: sqlite3.Connection, hasher: TagHasher, mark: IndexedState) -> None:
    """Add the events that a store got since the attached index was built.

    The store must not have removed events since then.
    """
    about = schema.about(conn, schema=ALIAS)
    if about["next_seq"] < mark.next_seq:
        updater = Updater(hasher)
        updater.load(conn)
        updater.apply(conn, stored_events(conn, about["next_seq"]), scan=True)
        schema.set_mark(conn, mark, schema=ALIAS)


def stored_events(conn: sqlite3.Connection, first: int) -> Iterator[list[Event]]:
    """Yield all stored events from a seq on, in lists of at most CHUNK events (`in_parts`)."""
    sql = (
        f"SELECT e.seq, {EVENT_COLUMNS} FROM {EVENT_TABLES} WHERE e.seq >= ?"
        f" ORDER BY e.seq LIMIT {CHUNK}"
    )
    while rows := next(in_parts(conn.execute(sql, (first,)), CHUNK), None):
        first = rows[-1][0] + 1
        events = read_events(row[1:] for row in rows)
        del rows  # the rows are as large as the events
        yield events


def _place(conn: sqlite3.Connection) -> str:
    """Return the file that is attached as the index, or "" for a database in memory."""
    rows = conn.execute("PRAGMA database_list").fetchall()
    return next(str(file) for _, name, file in rows if name == ALIAS)


def is_usable(about: Mapping[str, int]) -> bool:
    """Return whether an index has tables of this version and of all hot targets."""
    return about.get("version") == VERSION and about.get("hot", least()) == least()


def _write_mark(conn: sqlite3.Connection) -> IndexedState:
    mark = IndexedState.of_store(conn)
    schema.set_mark(conn, mark, schema=ALIAS)
    return mark


def _generation(conn: sqlite3.Connection) -> int:
    sql = "SELECT value FROM meta WHERE key = ?"
    (value,) = conn.execute(sql, (INDEX_GENERATION,)).fetchone()
    return int(value)


def _check_version(conn: sqlite3.Connection) -> None:
    if schema.about(conn, schema=ALIAS).get("version") != VERSION:
        raise StoreError("this store has no index of this version; the agent builds it")


def _refresh(conn: sqlite3.Connection, most: int) -> int:
    sql = f"SELECT t, name, value, kind FROM {ALIAS}.hot WHERE dirty ORDER BY t LIMIT ?"
    update = f"UPDATE {ALIAS}.hot SET registers = ?, dirty = 0 WHERE t = ?"
    with _transaction(conn):
        dirty = conn.execute(sql, (most,)).fetchall()
        for t, *target in dirty:
            rows = conn.execute(f"SELECT a FROM {ALIAS}.hot_author WHERE t = ?", (t,))
            registers = registers_of(conn, QueryTarget(*target), [a for (a,) in rows])
            conn.execute(update, (registers, t))
    return len(dirty)


def _drop_all(conn: sqlite3.Connection) -> None:
    sql = f"SELECT name FROM {ALIAS}.sqlite_schema WHERE type = 'table'"
    for (name,) in conn.execute(sql).fetchall():
        conn.execute(f'DROP TABLE {ALIAS}."{name}"')


__all__ = ["HOT", "TRACKED", "Day", "HotRow", "Index", "Zapped"]
