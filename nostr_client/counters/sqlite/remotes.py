"""Sourcing between stores: what an embedded store shows to others, and takes from them."""

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
    from nostr_client.store.database import Database

PER_VALUE = 6
"""Characters that JSON takes for a subject with its value, beside both."""


class Values(NamedTuple):
    """The values of a stream at one moment: in digits, by subject."""

    head: StreamHead
    ways: tuple[Way, ...]
    values: dict[str, str]


class TooMany(CounterError):
    """More subjects, or longer values, than one answer may hold."""

    def __init__(self, what: str) -> None:
        super().__init__(what, code=0)


class Remotes:
    """The part of a store that deals with other stores. Every call is safe to cancel."""

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
        """Name this run of the program that writes; before others may read."""
        now = self._clock()
        await self._database.write(lambda conn: served.begin_run(conn, run, now))

    async def configure(self, names: Iterable[str]) -> None:
        """Say which sources there are now."""
        wanted = tuple(names)
        await self._database.write(lambda conn: remote.configure(conn, wanted))

    async def page(
        self, stream: str, after: int, limit: int, *, newest: bool = False
    ) -> MessagePage:
        """Kept messages after a sequence, oldest first. Raises NoStream."""
        return await self._database.read(
            lambda conn: served.page(conn, stream, after, limit, newest=newest)
        )

    async def values(self, stream: str, patterns: Sequence[str], most: int) -> Values:
        """The values that patterns name. Raises NoStream, TooMany (above `most` characters)."""
        return await self._database.read(lambda conn: _values(conn, stream, patterns, most))

    async def take(self, source: Remote, batch: Batch) -> BatchResult:
        """Take what a source says, as `engine.take` does.

        Raises NoStream, CounterError, and InvalidInput for a batch that contradicts itself.
        """
        take.check_batch(batch)
        return await self._write(lambda session: take.take(session, source, batch))

    async def confirm(self, name: str) -> bool:
        """Let a source go on whose values fell; False where none waits for that."""
        return await self._database.write(lambda conn: remote.confirm(conn, name))

    async def known(self, name: str) -> tuple[SourceRecord, list[ParkedMessage], int] | None:
        """What is kept of a source, some of what is parked of it, and how much that is."""

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
    """Every counter that a pattern names; one that several name comes several times."""
    return (one for pattern in patterns for one in under(conn, stream, pattern))


def _value(conn: sqlite3.Connection, stream: int, one: SubjectMatch) -> str | None:
    """The value of a counter; None where it is broken: others go on."""
    try:
        return one.val if one.val is not None else read.load(conn, stream, one.subject)
    except CounterError:
        return None
