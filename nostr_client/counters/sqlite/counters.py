"""The counters of one embedded stream."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from nostr_client.counters import audit, rules
from nostr_client.counters.base import Ack, Entry, NoStream
from nostr_client.counters.engine import read, trim
from nostr_client.counters.engine.publish import Stored, publish
from nostr_client.counters.numbers import parse_integer
from nostr_client.counters.subjects import Wanted, check_patterns
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

    from nostr_client.counters.engine.session import Session
    from nostr_client.counters.sqlite.store import SqliteCounterStore

T = TypeVar("T")
V = TypeVar("V")
Items: TypeAlias = "list[tuple[str, V]]"

PAGE = 500
"""Messages read in one go."""

POLL_S = 1.0
"""How soon a watch sees what another object or process wrote; own writes wake it at once."""


class SqliteCounters:
    """One stream; see `base.Counters`. Made by `SqliteCounterStore.counters`."""

    def __init__(self, store: SqliteCounterStore, name: str) -> None:
        self._store = store
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def publish(
        self,
        subject: str,
        n: int,
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str | None = None,
    ) -> Ack:
        lines = rules.increment_headers(n, headers, msg_id)
        stored = await self._store.publish(lambda session: self._publish(session, subject, lines))
        return _ack(stored)

    async def add(self, subject: str, n: int, *, msg_id: str | None = None) -> int:
        return (await self.publish(subject, n, msg_id=msg_id)).value()

    async def add_many(self, items: Sequence[tuple[str, int]]) -> list[Ack | CounterError]:
        lines = [(subject, ((rules.INCR, rules.signed(n)),)) for subject, n in items]

        def work(session: Session) -> list[Stored | CounterError]:
            return [self._try(session, subject, headers) for subject, headers in lines]

        found = await self._store.write(work)
        return [item if isinstance(item, CounterError) else _ack(item) for item in found]

    def _try(self, session: Session, subject: str, headers: rules.Headers) -> Stored | CounterError:
        """A refusal changes nothing, so that the others of a group may stand."""
        try:
            return self._publish(session, subject, headers)
        except CounterError as error:
            return error

    def _publish(self, session: Session, subject: str, headers: rules.Headers) -> Stored:
        stream = session.catalog.route(subject)
        if stream is None or stream.name != self._name:
            raise NoStream(f"{subject} in {self._name}")
        return publish(session, subject, headers, b"")

    async def load(self, subject: str) -> int:
        return parse_integer(await self._read(lambda conn, id: read.load(conn, id, subject)))

    async def load_many(self, *patterns: str) -> AsyncIterator[tuple[str, int]]:
        async for page in self._pages(patterns, read.load_literals, read.load_page):
            for subject, value in page:
                yield subject, parse_integer(value)

    async def get(self, subject: str, *, at_seq: int | None = None) -> Entry:
        return await self._read(
            lambda conn, id: read.entry(*read.newest(conn, id, subject, at_seq))
        )

    async def get_many(self, *patterns: str, at_seq: int | None = None) -> AsyncIterator[Entry]:
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
        """What the patterns name, each subject once, one read at a time."""
        wanted = Wanted.of(patterns)
        for start in range(0, len(wanted.literals), PAGE):
            chunk = wanted.literals[start : start + PAGE]
            yield await self._read(partial(_then, literals, (chunk,)))
        for place, pattern in enumerate(wanted.wildcards):
            after: str | None = ""
            while after is not None:
                found, after = await self._read(partial(_then, pages, (pattern, after)))
                yield [item for item in found if not wanted.given_before(place, item[0])]

    async def _read(self, work: Callable[[sqlite3.Connection, int], T]) -> T:
        """Run `work` on a reader with the stream's id."""
        return await self._store.database.read(
            lambda conn: work(conn, read.stream_id(conn, self._name))
        )

    async def history(self, subject: str, *, after_seq: int = 0) -> AsyncIterator[Entry]:
        while page := await self._history_page(subject, after_seq):
            for entry in page:
                yield entry
            after_seq = page[-1].seq

    async def _history_page(self, subject: str, after: int) -> list[Entry]:
        return await self._read(
            lambda conn, id: [
                read.entry(row, sources)
                for row, sources in read.history_page(conn, id, subject, after, PAGE)
            ]
        )

    async def recount(self, subject: str) -> audit.Recount:
        return await self._read(lambda conn, id: audit.recount(read.steps(conn, id, subject)))

    async def reset(self, subject: str) -> int:
        def work(session: Session) -> Stored:
            stream = session.stream(self._name)
            value = parse_integer(read.load(session.conn, stream.id, subject))
            stored = self._publish(session, subject, ((rules.INCR, rules.signed(-value)),))
            trim.purge(session, stream, subject, stored.seq)
            return stored

        return _ack(await self._store.write(work)).value()

    async def delete(self, subject: str) -> int:
        check_patterns([subject])
        return await self._store.purge(self._name, filter=subject)

    async def watch(
        self, *patterns: str, after_seq: int | None = None
    ) -> AsyncGenerator[Entry, None]:
        wanted = check_patterns(patterns)
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
                    await _wait(news)
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
    """Call a read with what follows the connection and the stream's id."""
    return work(conn, stream, *rest)


def _ack(stored: Stored) -> Ack:
    value = parse_integer(stored.val) if stored.val is not None else None
    return Ack(stored.stream, "", stored.seq, value, stored.duplicate)


async def _wait(news: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(POLL_S):
            await news.wait()
    except TimeoutError:
        return
