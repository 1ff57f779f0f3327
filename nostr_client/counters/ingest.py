"""Count events in the transaction that stores them.

After a crash, events and counters therefore match. Each kind of count is opt-in: it is counted only
if a stream listens on its subjects.
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
"""`events.<kind>`: number of stored events of a kind."""

RELAYS: Final = "relay.*.received"
"""`relay.<host>.received`: number of stored events that arrived first from a relay."""

ZAPS: Final = "zaps.*.msats"
"""`zaps.<pubkey>.msats`: amount that valid zap receipts claim for their receiver."""

EVERY: Final = (EVENTS, RELAYS, ZAPS)

REMEMBERED = 100_000
"""Events whose relay is remembered until they are stored: some batches of the largest queue."""


def ingest_stream(
    name: str = "INGEST", subjects: Iterable[str] = EVERY, *, keep: int = 1_000
) -> StreamConfig:
    """Return the configuration of a stream for some of these counts.

    The stream keeps the last `keep` changes of each counter.
    """
    return StreamConfig(
        name=name,
        subjects=tuple(subjects),
        allow_msg_counter=True,
        allow_direct=True,
        max_msgs_per_subject=keep,
        description="what the event store took in",
    )


class Provenance:
    """Relay of each event between arrival and storage.

    Remembers a bounded number of events and forgets the oldest.
    """

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._limit = limit
        self._relays: OrderedDict[str, str] = OrderedDict()

    def note(self, event_id: str, relay: str) -> None:
        """Note that `relay`, a normalised URL, sent this event. Only the first relay counts."""
        self._relays.setdefault(event_id, relay)
        while len(self._relays) > self._limit:
            self._relays.popitem(last=False)

    def take(self, event_id: str) -> str | None:
        return self._relays.pop(event_id, None)


class IngestCounters:
    """Hook for `SqliteStore.on_batch` that counts stored events.

    The file needs the tables of the counters. Open the store with
    `migrations=[counters.engine.schema.MIGRATIONS]`, or run `SqliteCounterStore.over` on it first.

    A counter may refuse: its stream is gone, it is broken, or a zap's receiver is not a valid
    subject. Such an increment is left out and counted in `refused`. It never prevents the storage
    of an event. `clock` is in nanoseconds.
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
        """Return the sum to add to each subject: one increment for each subject and batch."""
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
    """Return the token of a relay's subject: its host, and its port if it has one.

    `wss://relay.example.com` becomes `relay_example_com`.
    """
    return subject_token(urlsplit(relay).netloc or relay)
