"""Counting what the event store takes in, in the transaction that stores it.

A crash therefore leaves events and counters as they were before, both, or as they are after, both.
Each kind of count is opt-in: it counts where a stream listens on its subjects, and nowhere else.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nostr_client.codecs.zaps import RECEIPT, read_zap
from nostr_client.counters import rules
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine import pull
from nostr_client.counters.engine.publish import publish
from nostr_client.counters.engine.session import CatalogCache, CounterSession
from nostr_client.counters.subjects import subject_token
from nostr_client.errors import CounterError, InvalidInput

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.store.base import SaveOutcome

EVENTS: Final = "events.*"
"""`events.<kind>`: events stored, by kind."""

RELAYS: Final = "relay.*.received"
"""`relay.<host>.received`: events stored, by the relay that brought them first."""

ZAPS: Final = "zaps.*.msats"
"""`zaps.<pubkey>.msats`: what zap receipts that hold say their receiver was paid."""

EVERY: Final = (EVENTS, RELAYS, ZAPS)

REMEMBERED = 100_000
"""Events whose relay is remembered until they are stored: some batches of the largest queue."""


def ingest_stream(
    name: str = "INGEST", subjects: Iterable[str] = EVERY, *, keep: int = 1_000
) -> StreamConfig:
    """A stream for some of these counts, which keeps the last `keep` changes of each counter."""
    return StreamConfig(
        name=name,
        subjects=tuple(subjects),
        allow_msg_counter=True,
        allow_direct=True,
        max_msgs_per_subject=keep,
        description="what the event store took in",
    )


class Provenance:
    """Which relay brought an event, from its arrival to its storing; bounded, oldest forgotten."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._relays: OrderedDict[str, str] = OrderedDict()

    def note(self, event_id: str, relay: str) -> None:
        """Say that `relay`, a normalised URL, brought this event; the first to say so counts."""
        self._relays.setdefault(event_id, relay)
        while len(self._relays) > self._limit:
            self._relays.popitem(last=False)

    def take(self, event_id: str) -> str | None:
        return self._relays.pop(event_id, None)


class IngestCounters:
    """A hook for `SqliteStore.on_batch`. The file needs the counters' tables: open the store with
    `migrations=[counters.engine.schema.MIGRATIONS]`, or `SqliteCounterStore.over` it first.

    A counter that refuses (its stream is gone, it is broken, a zap's receiver is no subject) never
    holds up an event: it is left out and counted in `refused`. `clock` is in nanoseconds.
    """

    def __init__(
        self,
        provenance: Provenance | None = None,
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.provenance = provenance if provenance is not None else Provenance()
        self.refused = 0
        self._clock = clock
        self._cache = CatalogCache()

    def __call__(
        self, conn: sqlite3.Connection, pairs: Sequence[tuple[Event, SaveOutcome]]
    ) -> None:
        """Count a batch, inside its transaction."""
        session = CounterSession(conn, self._cache, self._clock())
        for subject, n in self._tally(session, pairs).items():
            self._add(session, subject, n)
        pull.flow(session)
        session.finish()

    def _tally(
        self, session: CounterSession, pairs: Sequence[tuple[Event, SaveOutcome]]
    ) -> Counter[str]:
        """What to add to which subject: one increment a subject and batch."""
        found: Counter[str] = Counter()
        counts_zaps = session.catalog.route(f"zaps.{'0' * 64}.msats") is not None
        for event, outcome in pairs:
            relay = self.provenance.take(event.id)
            if not outcome.stored:
                continue
            found[f"events.{event.kind}"] += 1
            if relay is not None:
                found[f"relay.{relay_token(relay)}.received"] += 1
            if counts_zaps and event.kind == RECEIPT:
                _add_zap(found, event)
        return found

    def _add(self, session: CounterSession, subject: str, n: int) -> None:
        try:
            if session.catalog.route(subject) is not None:
                publish(session, subject, ((rules.INCR, rules.signed(n)),), b"")
        except (CounterError, InvalidInput):
            self.refused += 1


def _add_zap(found: Counter[str], receipt: Event) -> None:
    receiver = receipt.first_tag("p")
    zap = read_zap(receipt)
    if zap is not None and receiver is not None:
        found[f"zaps.{receiver}.msats"] += zap.amount


def relay_token(relay: str) -> str:
    """The token of a relay's subject: its host, and its port where it has one.

    `wss://relay.example.com` is `relay_example_com`.
    """
    return subject_token(urlsplit(relay).netloc or relay)
