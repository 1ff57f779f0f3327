"""The engine of the embedded counters on a plain connection, one transaction a call."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, TypeVar

from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig
from nostr_client.counters.engine import pull, read, sourcemap, streams, trim
from nostr_client.counters.engine.publish import StoredMessage, publish
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.engine.session import CatalogCache, CounterSession
from nostr_client.counters.rules import format_integer
from nostr_client.store.file.migrate import create

if TYPE_CHECKING:
    from collections.abc import Callable

    from nostr_client.counters.base import Message

T = TypeVar("T")
Headers = tuple[tuple[str, str], ...]


class Engine:
    """A store in memory, without threads or an event loop."""

    def __init__(self) -> None:
        self.conn = sqlite3.connect(":memory:", isolation_level=None)
        create(self.conn, [MIGRATIONS])
        self.cache = CatalogCache()
        self.now = 1_700_000_000_000_000_000

    def close(self) -> None:
        self.conn.close()

    def run(self, work: Callable[[CounterSession], T]) -> T:
        """What the store's writer does: all of it, or nothing."""
        self.now += 1_000
        self.conn.execute("BEGIN")
        try:
            session = CounterSession(self.conn, self.cache, self.now)
            result = work(session)
            while pull.flow(session):
                pass
            session.finish()
            self.conn.execute("COMMIT")
        finally:
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
        return result

    def create(self, config: StreamConfig) -> None:
        self.run(lambda s: streams.create(s, config))
        self.settle()

    def update(self, config: StreamConfig) -> None:
        self.run(lambda s: streams.update(s, config))
        self.settle()

    def settle(self) -> None:
        names = self.run(lambda s: list(s.catalog.by_name))
        while any(self.run(lambda s, n=name: pull.pull(s, s.stream(n))[0]) for name in names):
            pass

    def add(self, subject: str, n: int, *headers: tuple[str, str]) -> StoredMessage:
        lines = (("Nats-Incr", format_integer(n)), *headers)
        return self.run(lambda s: publish(s, subject, lines, b""))

    def id(self, stream: str) -> int:
        return read.stream_id(self.conn, stream)

    def value(self, stream: str, subject: str) -> int:
        return read.entry(*read.newest(self.conn, self.id(stream), subject)).value

    def sources(self, stream: str, subject: str) -> dict[str, dict[str, str]]:
        return sourcemap.current(self.conn, self.id(stream), subject)

    def dump(self, stream: str) -> list[Message]:
        return read.since_page(self.conn, self.id(stream), 0, -1)

    def everything(self) -> list[Any]:
        """All rows of all tables, to see that nothing changed."""
        tables = self.conn.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'counter%'"
        ).fetchall()
        return [self.conn.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables]

    def purge(self, stream: str, subject: str, seq: int = 0, keep: int = 0) -> int:
        return self.run(lambda s: trim.purge(s, s.stream(stream), subject, seq, keep))

    def delete(self, stream: str, seq: int) -> None:
        self.run(lambda s: trim.delete_message(s, s.stream(stream), seq))

    def move_cursors_back(self, stream: str, seq: int) -> None:
        self.conn.execute(
            "UPDATE counter_source_cursor SET seq = min(seq, ?) WHERE stream = ?",
            (seq, self.id(stream)),
        )
        self.settle()


def counter(name: str, *subjects: str, **more: Any) -> StreamConfig:
    return StreamConfig(name=name, subjects=subjects, allow_msg_counter=True, **more)


def source(name: str, src: str, dest: str) -> SourceConfig:
    return SourceConfig(name=name, subject_transforms=(TransformConfig(src=src, dest=dest),))
