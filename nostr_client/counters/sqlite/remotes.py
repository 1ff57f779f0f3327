"""Exchange counters between stores: serve an embedded store's streams, and apply others'."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.counters.engine import read, remote, served, take
from nostr_client.counters.engine.rows import under
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from nostr_client.counters.engine.remote import ParkedMessage, Remote, SourceRecord
    from nostr_client.counters.engine.rows import SubjectMatch
    from nostr_client.counters.engine.served import MessagePage
    from nostr_client.counters.engine.session import CounterSession
    from nostr_client.counters.engine.take import Batch, BatchResult
    from nostr_client.counters.lineage import StreamHead, Way
    from nostr_client.store.file.database import Database

PER_VALUE = 6
"""Characters of JSON for a subject and its value, beside both texts."""


class Values(NamedTuple):
    """Values of a stream at one moment, as digits by subject."""

    head: StreamHead
    ways: tuple[Way, ...]
    values: dict[str, str]


class TooMany(CounterError):
    """More subjects, or longer values, than one answer allows."""

    def __init__(self, what: str) -> None:
        super().__init__(what, code=0)


class Remotes:
    """The part of a store that exchanges counters with other stores.

    Every call is safe to cancel.
    """

    def __init__(
        self,
        database: Database,
        write: Callable[[Callable[[CounterSession], BatchResult]], Awaitable[BatchResult]],
        clock: Callable[[], int],
    ) -> None:
        self._database = database
        self._write = write
        self._clock = clock

    async def begin_run(self, run: str) -> None:
        """Record this run of the writing program.

        Call it before other stores may read.
        """
        now = self._clock()
        await self._database.write(lambda conn: served.begin_run(conn, run, now))

    async def configure(self, names: Iterable[str]) -> None:
        """Set which sources are configured."""
        wanted = tuple(names)
        await self._database.write(lambda conn: remote.configure(conn, wanted))

    async def page(
        self, stream: str, after: int, limit: int, *, newest: bool = False
    ) -> MessagePage:
        """Return the stored messages after a sequence, oldest first. Raises NoStream."""
        return await self._database.read(
            lambda conn: served.page(conn, stream, after, limit, newest=newest)
        )

    async def values(self, stream: str, patterns: Sequence[str], most: int) -> Values:
        """Return the values that match patterns.

        Raises NoStream. Raises TooMany for more than `most` characters.
        """
        return await self._database.read(lambda conn: _values(conn, stream, patterns, most))

    async def take(self, source: Remote, batch: Batch) -> BatchResult:
        """Apply a batch of a source by the rules of `engine.take`.

        Raises NoStream and CounterError. Raises InvalidInput for a batch that contradicts itself.
        """
        take.check_batch(batch)
        return await self._write(lambda session: take.take(session, source, batch))

    async def confirm(self, name: str) -> bool:
        """Confirm that the values of a source fell, so that reading continues.

        Returns False if the source does not wait for a confirmation.
        """
        return await self._database.write(lambda conn: remote.confirm(conn, name))

    async def known(self, name: str) -> tuple[SourceRecord, list[ParkedMessage], int] | None:
        """Return the record of a source, some of its parked messages, and their total number."""

        def work(conn: sqlite3.Connection) -> tuple[SourceRecord, list[ParkedMessage], int] | None:
            found = remote.known(conn, name)
            if found is None:
                return None
            return found, remote.parked(conn, name, 10), remote.count_parked(conn, name)

        return await self._database.read(work)


def _values(conn: sqlite3.Connection, stream: str, patterns: Sequence[str], most: int) -> Values:
    id = read.stream_id(conn, stream)
    found: dict[str, str] = {}
    size = 0
    for one in _named(conn, id, patterns):
        value = None if one.subject in found else _value(conn, id, one)
        if value is None:
            continue
        found[one.subject] = value
        size += len(one.subject) + len(value) + PER_VALUE
        if size > most:
            raise TooMany(
                f"the values of {stream} take more than {most} characters: add them up in a"
                " stream with fewer subjects, and publish that"
            )
    return Values(served.head(conn, id), served.ways_into(conn, stream), found)


def _named(
    conn: sqlite3.Connection, stream: int, patterns: Sequence[str]
) -> Iterator[SubjectMatch]:
    """Return every counter that matches a pattern.

    A counter that matches several patterns occurs several times.
    """
    return (one for pattern in patterns for one in under(conn, stream, pattern))


def _value(conn: sqlite3.Connection, stream: int, one: SubjectMatch) -> str | None:
    """Return the value of a counter, or None if it is broken.

    A broken counter must not prevent the answer about others.
    """
    try:
        return one.val if one.val is not None else read.load(conn, stream, one.subject)
    except CounterError:
        return None
