"""The configured streams of a store, read once and kept until a configuration changes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from nostr_client.counters.config import StreamConfig
from nostr_client.counters.subjects import has_wildcard, is_subject, matches
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    import sqlite3

ROUTES = 10_000
"""Subjects whose stream is remembered: bounds the memory, not the number of subjects."""


class Stream:
    """A configured stream; what it holds at the moment is `session.Live`."""

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
    """Every stream of one store; whole and unchanging."""

    def __init__(self, streams: list[Stream]) -> None:
        self.by_name = {stream.name: stream for stream in streams}
        self._literal: dict[str, Stream] = {}
        self._patterns: list[tuple[str, Stream]] = []
        self._routes: dict[str, Stream | None] = {}
        self._downstream: dict[str, list[Stream]] = {}
        for stream in streams:
            self._index(stream)

    def _index(self, stream: Stream) -> None:
        for subject in stream.config.subjects:
            if has_wildcard(subject):
                self._patterns.append((subject, stream))
            else:
                self._literal[subject] = stream
        for name in set(stream.upstream):
            self._downstream.setdefault(name, []).append(stream)

    def route(self, subject: str) -> Stream | None:
        """The stream that listens on a subject; raises InvalidInput where it is none."""
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

    def _search(self, subject: str) -> Stream | None:
        return next((s for pattern, s in self._patterns if matches(pattern, subject)), None)

    def downstream(self, name: str) -> list[Stream]:
        """The streams that source or mirror this one."""
        return self._downstream.get(name, [])


class CatalogCache:
    """Keeps the catalog of one connection's store; a generation never comes back once changed."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def read(self, conn: sqlite3.Connection) -> Catalog:
        """The catalog as the connection's transaction sees it."""
        (generation,) = conn.execute("SELECT generation FROM counter_store").fetchone()
        if self._kept is None or self._kept.generation != generation:
            self._kept = _Kept(generation, load(conn))
        return self._kept.catalog

    def ends_in(self, name: str) -> bool:
        """Whether a publish to a stream is known to touch a few rows: nothing follows from it in
        other streams, and no age or number of messages removes others at once."""
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
    return Catalog([Stream(id, epoch, read_config(text)) for id, epoch, text in rows])


def read_config(text: str) -> StreamConfig:
    return msgspec.json.decode(text, type=StreamConfig)


def write_config(config: StreamConfig) -> str:
    return msgspec.json.encode(config).decode()


def touch(conn: sqlite3.Connection) -> None:
    """Say that a configuration changed."""
    conn.execute("UPDATE counter_store SET generation = random()")
