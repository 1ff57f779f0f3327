"""One unit of work on the counters: what is read, changed and to be told within a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.counters.base import Message, NoStream
from nostr_client.counters.config import check_name

if TYPE_CHECKING:
    import sqlite3

    from nostr_client.counters.engine.catalog import Catalog, CatalogCache, Stream


class Live:
    """What a stream holds at the moment; written back by `Session.finish`."""

    __slots__ = ("changed", "last_seq", "messages", "subjects")

    def __init__(self, last_seq: int, messages: int, subjects: int) -> None:
        self.last_seq = last_seq
        self.messages = messages
        self.subjects = subjects
        self.changed = False

    def next_seq(self) -> int:
        """Take the next sequence, for a message that is then stored."""
        self.last_seq += 1
        self.messages += 1
        self.changed = True
        return self.last_seq

    def skip_to(self, seq: int) -> None:
        """Take a sequence that another stream gave (a mirror)."""
        self.last_seq = seq
        self.messages += 1
        self.changed = True

    def jump_past(self, seq: int) -> None:
        """Never give `seq` or a lower sequence again: a purge named it before it was reached."""
        if seq > self.last_seq:
            self.last_seq = seq
            self.changed = True

    def forget(self, messages: int, subjects: int = 0) -> None:
        self.messages -= messages
        self.subjects -= subjects
        self.changed = True


class Latest(NamedTuple):
    """The newest message of a subject; `val` is None where its body must be read for it."""

    seq: int
    val: str | None


class Session:
    """Work on the counters in the transaction of `conn`; `now` is in nanoseconds since 1970.

    Call `finish` before the transaction ends; what raises before that is rolled back by the
    caller. `told` collects what the streams republish, to be sent after the commit.
    """

    def __init__(self, conn: sqlite3.Connection, cache: CatalogCache, now: int) -> None:
        self.conn = conn
        self.now = now
        self.told: list[Message] = []
        self._cache = cache
        self._catalog: Catalog | None = None
        self._live: dict[int, Live] = {}

    @property
    def catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = self._cache.read(self.conn)
        return self._catalog

    def configuration_changed(self) -> None:
        self._catalog = None

    def stream(self, name: str) -> Stream:
        """A stream by name; raises NoStream."""
        found = self.catalog.by_name.get(check_name(name))
        if found is None:
            raise NoStream(name)
        return found

    def live(self, stream: Stream) -> Live:
        found = self._live.get(stream.id)
        if found is None:
            row = self.conn.execute(
                "SELECT last_seq, messages, subjects FROM counter_stream WHERE id = ?",
                (stream.id,),
            ).fetchone()
            found = self._live[stream.id] = Live(*row)
        return found

    def changed(self) -> list[int]:
        """Ids of the streams that hold something else than when the session began."""
        return [id for id, live in self._live.items() if live.changed]

    def latest(self, stream: Stream, subject: str) -> Latest | None:
        row = self.conn.execute(
            "SELECT seq, val FROM counter_latest WHERE stream = ? AND subject = ?",
            (stream.id, subject),
        ).fetchone()
        return Latest(*row) if row else None

    def finish(self) -> None:
        """Write back what the streams hold now."""
        for id, live in self._live.items():
            if live.changed:
                self.conn.execute(
                    "UPDATE counter_stream SET last_seq = ?, messages = ?, subjects = ?"
                    " WHERE id = ?",
                    (live.last_seq, live.messages, live.subjects, id),
                )
