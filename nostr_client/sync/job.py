"""Define what to sync: filters, or an event that has filters, cut into windows."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import InvalidFilter
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.compare.items import KeptItems, LocalItems, no_items, united
from nostr_client.sync.compare.windows import SyncWindow, plan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.store.base import EventStore

WORTH_KEEPING = 50_000
"""Number of events from which a scan at every sync costs more than keeping fingerprints."""

MAX_FILTERS = 50
"""Most filters in one sync. Relays refuse more, and each filter needs its own sessions."""


NO_LIMIT: Final = "a sync has no limit: give since and until instead"
"""Negentropy compares sets, and the newest events up to a limit differ from relay to relay."""


class SyncJob(msgspec.Struct, frozen=True):
    """Windows to compare, oldest first. `fallback` is for relays that accept no event as filter."""

    filters: tuple[Filter, ...]
    windows: tuple[SyncWindow, ...]
    fallback: tuple[SyncWindow, ...] = ()
    event: VerifiedEvent | None = None
    local: int = 0
    """Number of distinct local events."""


def checked(filters: Sequence[Filter]) -> tuple[Filter, ...]:
    """Return the filters that can match.

    Raises InvalidFilter for none, for too many, for a search, and for a limit.
    """
    if any(one.limit is not None for one in filters):
        raise InvalidFilter(NO_LIMIT)
    asked = tuple(one for one in filters if not one.matches_nothing)
    if not asked or len(asked) > MAX_FILTERS:
        raise InvalidFilter(f"a sync takes 1 to {MAX_FILTERS} filters that can match")
    if any(one.search is not None for one in asked):
        raise InvalidFilter("a search cannot be synced: relays rank, and leave out")
    return asked


def filters_of(event: Event) -> tuple[Filter, ...]:
    """Return the filter or filters in an event's content (NIP-77, first text).

    Raises InvalidFilter.
    """
    try:
        content: Any = msgspec.json.decode(event.content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidFilter(f"the content of event {event.id} is no JSON") from error
    listed = content if isinstance(content, list) else [content]
    if not all(isinstance(one, dict) for one in listed):
        raise InvalidFilter(f"the content of event {event.id} is no filter")
    return checked([Filter.from_json(one) for one in listed])


async def make_job(
    store: EventStore | None,
    filters: Sequence[Filter],
    event: VerifiedEvent | None,
    size: int,
) -> SyncJob:
    """Read the local items and cut them into windows of about `size` items. Raises StoreError."""
    parts = [(one, await items_of(store, one)) for one in filters]
    windows = tuple(window for one, items in parts for window in plan(one, items, size))
    whole = united([items for _, items in parts])
    if event is None:
        return SyncJob(tuple(filters), windows, local=len(whole))
    first = SyncWindow(filters[0], whole, event_id=event.event.id)
    return SyncJob(tuple(filters), (first,), windows, event, len(whole))


async def items_of(store: EventStore | None, filter: Filter) -> LocalItems:
    """Return the local items that match. Raises StoreError."""
    if store is None:
        return no_items()
    return LocalItems(*await store.negentropy_items(filter))


@asynccontextmanager
async def prepared(
    store: EventStore | None,
    filters: Sequence[Filter],
    event: VerifiedEvent | None,
    size: int,
) -> AsyncIterator[SyncJob]:
    """Prepare the job. Use fingerprints of the store if it keeps them for the filter.

    If a large store is compared as a whole, it begins to keep fingerprints here. Raises StoreError.
    """
    kept = None
    if isinstance(store, SqliteStore) and event is None and len(filters) == 1:
        await _register(store, filters[0])
        kept = await store.fingerprints.folded(filters[0])
    if kept is None or not isinstance(store, SqliteStore):
        yield await make_job(store, filters, event, size)
        return
    with store.fingerprints.storage(kept) as storage:
        (asked,) = filters
        items = KeptItems(storage, 0, len(storage)).between(asked.since, asked.until)
        yield SyncJob((asked,), tuple(plan(asked, items, size)), local=len(items))


async def _register(store: SqliteStore, filter: Filter) -> None:
    everything = filter.replace(since=None, until=None) == Filter()
    if everything and store.fingerprints.possible and await store.count([filter]) >= WORTH_KEEPING:
        await store.fingerprints.register()
