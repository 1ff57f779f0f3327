"""Read and change the counters of one embedded stream."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from nostr_client.counters import audit, rules
from nostr_client.counters.base import Ack, Entry, NoStream
from nostr_client.counters.calls import BaseCounters
from nostr_client.counters.config import check_seq
from nostr_client.counters.engine import read, trim
from nostr_client.counters.engine.publish import StoredMessage, publish
from nostr_client.counters.rules import parse_integer
from nostr_client.counters.subjects import SubjectPatterns, check_patterns
from nostr_client.errors import CounterError
from nostr_client.network.waiting import set_within

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from nostr_client.counters.base import StreamInfo
    from nostr_client.counters.engine.session import CounterSession
    from nostr_client.counters.sqlite.feed import CounterFeed
    from nostr_client.store.file.database import Database

T = TypeVar("T")
V = TypeVar("V")
Items: TypeAlias = "list[tuple[str, V]]"

PAGE = 500
"""Messages of one read."""

POLL_S = 1.0
"""Seconds after which a watch sees writes of another object or process.

Writes of this store wake a watch at once.
"""


class StreamStore(Protocol):
    """Methods of a store that the counters of one stream need."""

    database: Database
    feed: CounterFeed

    async def publish(
        self, work: Callable[[CounterSession], StoredMessage], stream: str = ""
    ) -> StoredMessage:
        """Run one publish, together with other waiting publishes."""

    async def write(self, work: Callable[[CounterSession], T], *, small: bool = False) -> T:
        """Run `work` in a transaction, and update the streams that read the changed streams."""

    async def purge(self, stream: str, *, filter: str = "", seq: int = 0, keep: int = 0) -> int:
        """Remove messages and return their number."""

    async def stream_info(self, name: str) -> StreamInfo:
        """Return the stream's configuration and state."""


class SqliteCounters(BaseCounters):
    """Counters of one stream, created by `SqliteCounterStore.counters`. See `base.Counters`."""

    def __init__(self, store: StreamStore, name: str) -> None:
        super().__init__(name)
        self._store = store

    async def _publish(self, subject: str, headers: rules.Headers) -> Ack:
        work = partial(self._count, subject=subject, headers=headers)
        return to_ack(await self._store.publish(work, self._name))

    async def _publish_many(
        self, items: Sequence[tuple[str, rules.Headers]]
    ) -> list[Ack | CounterError]:
        def work(session: CounterSession) -> list[StoredMessage | CounterError]:
            return [self._try(session, subject, headers) for subject, headers in items]

        found = await self._store.write(work)
        return [item if isinstance(item, CounterError) else to_ack(item) for item in found]

    def _try(
        self, session: CounterSession, subject: str, headers: rules.Headers
    ) -> StoredMessage | CounterError:
        """Publish, or return the refusal.

        A refusal changes nothing, so the rest of a group can commit.
        """
        try:
            return self._count(session, subject, headers)
        except CounterError as error:
            return error

    def _count(
        self, session: CounterSession, subject: str, headers: rules.Headers
    ) -> StoredMessage:
        stream = session.catalog.route(subject)
        if stream is None or stream.name != self._name:
            raise NoStream(f"{subject} in {self._name}")
        return publish(session, subject, headers, b"")

    async def _value(self, subject: str) -> str:
        return await self._read(lambda conn, id: read.load(conn, id, subject), small=True)

    async def load_many(self, *patterns: str) -> AsyncIterator[tuple[str, int]]:
        async for page in self._pages(patterns, read.load_literals, read.load_page):
            for subject, value in page:
                yield subject, parse_integer(value)

    async def _entry(self, subject: str, at_seq: int | None) -> Entry:
        return await self._read(
            lambda conn, id: read.entry(*read.newest(conn, id, subject, at_seq)), small=True
        )

    async def get_many(self, *patterns: str, at_seq: int | None = None) -> AsyncIterator[Entry]:
        if at_seq is not None:
            check_seq(at_seq)
        literals = partial(read.entry_literals, at_seq=at_seq)
        pages = partial(read.entry_page, at_seq=at_seq)
        async for page in self._pages(patterns, literals, pages):
            for _, entry in page:
                yield entry

    async def _pages(
        self,
        patterns: Sequence[str],
        literals: Callable[[sqlite3.Connection, int, Sequence[str]], Items[V]],
        pages: Callable[[sqlite3.Connection, int, str, str], tuple[Items[V], str | None]],
    ) -> AsyncIterator[Items[V]]:
        """Yield the matches of the patterns, each subject once, one list for each read."""
        wanted = SubjectPatterns.of(patterns)
        for start in range(0, len(wanted.literals), PAGE):
            chunk = wanted.literals[start : start + PAGE]
            yield await self._read(partial(_then, literals, (chunk,)))
        for place, pattern in enumerate(wanted.wildcards):
            after: str | None = ""
            while after is not None:
                found, after = await self._read(partial(_then, pages, (pattern, after)))
                yield [item for item in found if not wanted.given_before(place, item[0])]

    async def _read(
        self, work: Callable[[sqlite3.Connection, int], T], *, small: bool = False
    ) -> T:
        """Run `work` on a reader with the stream's id. `small` is that of `Database.read`."""
        return await self._store.database.read(
            lambda conn: work(conn, read.stream_id(conn, self._name)), small=small
        )

    async def _history_page(self, subject: str, after: int) -> list[Entry]:
        return await self._read(
            lambda conn, id: [
                read.entry(row, sources)
                for row, sources in read.history_page(conn, id, subject, after, PAGE)
            ]
        )

    async def _recount(self, subject: str) -> audit.Recount:
        return await self._read(lambda conn, id: audit.recount(read.steps(conn, id, subject)))

    async def _reset(self, subject: str) -> Ack:
        def work(session: CounterSession) -> StoredMessage:
            stream = session.stream(self._name)
            value = parse_integer(read.load(session.conn, stream.id, subject))
            stored = self._count(session, subject, ((rules.INCR, rules.signed(-value)),))
            trim.purge(session, stream, subject, stored.seq)
            return stored

        return to_ack(await self._store.write(work))

    async def _purge(self, pattern: str) -> int:
        return await self._store.purge(self._name, filter=pattern)

    async def watch(
        self, *patterns: str, after_seq: int | None = None
    ) -> AsyncGenerator[Entry, None]:
        wanted = check_patterns(patterns)
        if after_seq is not None:
            check_seq(after_seq)
        news = self._store.feed.enroll()
        try:
            if after_seq is None:
                after_seq = (await self._store.stream_info(self._name)).state.last_seq
                async for entry in self.get_many(*wanted, at_seq=after_seq):
                    yield entry
            while True:
                news.clear()
                seen, entries = await self._changes(wanted, after_seq)
                for entry in entries:
                    yield entry
                if seen == after_seq:
                    await set_within(news, POLL_S)
                after_seq = seen
        finally:
            self._store.feed.leave(news)

    async def _changes(self, patterns: Sequence[str], after: int) -> tuple[int, list[Entry]]:
        return await self._read(
            lambda conn, id: read.changes_since(conn, id, patterns, after, PAGE)
        )


def _then(
    work: Callable[..., T], rest: tuple[object, ...], conn: sqlite3.Connection, stream: int
) -> T:
    """Call a read with the connection, the stream's id and further arguments."""
    return work(conn, stream, *rest)


def to_ack(stored: StoredMessage) -> Ack:
    """Convert a stored message to an acknowledgement."""
    value = parse_integer(stored.val) if stored.val is not None else None
    return Ack(stored.stream, "", stored.seq, value, stored.duplicate)
