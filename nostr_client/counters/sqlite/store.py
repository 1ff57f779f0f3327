"""Keep streams of counters in one SQLite file: the embedded CounterStore."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self, TypeVar

from nostr_client.counters import rules
from nostr_client.counters.base import CounterStore
from nostr_client.counters.calls import check_purge
from nostr_client.counters.config import check_seq
from nostr_client.counters.engine import batch, pull, read, session, streams, trim
from nostr_client.counters.engine.publish import StoredMessage, publish
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.engine.session import CatalogCache, ConfiguredStream, CounterSession
from nostr_client.counters.sqlite.counters import SqliteCounters, to_ack
from nostr_client.counters.sqlite.feed import CounterFeed
from nostr_client.counters.sqlite.group import Group
from nostr_client.counters.sqlite.remotes import Remotes
from nostr_client.counters.subjects import check_patterns
from nostr_client.errors import CounterError
from nostr_client.store.file.database import Database
from nostr_client.store.file.migrate import check_current, migrate

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from nostr_client.counters.base import Ack, BatchAck, Message, Outgoing, StreamInfo
    from nostr_client.counters.config import StreamConfig

T = TypeVar("T")

PAGE = 500
"""Messages of one read."""


class SqliteCounterStore(CounterStore):
    """Holds streams of counters in a SQLite file. Create it by `open` or `over`.

    CounterStore describes the methods that are not in this section. Each write is one transaction.
    Calls that wait at the same time share a transaction. If a stream has another stream of the
    store as its source, the transaction that changes the source also updates the stream.
    """

    def __init__(
        self, database: Database, *, clock: Callable[[], int] = time.time_ns, owns: bool = False
    ) -> None:
        self.database = database
        self.feed = CounterFeed()
        self._clock = clock
        self._owns = owns
        self._cache = CatalogCache()
        self._group: Group[StoredMessage] = Group(self.write)
        self.remotes = Remotes(database, self.write, clock)

    @classmethod
    async def open(cls, path: str | Path, *, clock: Callable[[], int] = time.time_ns) -> Self:
        """Open a file that has only this store, or ":memory:".

        `clock` returns nanoseconds. Raises StoreError or one of its subclasses.
        """
        database = await Database.open(path, migrations=[MIGRATIONS])
        store = cls(database, clock=clock, owns=True)
        await store.settle()
        return store

    @classmethod
    async def over(cls, database: Database, *, clock: Callable[[], int] = time.time_ns) -> Self:
        """Use an open database, for example that of the event store.

        The call brings the tables of the counters up to date. `close` does not close the database.
        """
        store = cls(database, clock=clock)
        if database.read_only:
            await database.read(lambda conn: check_current(conn, [MIGRATIONS]))
        else:
            await database.maintain(lambda conn: migrate(conn, [MIGRATIONS]))
            await store.settle()
        return store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._group.close()
        if self._owns:
            await self.database.close()

    async def identity(self) -> str:
        """Return the random id of this store.

        Other stores use the id to remember what they took from this store.
        """
        query = "SELECT uuid FROM counter_store"
        row: tuple[str] = await self.database.read(lambda conn: conn.execute(query).fetchone())
        return row[0]

    async def counters(self, stream: str) -> SqliteCounters:
        """Return the counters of one stream.

        A mirror of counters is readable, too. Raises NoStream, and CounterError 10168 if the stream
        has no counters.
        """
        info = await self.stream_info(stream)
        if not info.config.allow_msg_counter and not (info.config.mirror or info.config.sources):
            raise rules.disabled().named(stream)
        return SqliteCounters(self, stream)

    async def create_stream(self, config: StreamConfig) -> StreamInfo:
        await self._configure(lambda session: streams.create(session, config), config.name)
        await self.settle()
        return await self.stream_info(config.name)

    async def update_stream(self, config: StreamConfig) -> StreamInfo:
        await self._configure(lambda session: streams.update(session, config), config.name)
        await self.settle()
        return await self.stream_info(config.name)

    async def _configure(self, work: Callable[[CounterSession], None], name: str) -> None:
        try:
            await self.write(work)
        except CounterError as error:
            raise error.named(name) from error.__cause__

    async def delete_stream(self, name: str) -> None:
        await self.write(lambda session: streams.delete(session, name))

    async def import_stream(self, config: StreamConfig, messages: Sequence[Outgoing]) -> StreamInfo:
        """Create a stream with these messages, for example from the dump of a server.

        The store does not change the messages.
        """
        await self.write(lambda session: batch.import_stream(session, config, messages))
        return await self.stream_info(config.name)

    async def stream_info(self, name: str) -> StreamInfo:
        return await self.database.read(lambda conn: _info(conn, name))

    async def streams(self) -> list[StreamInfo]:
        return await self.database.read(_all_infos)

    async def publish_message(self, message: Outgoing) -> Ack:
        rules.check_syntax(message.headers)
        return to_ack(await self.publish(lambda session: _publish(session, message)))

    async def publish_batch(self, messages: Sequence[Outgoing], batch_id: str) -> BatchAck:
        rules.check_syntax(((rules.BATCH_ID, batch_id),))
        for message in messages:
            rules.check_syntax(message.headers)
        return await self.write(lambda session: batch.publish_batch(session, messages, batch_id))

    async def last_message(self, stream: str, subject: str) -> Message:
        found = await self.last_messages(stream, check_patterns([subject]))
        if not found:
            raise rules.no_message(subject)
        return found[-1]

    async def last_messages(
        self, stream: str, patterns: Sequence[str], *, up_to_seq: int | None = None
    ) -> list[Message]:
        wanted = check_patterns(patterns)
        if up_to_seq is not None:
            check_seq(up_to_seq)

        def work(conn: sqlite3.Connection) -> list[Message]:
            return read.newest_many(conn, read.stream_id(conn, stream), wanted, up_to_seq)

        return await self.database.read(work)

    async def message(self, stream: str, seq: int) -> Message:
        def work(conn: sqlite3.Connection) -> Message:
            id = read.stream_id(conn, stream)
            return read.message_at(conn, id, read.row_at(conn, id, check_seq(seq)))

        return await self.database.read(work)

    async def messages(self, stream: str, *, after_seq: int = 0) -> AsyncIterator[Message]:
        while page := await self.since(stream, after_seq):
            for message in page:
                yield message
            after_seq = page[-1].seq

    async def since(self, stream: str, after_seq: int, limit: int = PAGE) -> list[Message]:
        """Return at most `limit` messages after a sequence, oldest first."""
        after = check_seq(after_seq)

        def work(conn: sqlite3.Connection) -> list[Message]:
            return read.since_page(conn, read.stream_id(conn, stream), after, limit)

        return await self.database.read(work)

    async def purge(self, stream: str, *, filter: str = "", seq: int = 0, keep: int = 0) -> int:
        check_purge(filter, seq, keep)
        return await self.write(
            lambda session: trim.purge(session, session.stream(stream), filter, seq, keep)
        )

    async def delete_message(self, stream: str, seq: int) -> None:
        check_seq(seq)
        await self.write(lambda session: trim.delete_message(session, session.stream(stream), seq))

    async def trim(self) -> int:
        """Apply the age limits of all streams now, and return the number of removed messages.

        Otherwise, a stream without new messages would keep its old messages.
        """
        return await self.write(_expire_all)

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        check_patterns([pattern])
        return self.feed.subscribe(pattern)

    async def settle(self) -> None:
        while await self.write(_pull_all):
            pass

    async def publish(
        self, work: Callable[[CounterSession], StoredMessage], stream: str = ""
    ) -> StoredMessage:
        """Run the function `work`, which publishes one message, in a transaction.

        Calls that wait at the same time share the transaction. `stream` is the name of the only
        stream that `work` can change, or "" if you do not know it.
        """
        return await self._group.run(work, small=self._cache.ends_in(stream))

    async def write(self, work: Callable[[CounterSession], T], *, small: bool = False) -> T:
        """Run the function `work` in a transaction, then notify the watchers.

        The same transaction updates the streams that have the changed streams as sources. `small`
        says that `work` changes only a few rows, so that the store may run it in the caller's
        thread.
        """

        def run(conn: sqlite3.Connection) -> tuple[T, CounterSession, bool]:
            session = CounterSession(conn, self._cache, self._clock())
            result = work(session)
            more = pull.flow(session)
            session.finish()
            return result, session, more

        result, session, more = await self.database.write(run, small=small)
        if session.changed():
            self.feed.send(session.outgoing)
        if more:
            await self.settle()
        return result


def _publish(session: CounterSession, message: Outgoing) -> StoredMessage:
    return publish(session, message.subject, message.headers, message.body)


def _info(conn: sqlite3.Connection, name: str) -> StreamInfo:
    read.stream_id(conn, name)
    found = session.load(conn)
    return streams.info(conn, found.by_name[name])


def _all_infos(conn: sqlite3.Connection) -> list[StreamInfo]:
    found = session.load(conn).by_name
    return [streams.info(conn, found[name]) for name in sorted(found)]


def _sourcing(session: CounterSession) -> list[ConfiguredStream]:
    return [stream for stream in session.catalog.by_name.values() if stream.upstream]


def _pull_all(session: CounterSession) -> bool:
    results = [pull.pull(session, stream) for stream in _sourcing(session)]
    return any(taken or more for taken, more in results)


def _expire_all(session: CounterSession) -> int:
    limited = [s for s in session.catalog.by_name.values() if s.has_limits]
    return sum(trim.expire(session, stream) for stream in limited)
