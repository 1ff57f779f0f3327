"""Collect the reads, changes and outgoing messages of one transaction on the counters."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from nostr_client.counters.base import Message, NoStream
from nostr_client.counters.config import StreamConfig, check_name
from nostr_client.counters.subjects import has_wildcard, is_subject, matches
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    import sqlite3


ROUTES = 10_000
"""Most remembered subjects with their stream. It bounds the memory, not the number of subjects."""


class ConfiguredStream:
    """A configured stream. Its present state is `session.OpenStream`."""

    def __init__(self, id: int, epoch: str, config: StreamConfig) -> None:
        self.id = id
        self.epoch = epoch
        self.config = config
        self.name = config.name

    @cached_property
    def has_limits(self) -> bool:
        return self.config.max_msgs > 0 or self.config.max_age > 0

    @cached_property
    def trims(self) -> bool:
        return self.has_limits or self.config.max_msgs_per_subject > 0

    @property
    def upstream(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.config.every_source)


class Catalog:
    """All streams of one store. Immutable."""

    def __init__(self, streams: list[ConfiguredStream]) -> None:
        self.by_name = {stream.name: stream for stream in streams}
        self._literal: dict[str, ConfiguredStream] = {}
        self._patterns: list[tuple[str, ConfiguredStream]] = []
        self._routes: dict[str, ConfiguredStream | None] = {}
        self._downstream: dict[str, list[ConfiguredStream]] = {}
        for stream in streams:
            self._index(stream)

    def _index(self, stream: ConfiguredStream) -> None:
        for subject in stream.config.subjects:
            if has_wildcard(subject):
                self._patterns.append((subject, stream))
            else:
                self._literal[subject] = stream
        for name in set(stream.upstream):
            self._downstream.setdefault(name, []).append(stream)

    def route(self, subject: str) -> ConfiguredStream | None:
        """Return the stream that listens on a subject, or None.

        Raises InvalidInput if `subject` is not a subject.
        """
        found = self._literal.get(subject)
        if found is not None:
            return found
        if subject not in self._routes:
            if not is_subject(subject):
                raise InvalidInput(f"not a subject: {subject!r}")
            if len(self._routes) >= ROUTES:
                self._routes.clear()
            self._routes[subject] = self._search(subject)
        return self._routes[subject]

    def _search(self, subject: str) -> ConfiguredStream | None:
        return next((s for pattern, s in self._patterns if matches(pattern, subject)), None)

    def downstream(self, name: str) -> list[ConfiguredStream]:
        """Return the streams that read or mirror this stream."""
        return self._downstream.get(name, [])


class CatalogCache:
    """Caches the catalog of one connection's store. No generation occurs twice."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def read(self, conn: sqlite3.Connection) -> Catalog:
        """Return the catalog as the connection's transaction sees it."""
        (generation,) = conn.execute("SELECT generation FROM counter_store").fetchone()
        if self._kept is None or self._kept.generation != generation:
            self._kept = _Kept(generation, load(conn))
        return self._kept.catalog

    def ends_in(self, name: str) -> bool:
        """Return whether a publish to a stream is known to change only a few rows.

        This is true if no other stream reads the stream, and no limit of age or number removes
        messages.
        """
        if self._kept is None:
            return False
        catalog = self._kept.catalog
        stream = catalog.by_name.get(name)
        return stream is not None and not (stream.has_limits or catalog.downstream(name))


class _Kept(NamedTuple):
    generation: int
    catalog: Catalog


def load(conn: sqlite3.Connection) -> Catalog:
    rows = conn.execute("SELECT id, epoch, config FROM counter_stream ORDER BY id")
    return Catalog([ConfiguredStream(id, epoch, read_config(text)) for id, epoch, text in rows])


def read_config(text: str) -> StreamConfig:
    return msgspec.json.decode(text, type=StreamConfig)


def write_config(config: StreamConfig) -> str:
    return msgspec.json.encode(config).decode()


def touch(conn: sqlite3.Connection) -> None:
    """Mark a change of a configuration."""
    conn.execute("UPDATE counter_store SET generation = random()")


class OpenStream:
    """Present state of a stream. `CounterSession.finish` writes it back."""

    __slots__ = ("changed", "last_seq", "messages", "subjects")

    def __init__(self, last_seq: int, messages: int, subjects: int) -> None:
        self.last_seq = last_seq
        self.messages = messages
        self.subjects = subjects
        self.changed = False

    def next_seq(self) -> int:
        """Return the next sequence, for a message that is then stored."""
        self.last_seq += 1
        self.messages += 1
        self.changed = True
        return self.last_seq

    def skip_to(self, seq: int) -> None:
        """Use a sequence of the mirrored stream."""
        self.last_seq = seq
        self.messages += 1
        self.changed = True

    def jump_past(self, seq: int) -> None:
        """Never use `seq` or a lower sequence again.

        A purge may name a sequence that the stream has not reached.
        """
        if seq > self.last_seq:
            self.last_seq = seq
            self.changed = True

    def forget(self, messages: int, subjects: int = 0) -> None:
        self.messages -= messages
        self.subjects -= subjects
        self.changed = True


class Latest(NamedTuple):
    """The newest message of a subject. `val` is None if its body must be read."""

    seq: int
    val: str | None


class CounterSession:
    """Work on the counters in the transaction of `conn`. `now` is in nanoseconds since 1970.

    Call `finish` before the transaction ends. If an error comes before that, the caller rolls back.
    `outgoing` collects republished messages, which the caller sends after the commit.
    """

    def __init__(self, conn: sqlite3.Connection, cache: CatalogCache, now: int) -> None:
        self.conn = conn
        self.now = now
        self.outgoing: list[Message] = []
        self._cache = cache
        self._catalog: Catalog | None = None
        self._live: dict[int, OpenStream] = {}

    @property
    def catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = self._cache.read(self.conn)
        return self._catalog

    def configuration_changed(self) -> None:
        self._catalog = None

    def stream(self, name: str) -> ConfiguredStream:
        """Return a stream by name. Raises NoStream."""
        found = self.catalog.by_name.get(check_name(name))
        if found is None:
            raise NoStream(name)
        return found

    def live(self, stream: ConfiguredStream) -> OpenStream:
        found = self._live.get(stream.id)
        if found is None:
            row = self.conn.execute(
                "SELECT last_seq, messages, subjects FROM counter_stream WHERE id = ?",
                (stream.id,),
            ).fetchone()
            found = self._live[stream.id] = OpenStream(*row)
        return found

    def changed(self) -> list[int]:
        """Return the ids of the streams that changed in this session."""
        return [id for id, live in self._live.items() if live.changed]

    def latest(self, stream: ConfiguredStream, subject: str) -> Latest | None:
        row = self.conn.execute(
            "SELECT seq, val FROM counter_latest WHERE stream = ? AND subject = ?",
            (stream.id, subject),
        ).fetchone()
        return Latest(*row) if row else None

    def finish(self) -> None:
        """Write the changed state of the streams."""
        for id, live in self._live.items():
            if live.changed:
                self.conn.execute(
                    "UPDATE counter_stream SET last_seq = ?, messages = ?, subjects = ?"
                    " WHERE id = ?",
                    (live.last_seq, live.messages, live.subjects, id),
                )
