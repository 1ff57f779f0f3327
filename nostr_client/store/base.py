"""Define the protocol of an event store, and the values that its methods return.

Sync, counts, the relay and the agent use this protocol.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

import msgspec

from nostr_client.errors import clip

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.store.query.json_answers import JsonAnswer
    from nostr_client.store.query.select import QueryPage
    from nostr_client.store.query.short_answers import ShortAnswer
    from nostr_client.store.query.snapshot import Snapshot
    from nostr_client.store.rows import JsonEvent


KEPT: Final = 1_000
"""Most listed differences of each table, so that no table hides the differences of another."""

_OF_EVENTS: Final = ("event", "tag", "tomb", "vanished")
"""Tables whose differences have an event's id as key."""


class Difference(msgspec.Struct, frozen=True):
    """One difference between the derived tables and the events, with its cause."""

    table: str
    key: str
    cause: str

    @property
    def event_id(self) -> str:
        """The id of the event that differs, or "" if the difference is not about one event."""
        return self.key if self.table in _OF_EVENTS and len(self.key) == 64 else ""

    @property
    def text(self) -> str:
        """Text for people, to show beside the event's id."""
        if self.event_id or not self.key:
            return self.cause
        return f"{self.table} {self.key}: {self.cause}"


class DifferenceLog:
    """Collects differences.

    Counts all of them and keeps the first ones of each table.
    """

    def __init__(self) -> None:
        self.number = 0
        self.kept: list[Difference] = []
        self.compared: dict[str, int] = {}
        self._of: Counter[str] = Counter()

    def add(self, table: str, key: object, cause: str) -> None:
        """Count one difference."""
        self.number += 1
        self._of[table] += 1
        if self._of[table] <= KEPT:
            self.kept.append(Difference(table, clip(str(key), 300), clip(cause, 200)))


T = TypeVar("T")


class SaveStatus(StrEnum):
    """The result of `save` for one event."""

    STORED = "stored"
    DUPLICATE = "duplicate"  # the store has it already
    SUPERSEDED = "superseded"  # the store has a newer version of its address
    DELETED = "deleted"  # an owner asked for its deletion (NIP-09, NIP-59)
    EXPIRED = "expired"  # it has expired (NIP-40)
    EPHEMERAL = "ephemeral"  # a store passes it on and never keeps it
    VANISHED = "vanished"  # an owner asked to vanish (NIP-62)
    INVALID = "invalid"  # not an event that a store can hold


class SaveOutcome(NamedTuple):
    """The result of `save` for one event. `reason` is a text for people, or ""."""

    id: str
    status: SaveStatus
    reason: str = ""

    @property
    def stored(self) -> bool:
        return self.status is SaveStatus.STORED


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a store at one moment. Sizes are in bytes, times in Unix seconds."""

    events: int
    authors: int
    tags: int
    """Rows of the tag index."""
    kinds: dict[int, int]
    """Events by kind, the most frequent first."""
    deleted_ids: int
    deleted_addresses: int
    vanished: int
    expiring: int
    """Events with an expiration, whether or not it has passed."""
    oldest: int | None
    newest: int | None
    future: int
    """Events dated more than `rules.SKEW` after now."""
    bytes: int
    """The database file and its log."""
    search: bool


class IndexStats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of the derived tables of a store.

    - `generation`: number of bulk rebuilds so far.
    - `hot`: targets with so many events that the store keeps their registers.
    - `dirty`: hot targets that lost an author since the store computed their registers.
    - `bytes`: size of the tables.
    """

    generation: int
    hot: int
    dirty: int
    bytes: int


class HotTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target with many events of one kind.

    The events name the target in the tag `name`. `estimate` is the number of distinct authors by
    the registers of the target. If `dirty` is true, `estimate` may be too high. The other numbers
    are exact.
    """

    name: str
    value: str
    kind: int
    events: int
    authors: int
    estimate: float
    dirty: bool


class StoreProblem(NamedTuple):
    """One problem that `verify` found.

    `id` is the event's id, or "" for a problem of the file. `what` describes the problem.
    """

    id: str
    what: str


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of `verify`.

    `problems` has the first PROBLEMS_KEPT problems. `found` is the number of all problems.
    """

    events: int
    tags: int
    found: int
    problems: tuple[StoreProblem, ...]

    @property
    def ok(self) -> bool:
        return self.found == 0

    def and_also(self, found: DifferenceLog, where: str = "") -> VerifyReport:
        """Return the report with further problems.

        `where` names the part of the store that has them. It is "" for the whole store.
        """
        more = [StoreProblem(one.event_id, where + one.text) for one in found.kept]
        kept = (*self.problems, *more)[:PROBLEMS_KEPT]
        return msgspec.structs.replace(self, found=self.found + found.number, problems=kept)


PROBLEMS_KEPT = 100
"""Most problems that `verify` lists: enough to see a pattern, few enough for a terminal."""


