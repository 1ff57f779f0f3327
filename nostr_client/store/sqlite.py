"""The event store in SQLite: a file, or ":memory:" with the same behaviour."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

from nostr_client.codecs.kinds import is_ephemeral
from nostr_client.errors import StoreCorrupt, StoreError, StoreFull
from nostr_client.store import aggregate, fingerprint_tables, maintain, select
from nostr_client.store.base import EventStore
from nostr_client.store.database import Database
from nostr_client.store.disk_budget import DiskBudget
from nostr_client.store.fingerprint_tables import FINGERPRINTS
from nostr_client.store.fingerprints import Fingerprints
from nostr_client.store.index_verify import check_index
from nostr_client.store.lookup import Authors, rows_in
from nostr_client.store.maintain import settle
from nostr_client.store.options import StoreOptions
from nostr_client.store.rows import TagHasher
from nostr_client.store.save import Saver, held_ids
from nostr_client.store.schema import HASH_KEY, STORE
from nostr_client.store.search import SEARCH
from nostr_client.store.short_answers import limit_of, short_answer
from nostr_client.store.snapshot import Snapshot, ascending, stream
from nostr_client.store.sync_memory import SYNC
from nostr_client.store.verify import StoreVerifier

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.store.base import SaveOutcome, StoreStats, VerifyReport
    from nostr_client.store.maintain import OnRemove
    from nostr_client.store.migrate import Schema
    from nostr_client.store.save import OnBatch
    from nostr_client.store.select import QueryContext, QueryPage
    from nostr_client.store.short_answers import ShortAnswer
    from nostr_client.store.verify import Progress

T = TypeVar("T")

_DEFAULTS = StoreOptions()

PAGE_BYTES = 4 * 1024 * 1024
"""Tags and contents that `stream` reads at once: a thousand events mostly are less."""


class SqliteStore(EventStore):
    """Stores verified events in one SQLite file; EventStore says what each method promises.

    `on_batch` and `on_remove` are lists of hooks that run inside the write transaction: the first
    with every event of a batch and its outcome, the second with events about to be removed. Fill
    them before the first save. What a hook raises undoes the batch and reaches its caller.
    """

    def __init__(
        self,
        database: Database,
        hash_key: bytes,
        *,
        searchable: bool,
        urls: Collection[str],
        clock: Callable[[], float],
        options: StoreOptions = _DEFAULTS,
    ) -> None:
        self.database = database
        self.room = DiskBudget(database, options)
        self.on_batch: list[OnBatch] = []
        self.on_remove: list[OnRemove] = []
        self._clock = clock
        self._hash_key = hash_key
        self._hasher = TagHasher(hash_key)
        self._searchable = searchable
        self._authors = Authors()
        self.fingerprints = Fingerprints(database, self.items_within, self.sweep)
        self._saver = Saver(
            TagHasher(hash_key),
            Authors(),
            urls=urls,
            searchable=searchable,
            on_batch=self.on_batch,
            on_remove=self.on_remove,
        )

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        search: bool = False,
        urls: Collection[str] = (),
        migrations: Sequence[Schema] = (),
        options: StoreOptions = _DEFAULTS,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Open or create a store.

        `search`: index contents for NIP-50; a store that was opened so stays so, and the first
        time takes about a minute per million events. `urls`: normalised relay URLs that this
        store answers for (NIP-62 requests that name them are followed). `migrations`: further
        tables that live in the same file. `clock`: Unix seconds, for expirations. Raises as
        Database.open does.
        """
        sets = [STORE, SYNC, FINGERPRINTS, *([SEARCH] if search else ()), *migrations]
        database = await Database.open(path, read_only=read_only, migrations=sets, options=options)
        try:
            key, searchable = await database.read(_hash_key_and_search)
        except BaseException:
            await database.close()
            raise
        return cls(database, key, searchable=searchable, urls=urls, clock=clock, options=options)

    def answer_for(self, urls: Iterable[str]) -> None:
        """Follow NIP-62 requests that name one of `urls` too (normalised relay URLs)."""
        self._saver.urls = frozenset((*self._saver.urls, *urls))

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses that this store answers for, in order."""
        return tuple(sorted(self._saver.urls))

    @property
    def hasher(self) -> TagHasher:
        """The hash of the tag index, for readers in the writer's thread."""
        return self._saver.hasher

    @property
    def has_search(self) -> bool:
        """True when contents are indexed, so that `search` (NIP-50) is answered."""
        return self._searchable

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]:
        plain = [verified.event for verified in events]
        kept = [one for one in plain if not is_ephemeral(one.kind)]
        if not kept:
            return await self._save(plain)
        async with self.room.reserved(kept):
            return await self._save(plain)

    async def _save(self, events: Sequence[Event]) -> list[SaveOutcome]:
        return await self._written(lambda conn: self._saver.save(conn, events, self._now()))

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        found = self.look(filters[0]) if len(filters) == 1 else None
        if found is not None:
            await asyncio.sleep(0)  # a loop of queries must not keep others waiting
            return found.events
        return await self.database.read(lambda c: select.events(c, self._context(), filters))

    async def count(self, filters: Sequence[Filter]) -> int:
        return await self.database.read(lambda c: aggregate.count(c, self._context(), filters))

    async def distinct_authors(self, filters: Sequence[Filter]) -> int:
        return await self.database.read(
            lambda c: len(aggregate.authors(c, self._context(), filters))
        )

    async def kinds(self) -> list[int]:
        return await self.database.read(aggregate.held_kinds)

    async def registers(self, filter: Filter) -> bytes:
        return await self.database.read(lambda c: aggregate.registers(c, self._context(), filter))

    async def snapshot(self, work: Callable[[Snapshot], T]) -> T:
        return await self.database.read(lambda c: work(Snapshot(c, self._context())))

    async def negentropy_items(
        self, filter: Filter
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        return await self.database.read(
            lambda c: aggregate.negentropy_items(c, self._context(), filter)
        )

    def items_within(
        self, conn: sqlite3.Connection, filter: Filter
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Return `negentropy_items` inside a write transaction."""
        return aggregate.negentropy_items(conn, self._writer_context(), filter)

    async def known(self, ids: Iterable[str]) -> set[str]:
        raw = [bytes.fromhex(id_) for id_ in ids]
        return await self.database.read(lambda conn: _known(conn, raw))

    async def held(self, ids: Iterable[str]) -> set[str]:
        """Return those of the ids whose events are stored, expired ones before the sweep too.

        Raises StoreError. Safe to cancel.
        """
        raw = [bytes.fromhex(id_) for id_ in ids]
        return await self.database.read(lambda conn: held_ids(conn, raw))

    def stream(self, filters: Sequence[Filter]) -> AsyncIterator[Event]:
        return stream(lambda one, skip: self.page([one], PAGE_BYTES, skip), filters)

    async def page(
        self,
        filters: Sequence[Filter],
        most_bytes: int,
        skip: frozenset[str] = frozenset(),
        *,
        least_one: bool = True,
    ) -> QueryPage:
        return await self.database.read(
            lambda conn: select.page(
                conn, self._context(), filters, most_bytes, skip, least_one=least_one
            )
        )

    def look(self, filter: Filter) -> ShortAnswer | None:
        if limit_of(filter) is None:
            return None
        return self.database.look(lambda c: short_answer(c, self._context(), filter))

    def export(self, filters: Sequence[Filter] = ()) -> AsyncIterator[Event]:
        """Yield what matches any filter, or everything, oldest first, then by id.

        Expired events are left out. Limits and `search` are ignored.
        """

        async def page(at: int, id_: str) -> list[Event]:
            after = (at, bytes.fromhex(id_))
            return await self.database.read(lambda conn: select.after(conn, after, self._now()))

        return ascending(page, filters)

    async def delete(self, filters: Sequence[Filter]) -> int:
        return await self._remove(
            lambda conn: {
                seq
                for filter in filters
                for seq in select.keys(conn, self._writer_context(), filter, filter.limit)
            }
        )

    async def sweep(self) -> int:
        def choose(conn: sqlite3.Connection) -> Collection[int]:
            expired = maintain.expired(conn, self._now())
            settle(conn, expired.values())
            return expired

        return await self._remove(choose)

    @property
    def full(self) -> str:
        """Why events are refused, or "": a write found no room, or the disk budget is spent."""
        return self.database.full or self.room.full

    async def try_room(self) -> bool:
        """Return whether there is room again after `full`; reset `database.full`.

        The disk budget is measured, and after a failed write one of 64 KiB has to go well.

        Raises StoreError for what is not about room. Safe to cancel and to repeat.
        """
        if await self.room.look(again=True):
            return False
        if not self.database.full:
            return True
        try:
            await self.database.write(maintain.fill_probe)
            await self.database.write(maintain.drop_probe)
        except StoreFull:
            return False
        self.database.found_room()
        return True

    async def stats(self) -> StoreStats:
        return await self.database.read(lambda conn: maintain.stats(conn, self._now()))

    async def vacuum(self) -> None:
        await self.database.maintain(maintain.vacuum)

    async def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check everything again, in one snapshot, then the index; about 95 µs an event.

        `progress` is called in a thread, with events done and events in all.
        """
        report = await self.database.read(
            lambda conn: StoreVerifier(conn, self._hasher, progress).run()
        )
        path = self.database.path
        if path is None:
            return report
        index = await self.database.read(lambda _: check_index(path, self._hash_key))
        return report.and_also(index, "the index: ")

    async def close(self) -> None:
        """Finish what is queued and close the file; safe twice."""
        await self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _remove(self, choose: Callable[[sqlite3.Connection], Collection[int]]) -> int:
        def work(conn: sqlite3.Connection) -> int:
            self._saver.authors.check(conn)
            seqs = choose(conn)
            self._saver.remove(conn, seqs)
            return len(seqs)

        return await self._written(work)

    async def _written(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Write, and fold the log of the kept fingerprints when it got long."""

        def measured(conn: sqlite3.Connection) -> tuple[T, bool]:
            return work(conn), fingerprint_tables.log_length(conn) > fingerprint_tables.LONG

        result, long = await self.database.write(measured)
        if long:
            with suppress(StoreError):  # the write is done; the next sync meets the error again
                await self.fingerprints.tidy(fingerprint_tables.LONG // 2)
        return result

    def _writer_context(self) -> QueryContext:
        return self._context()._replace(hasher=self._saver.hasher, authors=self._saver.authors)

    def _now(self) -> int:
        return int(self._clock())

    def _context(self) -> QueryContext:
        return select.QueryContext(self._hasher, self._authors, self._now(), self._searchable)


def read_hash_key(conn: sqlite3.Connection) -> bytes:
    """The key of the tag index. Raises StoreCorrupt."""
    row = conn.execute("SELECT value FROM meta WHERE key = ?", (HASH_KEY,)).fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise StoreCorrupt("the store has lost the key of its tag index")
    return row[0]


def _hash_key_and_search(conn: sqlite3.Connection) -> tuple[bytes, bool]:
    return read_hash_key(conn), maintain.has_search(conn)


def _known(conn: sqlite3.Connection, ids: Sequence[bytes]) -> set[str]:
    settled = rows_in(conn, "SELECT id FROM settled WHERE id IN", ids)
    return held_ids(conn, ids) | {id_.hex() for (id_,) in settled}
