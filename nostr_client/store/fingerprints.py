"""Keep fingerprints in the store, so that a sync over millions of events begins without a scan."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nostr_client.codecs.filters import Filter
from nostr_client.negentropy.chunks import ChunkedStorage
from nostr_client.store import fingerprint_tables
from nostr_client.store.file.connect import file_uri
from nostr_client.store.file.faults import store_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from nostr_client.store.file.database import Database

    ItemsWithin = Callable[
        [sqlite3.Connection, Filter], tuple[NDArray[np.uint64], NDArray[np.uint8]]
    ]

EVERYTHING = Filter()
"""The scope of all events."""


class Fingerprints:
    """The fingerprints of one store file. There is one object for each open store.

    A store in memory and a read-only store keep no fingerprints. `items_within` returns timestamps
    and ids of the matching events inside a write transaction. `sweep` removes expired events.
    """

    def __init__(
        self, database: Database, items_within: ItemsWithin, sweep: Callable[[], Awaitable[int]]
    ) -> None:
        self._database = database
        self._items_within = items_within
        self._sweep = sweep
        self._users = 0
        self._tidying = False

    @property
    def possible(self) -> bool:
        """Return whether this store can keep fingerprints."""
        return self._database.path is not None and not self._database.read_only

    async def register(self, filter: Filter = EVERYTHING) -> bool:
        """Keep the fingerprints of matching events from now on.

        Returns False if this store or filter allows none. Reads all matching events once, about a
        second for a million. Does nothing for a registered filter. Raises StoreError.
        """
        scope = filter.replace(since=None, until=None, limit=None)
        if not self.possible or scope.search is not None:
            return False
        if await self._database.read(lambda conn: fingerprint_tables.find(conn, scope)) is None:
            await self._database.write(lambda conn: self._create(conn, scope))
        return True

    def _create(self, conn: sqlite3.Connection, scope: Filter) -> None:
        if fingerprint_tables.find(conn, scope) is None:
            stamps, ids = self._items_within(conn, scope)
            fingerprint_tables.create(conn, scope, stamps, ids.tobytes())

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection that reads the chunks.

        The chunks do not change while the connection is open.
        """
        assert self._database.path is not None
        self._users += 1
        try:
            uri = file_uri(self._database.path, "ro")
            conn = sqlite3.connect(uri, uri=True, isolation_level=None)
            try:
                yield conn
            finally:
                conn.close()
        except sqlite3.Error as error:
            raise store_error(error) from error
        finally:
            self._users -= 1

    async def folded(self, filter: Filter) -> fingerprint_tables.Heads | None:
        """Return the chunk headers of a filter's scope after folding the log.

        Returns None if the filter has no scope. Returns None also while a reader is active, because
        the chunks must not change then.
        """
        scope = filter.replace(since=None, until=None, limit=None)
        if not self.possible or self._users:
            return None
        known = await self._database.read(lambda conn: fingerprint_tables.find(conn, scope))
        if known is None:
            return None
        await self._sweep()  # other answers hide expired events too
        heads: fingerprint_tables.Heads | None = None
        more = True
        while more:
            heads, more = await self._database.write(lambda conn: self._fold(conn, scope))
        return heads

    def _fold(
        self, conn: sqlite3.Connection, filter: Filter
    ) -> tuple[fingerprint_tables.Heads | None, bool]:
        """Do one step of folding.

        Return the chunk headers once nothing is left to fold, and whether something is left.
        """
        scope = fingerprint_tables.find(conn, filter)
        if scope is None or self._users:
            return None, False
        if fingerprint_tables.fold(conn, scope):
            return None, True
        return fingerprint_tables.read_heads(conn, scope), False

    async def tidy(self, most: int = 0) -> None:
        """Fold the log for every scope until at most `most` entries are left.

        Each step is its own transaction, so other writers get their turn. Does nothing while a
        reader is active, because the chunks must not change then. Raises StoreError.
        """
        if not self.possible or self._users or self._tidying:
            return
        self._tidying = True
        try:
            while await self._database.write(lambda conn: self._tidy(conn, most)):
                pass
        finally:
            self._tidying = False

    def _tidy(self, conn: sqlite3.Connection, most: int) -> bool:
        """Do one step of folding. Return whether there was something to fold."""
        if self._users or fingerprint_tables.log_length(conn) <= most:
            return False
        scope = fingerprint_tables.furthest_behind(conn)
        return scope is not None and fingerprint_tables.fold(conn, scope)

    @contextmanager
    def storage(self, heads: fingerprint_tables.Heads) -> Iterator[ChunkedStorage]:
        """Return the negentropy storage over chunk headers, for the duration of the block.

        Raises StoreError, also from the storage's methods, which read chunks.
        """
        with self._reading() as conn:

            def load(at: int) -> bytes:
                try:
                    return fingerprint_tables.read_chunk(conn, heads.rows[at])
                except sqlite3.Error as error:
                    raise store_error(error) from error

            yield ChunkedStorage(heads.heads, load)
