"""A fleet without sockets: stores on plain connections, and transfers that a test may spoil."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from nostr_client.counters import lineage
from nostr_client.counters.config import SourceConfig, TransformConfig
from nostr_client.counters.engine import read, remote, served, sourcemap, take
from nostr_client.counters.engine.remote import Remote
from nostr_client.counters.engine.rows import under
from nostr_client.counters.engine.session import CatalogCache
from nostr_client.counters.engine.take import Batch, BatchResult
from tests.unit.counters.engine import Engine, counter

if TYPE_CHECKING:
    import random

    from nostr_client.counters.lineage import StreamHead

STREAM = "count"


class Backup(NamedTuple):
    """A copy of a store, and what had been counted in it."""

    data: bytes
    truth: dict[str, int]
    written: int


class Store:
    """One agent's store, and the truth of what was counted in it: `truth`, by subject."""

    def __init__(self, name: str, keep: int = -1) -> None:
        self.name = name
        self.truth: dict[str, int] = {}
        self.written = -1
        """The newest `created_at` that this store knows to have used."""
        self.engine = Engine()
        self.runs = 0
        self.engine.create(counter(STREAM, f"{name}.>", max_msgs_per_subject=keep))
        self.restart()

    def restart(self) -> None:
        self.runs += 1
        name = f"{self.name}-{self.runs}"
        self.engine.run(lambda s: served.begin_run(s.conn, name, self.engine.now))

    def add(self, subject: str, n: int) -> None:
        self.engine.add(f"{self.name}.{subject}", n)
        self.truth[subject] = self.truth.get(subject, 0) + n

    def back_up(self) -> Backup:
        return Backup(self.engine.conn.serialize(), dict(self.truth), self.written)

    def restore(self, backup: Backup) -> None:
        self.engine.conn.close()
        self.engine.conn = sqlite3.connect(":memory:", isolation_level=None)
        self.engine.conn.deserialize(backup.data)
        self.engine.cache = CatalogCache()
        self.truth, self.written = dict(backup.truth), backup.written
        self.restart()

    def value(self, subject: str) -> int:
        try:
            return self.engine.value(STREAM, f"{self.name}.{subject}")
        except Exception as error:
            if "10037" in str(error):
                return 0
            raise

    def head(self) -> StreamHead:
        return served.head(self.engine.conn, self.engine.id(STREAM))

    def page(self, after: int, limit: int, *, newest: bool = False) -> Batch:
        """What the API would answer."""
        page = served.page(self.engine.conn, STREAM, after, limit, newest=newest)
        seqs = [one.seq for one in page.arrivals]
        upto = seqs[-1] if page.more else page.head.last_seq
        return Batch(page.head, page.arrivals, upto, newest, page.ways, after)

    def whole(self) -> Batch:
        return self.page(0, 1_000_000, newest=True)

    def event(self, now: int, id: str) -> Batch:
        """What would be published as an event."""
        self.written = max(now, self.written + 1)
        return self.whole()._replace(version=(self.written, id))

    def source(self, other: Store, most_subjects: int = 10_000) -> Remote:
        """`other` as a source of this one: its subjects become ours."""
        transform = TransformConfig(f"{other.name}.*", f"{self.name}.{{{{wildcard(1)}}}}")
        config = SourceConfig(f"from-{other.name}", subject_transforms=(transform,))
        return Remote(STREAM, config, most_subjects)

    def take(self, source: Remote, batch: Batch) -> BatchResult:
        take.check_batch(batch)
        return self.engine.run(lambda s: take.take(s, source, batch))

    def confirm(self, name: str) -> bool:
        return self.engine.run(lambda s: remote.confirm(s.conn, name))

    def seq_of(self, source: Remote) -> int:
        known = remote.known(self.engine.conn, source.name)
        return known.seq if known else 0

    def maps(self, but: str = "") -> dict[str, object]:
        """Every value and map, without what one source brought."""
        id = self.engine.id(STREAM)
        found: dict[str, object] = {}
        for one in under(self.engine.conn, id, ">"):
            brought = sourcemap.current(self.engine.conn, id, one.subject)
            mine = brought.pop(but, {})
            entry = read.entry(*read.newest(self.engine.conn, id, one.subject))
            rest = entry.value - sum(map(int, mine.values()))
            found[one.subject] = (rest, brought)
        return found


def settle(store: Store, source: Remote, other: Store) -> BatchResult:
    """Read a source until it is at rest, as its operator would: confirms what went backwards."""
    newest = False
    for _ in range(50):
        after = 0 if newest else store.seq_of(source)
        batch = other.page(after, 7) if not newest else other.whole()
        taken = store.take(source, batch)
        if taken.outcome == "again":
            newest = True
        elif taken.outcome == "backwards":
            assert store.confirm(source.name)
        elif taken.outcome == "taken":
            newest = False
            if store.seq_of(source) >= other.head().last_seq:
                return taken
        else:
            assert taken.outcome == "met", taken
    raise AssertionError(f"{source.name} never comes to rest")


class Edge:
    """A source of a store and what is on its way: answers, or events on relays."""

    def __init__(self, rng: random.Random, into: Store, of: Store, *, nostr: bool) -> None:
        self.into, self.of, self.nostr = into, of, nostr
        self.source = into.source(of)
        self.flight: list[Batch] = []
        self.relays: list[list[Batch]] = [[] for _ in range(rng.choice((1, 2, 3)))]

    def ask(self, rng: random.Random, now: int) -> None:
        """An answer is on its way, or an event is published to some relays, not to all."""
        if self.nostr:
            event = self.of.event(now, f"{rng.getrandbits(64):016x}")
            for relay in self.relays:
                if rng.random() < 0.6:
                    relay.append(event)
            return
        mark = self.into.seq_of(self.source)
        after = max(0, mark - rng.choice((0, 0, 0, 1, 5, 100)))
        newest = rng.random() < 0.3
        self.flight.append(self.of.page(after, rng.choice((1, 3, 50)), newest=newest))

    def deliver(self, rng: random.Random) -> BatchResult | None:
        """Any of what is on its way comes; now and then once more, or never."""
        if self.nostr:
            kept = [event for relay in self.relays for event in relay]
            if not kept:
                return None
            if rng.random() < 0.1:
                rng.choice(self.relays).clear()
            return self.into.take(self.source, rng.choice(kept))
        if not self.flight:
            return None
        batch = self.flight[rng.randrange(len(self.flight))]
        if rng.random() < 0.6:
            self.flight.remove(batch)
        return self.into.take(self.source, batch) if rng.random() < 0.8 else None

    def rest(self, now: int) -> None:
        """The network is whole again: bring what there is."""
        if not self.nostr:
            settle(self.into, self.source, self.of)
            return
        for n in range(3):
            event = self.of.event(now + n, f"{n:016x}")
            taken = self.into.take(self.source, event)
            if taken.outcome == "backwards":
                assert self.into.confirm(self.source.name)
                taken = self.into.take(self.source, event)
            if taken.outcome == "taken":
                return
        raise AssertionError(f"{self.source.name} never comes to rest: {taken}")


def node(store: Store) -> str:
    return lineage.node(STREAM, store.head().store)
