"""`index.db` beside a store: kept in step with every batch, rebuilt when it missed one.

The file is `<store>.index-<generation>.db`; the store says which generation counts, so that a
bulk rebuild is adopted whole by one row (`adopt`), and readers of the old file end in peace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nostr_client.errors import StoreError
from nostr_client.store import index_files as files
from nostr_client.store import index_schema as schema
from nostr_client.store.base import Status
from nostr_client.store.index_schema import HOT, TRACKED, VERSION, Mark
from nostr_client.store.index_update import ALIAS, Target, Updater, least, registers_of
from nostr_client.store.lookup import rows_in
from nostr_client.store.migrate import APPLICATION_ID
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, read_events
from nostr_client.store.schema import INDEX_GENERATION, NEXT_SEQ, REMOVALS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from nostr_client.event import Event
    from nostr_client.store.base import Outcome
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.store.taghash import TagHasher

REMEMBERED = 100_000
"""Removals that are kept for a bulk rebuild, some 100 MB at most."""

_SWAPS = 5
"""How often a reader follows an exchange that happens under its hands."""

CHUNK = 2_000
"""Events read at once while an index catches up."""


class Hot(NamedTuple):
    """What the index knows of a target; exact but for `registers`, which may be too high when
    `dirty` says that an author left."""

    events: int
    authors: int
    registers: bytes
    dirty: bool


class Day(NamedTuple):
    """One UTC day (days since 1970) and kind: events, and distinct authors."""

    day: int
    kind: int
    events: int
    authors: int


class Zapped(NamedTuple):
    """What was paid by receipts that hold: receipts, and their sum in millisatoshi."""

    receipts: int
    msats: int


class Index:
    """The derived tables of one store. Make it by `await Index.open(store)`, one per store.

    It registers itself in the store's hooks, and lives as long as the store. Expired events are
    counted until the store sweeps them.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._database = store.database
        self._updater = Updater(store.hasher)
        self._mark = Mark(0, 0)
        self._since: _Since | None = None
        self._generation = -1

    @classmethod
    async def open(cls, store: SqliteStore) -> Self:
        """Attach the index of a store, and bring it up to date if the store is open for writing.

        Missed events are added, missed removals and another schema mean a rebuild: about 25 s
        per million events in the writer thread. A store that is open for reading needs an index
        of this version, and follows whoever writes it from generation to generation. Raises
        StoreError.
        """
        index = cls(store)
        if store.database.read_only:
            await index._follow()
            return index
        generation = await index._database.read(_generation)
        if store.database.path is not None:
            files.delete_others(store.database.path, generation)
        await index._database.attach(ALIAS, index.path(generation))
        await index._database.write(index._catch_up)
        store.on_batch.append(index._on_batch)
        store.on_remove.append(index._on_remove)
        return index

    def path(self, generation: int) -> Path | None:
        """The file of a generation; None for a store in memory."""
        return files.file_of(self._database.path, generation)

    async def hot(self, name: str, value: str, kind: int) -> Hot | None:
        """What is kept of a target; None when it has fewer than HOT events, or is not tracked."""
        sql = f"SELECT events, authors, registers, dirty FROM {ALIAS}.hot"
        where = "WHERE name = ? AND value = ? AND kind = ?"
        rows = await self._rows(f"{sql} {where}", name, value, kind)
        if not rows:
            return None
        events, authors, registers, dirty = rows[0]
        return Hot(events, authors, registers, bool(dirty))

    async def daily(self, since: int, until: int, kind: int | None = None) -> list[Day]:
        """The days from `since` to `until`, both Unix seconds, inclusive; of one kind or all."""
        sql = f"SELECT day, kind, events, authors FROM {ALIAS}.daily WHERE day BETWEEN ? AND ?"
        days = (since // schema.DAY, until // schema.DAY)
        if kind is None:
            return [Day(*row) for row in await self._rows(f"{sql} ORDER BY day, kind", *days)]
        rows = await self._rows(f"{sql} AND kind = ? ORDER BY day", *days, kind)
        return [Day(*row) for row in rows]

    async def zaps(self, name: str, value: str) -> Zapped:
        """Receipts and their sum for an event (`e`), an address (`a`) or a person (`p`)."""
        sql = f"SELECT receipts, msats FROM {ALIAS}.zap WHERE name = ? AND value = ?"
        rows = await self._rows(sql, name, value)
        return Zapped(*rows[0]) if rows else Zapped(0, 0)

    async def refresh(self, most: int = 100) -> int:
        """Read the registers of dirty targets again, at most `most` of them; how many."""
        return await self._database.write(lambda conn: _refresh(conn, most))

    async def rebuild(self) -> None:
        """Empty the tables and build them again from what is stored."""
        await self._database.write(self._rebuild)

    async def snapshot(self) -> Mark:
        """Where a bulk rebuild begins: from now on what is removed is remembered for `adopt`.

        At most REMEMBERED removals; after more of them `adopt` builds the tables itself.
        """

        def work(conn: sqlite3.Connection) -> Mark:
            mark = _mark(conn)
            self._since = _Since(mark)
            return mark

        return await self._database.write(work)

    async def adopt(self, built: Path) -> int:
        """Take a file that was built in bulk as the next generation, and bring it up to date.

        `built` has the tables of `index_schema`, with `next_seq` and `removals` in `about` as the
        store had them when it was read. It is copied; the old generation's file goes. What came
        and went since is applied, if `snapshot` was called before it was read; else, after
        removals, the tables are built here instead. Returns the generation. Raises StoreError for
        a store in memory.
        """
        old = await self._database.read(_generation)
        path, before = self.path(old + 1), self.path(old)
        if path is None or before is None:
            raise StoreError("a store in memory has no index file to take over")
        await self._database.maintain(lambda _: files.put(built, path))
        try:
            await self._database.attach(ALIAS, path)
            await self._database.write(lambda conn: self._flip(conn, old + 1))
        except StoreError:
            await self._database.attach(ALIAS, before)
            await self._database.write(self._catch_up)
            await self._database.maintain(lambda _: files.delete(path))
            raise
        self._since = None
        await self._database.maintain(lambda _: files.delete(before))
        return old + 1

    def _flip(self, conn: sqlite3.Connection, generation: int) -> None:
        self._catch_up(conn)
        schema.set_about(conn, "generation", generation, schema=ALIAS)
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
        """Attach the generation that counts, for a store that another process writes."""
        generation = await self._database.read(_generation)
        path = self.path(generation)
        if path is None or not path.exists():
            raise StoreError("this store has no index; the agent builds it")
        await self._database.attach(ALIAS, path)
        await self._database.read(_check_version)
        self._generation = generation

    def _catch_up(self, conn: sqlite3.Connection) -> None:
        about = schema.about(conn, schema=ALIAS)
        now = _mark(conn)
        if about.get("version") != VERSION or about.get("hot", least()) != least():
            _drop_all(conn)
            schema.create(conn, _meta(conn, INDEX_GENERATION), schema=ALIAS)
            conn.execute(f"PRAGMA {ALIAS}.application_id = {APPLICATION_ID}")
            self._rebuild(conn)
        elif self._since is not None and self._since.explains(about, now):
            self._updater.load(conn)
            self._updater.remove(conn, self._since.gone(about))
            self._replay(conn, about["next_seq"])
            self._written(conn)
        elif about["removals"] != now.removals or about["next_seq"] > now.next_seq:
            self._rebuild(conn)
        else:
            self._updater.load(conn)
            self._replay(conn, about["next_seq"])
            self._written(conn)

    def _rebuild(self, conn: sqlite3.Connection) -> None:
        for table in ("hot", "hot_author", "daily", "daily_author", "zap"):
            conn.execute(f"DELETE FROM {ALIAS}.{table}")
        self._updater.load(conn)
        self._replay(conn, 0)
        self._written(conn)

    def _replay(self, conn: sqlite3.Connection, first: int) -> None:
        if first < _meta(conn, NEXT_SEQ):
            self._updater.replay(conn, _chunks(conn, first))

    def _on_batch(self, conn: sqlite3.Connection, pairs: Sequence[tuple[Event, Outcome]]) -> None:
        self._check(conn)
        stored = [event for event, outcome in pairs if outcome.status is Status.STORED]
        if stored:
            self._updater.add(conn, stored)
        self._written(conn)

    def _on_remove(self, conn: sqlite3.Connection, events: Sequence[Event]) -> None:
        self._check(conn)
        if self._since is not None:
            self._since.note(conn, events)
        self._updater.remove(conn, events)
        self._written(conn)

    def _check(self, conn: sqlite3.Connection) -> None:
        """After a transaction that was undone, what is remembered here is not what is there."""
        about = schema.about(conn, schema=ALIAS)
        if (about["next_seq"], about["removals"]) != self._mark:
            self._updater.load(conn)

    def _written(self, conn: sqlite3.Connection) -> None:
        self._mark = _mark(conn)
        schema.set_mark(conn, self._mark, schema=ALIAS)


class _Since:
    """What went since a snapshot."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._removals = 0
        self._gone: list[tuple[int, int, Event]] = []
        """The number of removals after this one's batch, the event's seq, the event."""

    def note(self, conn: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Events about to be removed."""
        self._removals += len(events)
        if self._removals <= REMEMBERED:
            number = self._mark.removals + self._removals
            by_id = {bytes.fromhex(event.id): event for event in events}
            rows = rows_in(conn, "SELECT id, seq FROM event WHERE id IN", list(by_id))
            self._gone += [(number, seq, by_id[id_]) for id_, seq in rows]

    def gone(self, about: dict[str, int]) -> list[Event]:
        """What a file that was read at `about` holds and the store does not."""
        return [
            event
            for number, seq, event in self._gone
            if number > about["removals"] and seq < about["next_seq"]
        ]

    def explains(self, about: dict[str, int], now: Mark) -> bool:
        """True when all that happened between the reading of a file and now is known here.

        The file may have been read at any time after the snapshot.
        """
        before, read = self._mark, Mark(about["next_seq"], about["removals"])
        if not before.next_seq <= read.next_seq <= now.next_seq:
            return False
        if not before.removals <= read.removals <= now.removals:
            return False
        return before.removals + self._removals == now.removals <= before.removals + REMEMBERED


def catch_up_missed(conn: sqlite3.Connection, hasher: TagHasher, mark: Mark) -> None:
    """Add to the attached index what a store got since it was read, where nothing was removed."""
    about = schema.about(conn, schema=ALIAS)
    if about["next_seq"] < mark.next_seq:
        updater = Updater(hasher)
        updater.load(conn)
        updater.replay(conn, _chunks(conn, about["next_seq"]))
        schema.set_mark(conn, mark, schema=ALIAS)


def _chunks(conn: sqlite3.Connection, first: int) -> Iterator[list[Event]]:
    """Everything that is stored from a seq on."""
    sql = (
        f"SELECT e.seq, {EVENT_COLUMNS} FROM {EVENT_TABLES} WHERE e.seq >= ?"
        f" ORDER BY e.seq LIMIT {CHUNK}"
    )
    while rows := conn.execute(sql, (first,)).fetchall():
        yield read_events(row[1:] for row in rows)
        first = rows[-1][0] + 1


def _mark(conn: sqlite3.Connection) -> Mark:
    return Mark(_meta(conn, NEXT_SEQ), _meta(conn, REMOVALS))


def _meta(conn: sqlite3.Connection, key: str) -> int:
    (value,) = conn.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return int(value)


def _generation(conn: sqlite3.Connection) -> int:
    return _meta(conn, INDEX_GENERATION)


def _check_version(conn: sqlite3.Connection) -> None:
    if schema.about(conn, schema=ALIAS).get("version") != VERSION:
        raise StoreError("this store has no index of this version; the agent builds it")


def _refresh(conn: sqlite3.Connection, most: int) -> int:
    sql = f"SELECT t, name, value, kind FROM {ALIAS}.hot WHERE dirty ORDER BY t LIMIT ?"
    dirty = conn.execute(sql, (most,)).fetchall()
    for t, *target in dirty:
        rows = conn.execute(f"SELECT a FROM {ALIAS}.hot_author WHERE t = ?", (t,))
        registers = registers_of(conn, Target(*target), [a for (a,) in rows])
        conn.execute(f"UPDATE {ALIAS}.hot SET registers = ?, dirty = 0 WHERE t = ?", (registers, t))
    return len(dirty)


def _drop_all(conn: sqlite3.Connection) -> None:
    sql = f"SELECT name FROM {ALIAS}.sqlite_schema WHERE type = 'table'"
    for (name,) in conn.execute(sql).fetchall():
        conn.execute(f'DROP TABLE {ALIAS}."{name}"')


__all__ = ["HOT", "TRACKED", "Day", "Hot", "Index", "Zapped"]