class EventStore(Protocol):
    """Stores verified events by the rules of NIP-01, NIP-09, NIP-40 and NIP-62.

    Queries never return expired events. Every method raises StoreError or one of its subclasses.
    Every method is safe to cancel: a cancelled `save` or `delete` has done all of its work or none.
    """

    @property
    def has_search(self) -> bool:
        """Whether the store answers filters with `search` (NIP-50)."""
        ...

    def answer_for(self, urls: Iterable[str]) -> None:
        """Obey requests to vanish (NIP-62) that name one of these relay URLs, too.

        The URLs must be normalised.
        """
        ...

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]:
        """Store events, and return one outcome for each event after the commit.

        The outcomes are in the order of the events. An outcome describes the state after the whole
        batch. An event that another event of the batch replaces or deletes has the outcome
        SUPERSEDED or DELETED.
        """
        ...

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        """Return the events that match any filter, newest first.

        Events of the same second are in the order of their ids. Each event occurs once. `limit`
        applies to each filter separately. `since` and `until` are inclusive. A filter with an empty
        list matches nothing. Raises InvalidFilter for `search` if the store has no search.
        """
        ...

    async def page(
        self,
        filters: Sequence[Filter],
        most_bytes: int,
        skip: frozenset[str] = frozenset(),
        *,
        least_one: bool = True,
    ) -> QueryPage[Event]:
        """Return one page of the newest events that match any filter.

        - `filters`: each filter needs a `limit`. The limit must leave room for the ids in `skip`.
        - `most_bytes`: largest sum of the tags and contents in the page.
        - `skip`: ids of events that the page leaves out.
        - `least_one`: whether the page has the first event even if the event is larger than
          `most_bytes`.
        """
        ...

    async def page_json(
        self,
        filters: Sequence[Filter],
        most_bytes: int,
        skip: frozenset[str] = frozenset(),
        *,
        least_one: bool = True,
    ) -> QueryPage[JsonEvent]:
        """Return one page of events as JSON, as `page` does."""
        ...

    def look(self, filter: Filter) -> ShortAnswer | None:
        """Return the answer of a short question at once, or None.

        A question is short if its filter has few values, if a limit or ids bound the answer, and if
        the answer is small. The calling thread reads for about a millisecond at most. For every
        other question, use `query`.
        """
        ...

    def look_json(self, filter: Filter) -> JsonAnswer | None:
        """Return the answer of a short question as JSON at once, or None, as `look` does."""
        ...

    def stream(self, filters: Sequence[Filter]) -> AsyncIterator[Event]:
        """Yield the events that `query` returns, page by page.

        The memory stays constant. Each page is one snapshot of the store.
        """
        ...

    def export(self, filters: Sequence[Filter] = ()) -> AsyncIterator[Event]:
        """Yield the events that match any filter, oldest first.

        Without filters, the store yields all its events. Events of the same second are in the order
        of their ids. The memory stays constant. The store ignores `limit`.
        """
        ...

    async def count(self, filters: Sequence[Filter]) -> int:
        """Return the number of distinct events that match any filter. The store ignores `limit`."""
        ...

    async def distinct_authors(self, filters: Sequence[Filter]) -> int:
        """Return the exact number of distinct authors of the events that match any filter.

        The store ignores `limit`.
        """
        ...

    async def kinds(self) -> list[int]:
        """Return the kinds of the stored events, in ascending order.

        The list may contain a kind whose events have all expired.
        """
        ...

    async def registers(self, filter: Filter) -> bytes:
        """Return the 256 HLL registers (NIP-45) of the authors whose events match.

        Raises InvalidFilter if `hll.offset` is not defined for the filter.
        """
        ...

    async def snapshot(self, work: Callable[[Snapshot], T]) -> T:
        """Call `work` with one snapshot of the committed events, and return its result.

        The call may run in another thread.
        """
        ...

    def look_snapshot(self, work: Callable[[Snapshot], T]) -> T | None:
        """Call `work` at once in the calling thread, as `snapshot` does.

        Returns None if `work` would read for longer than about a millisecond, or if a thread
        answers better. Then use `snapshot`.
        """
        ...

    async def negentropy_items(
        self, filter: Filter
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Return the times and ids of the matching events, for negentropy (NIP-77).

        The times are an array of n uint64, the ids an array of (n, 32) uint8. Both are ascending by
        time, then by id.
        """
        ...

    async def known(self, ids: Iterable[str]) -> set[str]:
        """Return the ids of `ids` that a client need not download.

        The store knows an id if it has the event. The store also knows an id if it verified the
        event and then refused or removed the event by a rule: SUPERSEDED, DELETED, EXPIRED or
        VANISHED. The store does not know an event that `delete` removed.
        """
        ...

    async def delete(self, filters: Sequence[Filter]) -> int:
        """Remove the events that match any filter, and return their number.

        `limit` applies. The store leaves no tombstone, so that you can store a removed event again.
        """
        ...

    async def sweep(self) -> int:
        """Remove the expired events (NIP-40), and return their number."""
        ...

    async def stats(self) -> StoreStats:
        """Return the totals of the store at one moment."""
        ...

    async def vacuum(self) -> None:
        """Return unused pages of the file to the disk.

        The disk needs as much free space as the store has bytes.
        """
        ...

    async def verify(self) -> VerifyReport:
        """Check every id, signature and index row, and return a report.

        The report lists a damaged page; the method does not raise for a damaged page.
        """
        ...
