"""Store events in SQLite: in a file, or in memory with the same behaviour."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

from nostr_client.codecs.kinds import is_ephemeral
from nostr_client.errors import StoreCorrupt, StoreError, StoreFull
from nostr_client.store import fingerprint_tables, maintain
from nostr_client.store.base import EventStore
from nostr_client.store.file.database import Database
from nostr_client.store.file.disk_budget import DiskBudget
from nostr_client.store.fingerprint_tables import FINGERPRINTS
from nostr_client.store.fingerprints import Fingerprints
from nostr_client.store.index.verify import check_index
from nostr_client.store.lookup import Authors, rows_in
from nostr_client.store.maintain import settle
from nostr_client.store.options import StoreOptions
from nostr_client.store.query import aggregate, select
from nostr_client.store.query.json_answers import JsonCache, short_json
from nostr_client.store.query.search import SEARCH
from nostr_client.store.query.short_answers import is_short_count, limit_of, short_answer
from nostr_client.store.query.snapshot import Snapshot, ascending, stream
from nostr_client.store.rows import TagHasher, read_event, read_json
from nostr_client.store.save import Saver, held_ids
from nostr_client.store.schema import HASH_KEY, STORE
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
    from nostr_client.store.file.migrate import Schema
    from nostr_client.store.maintain import OnRemove
    from nostr_client.store.query.json_answers import JsonAnswer
    from nostr_client.store.query.select import QueryContext, QueryPage
    from nostr_client.store.query.short_answers import ShortAnswer
    from nostr_client.store.rows import JsonEvent
    from nostr_client.store.save import OnBatch
    from nostr_client.store.verify import Progress

T = TypeVar("T")

_DEFAULTS = StoreOptions()

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of tags and contents that `stream` reads at once. A thousand events usually have less."""


class SqliteStore(EventStore):
    """Stores verified events in one SQLite file. Create a store by `open`.

    EventStore describes the methods that are not in this section. Two lists of hooks run inside the
    write transaction. The hooks in `on_batch` get every event of a batch with its outcome. The
    hooks in `on_remove` get the events that the store is about to remove. Add hooks before the
    first save. If a hook raises an error, the store undoes the batch and raises the error again.
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
        self._json = JsonCache()
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
        """Open the store at `path`, or create one.

        - `search`: index contents for NIP-50. The file keeps this setting. The first indexing takes
          about a minute for each million events.
        - `urls`: normalised relay URLs. The store obeys requests to vanish (NIP-62) that name one
          of them.
        - `migrations`: further tables in the same file.
        - `clock`: a function that returns Unix seconds, for expirations.

        Raises StoreError or one of its subclasses.
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
        self._saver.urls = frozenset((*self._saver.urls, *urls))

    @property
    def urls(self) -> tuple[str, ...]:
        """The relay URLs whose requests to vanish (NIP-62) the store obeys, in order."""
        return tuple(sorted(self._saver.urls))

    @property
    def hasher(self) -> TagHasher:
        """The hash function of the tag index, for code that runs in the writer's thread."""
        return self._saver.hasher

    @property
    def has_search(self) -> bool:
        """Whether the store indexes contents and answers filters with `search` (NIP-50)."""
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
            await asyncio.sleep(0)  # lets other tasks run between the queries of a loop
            return found.events
        return await self.database.read(lambda c: select.events(c, self._context(), filters))

    async def count(self, filters: Sequence[Filter]) -> int:
        if len(filters) == 1 and is_short_count(filters[0]):
            found = self.database.look(lambda c: aggregate.count(c, self._context(), filters))
            if found is not None:
                await asyncio.sleep(0)  # lets other tasks run between the counts of a loop
                return found
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

    def look_snapshot(self, work: Callable[[Snapshot], T]) -> T | None:
        if self.database.has_attached:  # large counts need the tables that `look` does not see
            return None
        return self.database.look(lambda c: work(Snapshot(c, self._context())))

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
        """Return the ids of `ids` whose events are in the file.

        An expired event stays in the file until the next sweep. Raises StoreError. Safe to cancel.
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
    ) -> QueryPage[Event]:
        return await self.database.read(
            lambda conn: select.page(
                conn, self._context(), filters, most_bytes, skip, read_event, least_one=least_one
            )
        )

    async def page_json(
        self,
        filters: Sequence[Filter],
        most_bytes: int,
        skip: frozenset[str] = frozenset(),
        *,
        least_one: bool = True,
    ) -> QueryPage[JsonEvent]:
        return await self.database.read(
            lambda conn: select.page(
                conn, self._context(), filters, most_bytes, skip, read_json, least_one=least_one
            )
        )

    def look(self, filter: Filter) -> ShortAnswer | None:
        if limit_of(filter) is None:
            return None
        return self.database.look(lambda c: short_answer(c, self._context(), filter))

    def look_json(self, filter: Filter) -> JsonAnswer | None:
        limit = limit_of(filter)
        if limit is None:
            return None
        return self.database.look(
            lambda c: short_json(c, self._context(), filter, limit, self._json)
        )

    def export(self, filters: Sequence[Filter] = ()) -> AsyncIterator[Event]:
        """Yield the events that match any filter, oldest first.

        Without filters, the store yields all its events. Events of the same second are in the order
        of their ids. The store leaves out expired events, and ignores `limit` and `search`.
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
        """Why the store refuses events, or "".

        The reason is a write that found no room, or a disk budget that is spent.
        """
        return self.database.full or self.room.full

    async def try_room(self) -> bool:
        """Return whether the store has room again. If it has room, also reset `database.full`.

        The store measures its disk budget. After a failed write, it also writes 64 KiB as a test.
        Raises StoreError if the test fails for another reason than a lack of room. Safe to cancel
        and to repeat.
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
        """Check every id, signature and index row, and return a report.

        The check reads one snapshot of the store and takes about 95 µs for each event. The store
        calls `progress` in a thread, with the number of checked events and the number of all
        events.
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
        """Finish the queued writes and close the file. A second call does nothing."""
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
        """Write, then fold the log of the fingerprints if the log is long."""

        def measured(conn: sqlite3.Connection) -> tuple[T, bool]:
            return work(conn), fingerprint_tables.log_length(conn) > fingerprint_tables.LONG

        result, long = await self.database.write(measured)
        if long:
            with suppress(StoreError):  # the write is done, and the next sync gets the error
                await self.fingerprints.tidy(fingerprint_tables.LONG // 2)
        return result

    def _writer_context(self) -> QueryContext:
        return self._context()._replace(hasher=self._saver.hasher, authors=self._saver.authors)

    def _now(self) -> int:
        return int(self._clock())

    def _context(self) -> QueryContext:
        return select.QueryContext(self._hasher, self._authors, self._now(), self._searchable)


def read_hash_key(conn: sqlite3.Connection) -> bytes:
    """Return the key of the tag index. Raises StoreCorrupt."""
    row = conn.execute("SELECT value FROM meta WHERE key = ?", (HASH_KEY,)).fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise StoreCorrupt("the store has lost the key of its tag index")
    return row[0]


def _hash_key_and_search(conn: sqlite3.Connection) -> tuple[bytes, bool]:
    return read_hash_key(conn), maintain.has_search(conn)


def _known(conn: sqlite3.Connection, ids: Sequence[bytes]) -> set[str]:
    settled = rows_in(conn, "SELECT id FROM settled WHERE id IN", ids)
    return held_ids(conn, ids) | {id_.hex() for (id_,) in settled}
