"""What an event store is: the protocol that sync, counts, the relay and the agent stand on."""

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
    from nostr_client.store.select import QueryPage
    from nostr_client.store.short_answers import ShortAnswer
    from nostr_client.store.snapshot import Snapshot


KEPT: Final = 1_000
"""Differences of each table that are listed, so that none hides those of another."""

_OF_EVENTS: Final = ("event", "tag", "tomb", "vanished")
"""Tables whose differences are named by an event's id."""


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not as it would be rebuilt, and why."""

    table: str
    key: str
    cause: str

    @property
    def event_id(self) -> str:
        """The id of the event that it is about, "" where it is about none."""
        return self.key if self.table in _OF_EVENTS and len(self.key) == 64 else ""

    @property
    def text(self) -> str:
        """For people, beside the event's id."""
        if self.event_id or not self.key:
            return self.cause
        return f"{self.table} {self.key}: {self.cause}"


class DifferenceLog:
    """Differences as they are found: all counted, the first ones of each table kept."""

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
    """What became of one event that was given to `save`."""

    STORED = "stored"
    DUPLICATE = "duplicate"  # the store has it already
    SUPERSEDED = "superseded"  # a newer version of the same replaceable or address is there
    DELETED = "deleted"  # an owner asked for its deletion (NIP-09, NIP-59)
    EXPIRED = "expired"  # its expiration has passed (NIP-40)
    EPHEMERAL = "ephemeral"  # passed on, never kept
    VANISHED = "vanished"  # an owner asked to vanish (NIP-62)
    INVALID = "invalid"  # not an event that a store can hold


class SaveOutcome(NamedTuple):
    """What became of one event, in the order of `save`; `reason` is text for people, or ""."""

    id: str
    status: SaveStatus
    reason: str = ""

    @property
    def stored(self) -> bool:
        return self.status is SaveStatus.STORED


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a store at one moment; sizes in bytes, times in Unix seconds."""

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
    """Events that carry an expiration, passed or not."""
    oldest: int | None
    newest: int | None
    future: int
    """Events dated more than `rules.SKEW` after now."""
    bytes: int
    """The database file and its log."""
    search: bool


class IndexStats(msgspec.Struct, frozen=True, kw_only=True):
    """The derived tables of a store: their generation, the targets that are hot, those of them that
    lost an author since their registers were read, and bytes.

    The generation counts up with each bulk rebuild.
    """

    generation: int
    hot: int
    dirty: int
    bytes: int


class HotTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target with many events: those of one kind that name it in one tag.

    All is exact but `estimate`, the number of distinct authors by the registers of the target: it
    may be too high when `dirty`.
    """

    name: str
    value: str
    kind: int
    events: int
    authors: int
    estimate: float
    dirty: bool


class StoreProblem(NamedTuple):
    """One thing that `verify` found: the event's id (or "" for the file) and what is wrong."""

    id: str
    what: str


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` checked; `problems` holds the first `PROBLEMS_KEPT`, `found` counts all."""

    events: int
    tags: int
    found: int
    problems: tuple[StoreProblem, ...]

    @property
    def ok(self) -> bool:
        return self.found == 0

    def and_also(self, found: DifferenceLog, where: str = "") -> VerifyReport:
        """The report with further problems, of the whole store or of one part of it (`where`)."""
        more = [StoreProblem(one.event_id, where + one.text) for one in found.kept]
        kept = (*self.problems, *more)[:PROBLEMS_KEPT]
        return msgspec.structs.replace(self, found=self.found + found.number, problems=kept)


PROBLEMS_KEPT = 100
"""Problems listed by `verify`: enough to see the pattern, not enough to flood a terminal."""


class EventStore(Protocol):
    """Stores verified events by the rules of NIP-01, 09, 40 and 62. Expired events are hidden.

    Every method raises StoreError and its kinds, and is safe to cancel: a cancelled `save` or
    `delete` was done whole or not at all.
    """

    @property
    def has_search(self) -> bool:
        """True when `search` (NIP-50) is answered."""
        ...

    def answer_for(self, urls: Iterable[str]) -> None:
        """Follow NIP-62 requests that name one of `urls` too (normalised relay URLs)."""
        ...

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]:
        """Store events; return an outcome for each, in order, once they are committed.

        An outcome describes the state after the whole batch: an event that another one of the same
        batch replaces or deletes is SUPERSEDED or DELETED.
        """
        ...

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        """Return what matches any filter, each event once, newest first, then by id.

        `limit` cuts each filter by itself; `since` and `until` are inclusive; a filter with an
        empty list matches nothing. Raises InvalidFilter for `search` where it is off.
        """
        ...

    async def page(
        self,
        filters: Sequence[Filter],
        most_bytes: int,
        skip: frozenset[str] = frozenset(),
        *,
        least_one: bool = True,
    ) -> QueryPage:
        """Return the newest events of a union without the ids of `skip`, at most `most_bytes`.

        Bytes are those of tags and contents, and nothing larger is read. Each filter has a limit,
        which must leave room for `skip`. `least_one`: the first event whatever its size.
        """
        ...

    def look(self, filter: Filter) -> ShortAnswer | None:
        """Return the answer of a short question without waiting, else None.

        A question is short that names a limit or ids, and few values; its answer is small. The
        calling thread reads for about a millisecond at most.
        """
        ...

    def stream(self, filters: Sequence[Filter]) -> AsyncIterator[Event]:
        """Yield what `query` returns, page by page in constant memory; each page is a snapshot."""
        ...

    def export(self, filters: Sequence[Filter] = ()) -> AsyncIterator[Event]:
        """Yield what matches any filter, or everything, oldest first, then by id.

        It needs constant memory, and ignores limits.
        """
        ...

    async def count(self, filters: Sequence[Filter]) -> int:
        """Return how many distinct events match; `limit` is ignored."""
        ...

    async def distinct_authors(self, filters: Sequence[Filter]) -> int:
        """Return how many distinct pubkeys wrote what matches, exactly; `limit` is ignored."""
        ...

    async def kinds(self) -> list[int]:
        """Return the stored kinds, ascending; some may belong to expired events only."""
        ...

    async def registers(self, filter: Filter) -> bytes:
        """Return the 256 HLL registers of NIP-45 for what matches.

        Raises InvalidFilter where `hll.offset` is not defined for the filter.
        """
        ...

    async def snapshot(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one snapshot of what is committed, perhaps in another thread."""
        ...

    async def negentropy_items(
        self, filter: Filter
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Return times as (n,) uint64 and ids as (n, 32) uint8, ascending by both (NIP-77)."""
        ...

    async def known(self, ids: Iterable[str]) -> set[str]:
        """Return those of the ids that need no fetching: stored, or settled.

        Settled are events that were verified and that a rule refused or removed since
        (SUPERSEDED, DELETED, EXPIRED, VANISHED); what `delete` removed is not settled.
        """
        ...

    async def delete(self, filters: Sequence[Filter]) -> int:
        """Remove what matches, limits included, without a tombstone; return how many events.

        A removed event may be stored again.
        """
        ...

    async def sweep(self) -> int:
        """Remove the events whose expiration has passed (NIP-40); return how many."""
        ...

    async def stats(self) -> StoreStats:
        """Return the totals of the store at one moment."""
        ...

    async def vacuum(self) -> None:
        """Return unused pages to the disk; this needs free space of the size of the store."""
        ...

    async def verify(self) -> VerifyReport:
        """Check every id, signature and index row; a damaged page is reported, never raised."""
        ...
