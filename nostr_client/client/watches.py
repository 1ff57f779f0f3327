"""Keep watches fresh over the connections of a client: the watch of a question, and its engine."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.display import duration
from nostr_client.count.queries import Query
from nostr_client.count.queries import query as make_query
from nostr_client.errors import NostrTallyError
from nostr_client.network.ingest import Ingest
from nostr_client.watch.clock import SystemClock
from nostr_client.watch.definition import Watch
from nostr_client.watch.engine import Engine
from nostr_client.watch.naming import NameFinder
from nostr_client.watch.scheduler import LaneLimits
from nostr_client.watch.worker import LibraryLog, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.count.asking import CountOptions
    from nostr_client.count.procedure import CountEngine
    from nostr_client.network.pool import RelayPool
    from nostr_client.store.base import EventStore
    from nostr_client.watch.repository import WatchRepository
    from nostr_client.watch.state import Merge

AT_ONCE: Final = 8
"""Questions of watches to one relay at once; its budget limits their rate."""

TOTAL: Final = 256
"""The same over all relays."""

WATCHED: Final = "watched"
"""Name of a watch that is only a question."""


def as_watch(
    query: Query | Filter | Sequence[Filter] | Watch,
    relays: tuple[str, ...] | None,
    interval: float | None,
    live: bool | None,
) -> tuple[Watch, Mapping[str, Query]]:
    """Return a checked watch with these changes, and its question if it was given as one.

    Raises InvalidInput.
    """
    asked: Query | None = None
    if isinstance(query, Watch):
        made = query
    else:
        asked = query if isinstance(query, Query) else make_query(query)
        made = Watch(name=WATCHED, filters=tuple(one.to_dict() for one in asked.filters))
    changes = {
        "relays": relays,
        "interval": None if interval is None else duration(interval),
        "live": live,
    }
    made = msgspec.structs.replace(
        made, **{key: value for key, value in changes.items() if value is not None}
    )
    made.check()
    return made, {} if asked is None else {made.name: asked}


@asynccontextmanager
async def open_engine(
    pool: RelayPool,
    counter: CountEngine,
    counting: CountOptions,
    merged: Callable[[Merge], Awaitable[None]],
    *,
    events: EventStore | None,
    book: WatchRepository | None,
    now: Callable[[], float],
    keep: Callable[[str, Sequence[VerifiedEvent]], Awaitable[None]],
) -> AsyncIterator[Engine]:
    """Open an engine over a pool. It saves live events in `events`, and history in `book`.

    `keep` stores profiles, if the book is in the file of the events.
    """
    worker = Worker(
        SystemClock(now),
        LibraryLog(),
        LaneLimits(per_lane=AT_ONCE, total=TOTAL, catch_up=0.0),
        fatal=(NostrTallyError,),
    )
    async with AsyncExitStack() as stack:
        ingest = None
        if events is not None:
            ingest = await stack.enter_async_context(Ingest(events, verifier=pool.verifier))
        engine = Engine(
            worker,
            LibraryLog(),
            pool,
            counter,
            counting,
            merged,
            history=None if book is None else book.database,
            ingest=ingest,
            resumes=book is not None,
            spell=pool.spelling,
        )
        if book is not None and getattr(events, "database", None) is book.database:
            NameFinder(engine, book.database, keep)
        yield engine
