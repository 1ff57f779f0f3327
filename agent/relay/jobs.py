"""Runs a session's jobs: asks the store, compares by NIP-77, returns the results."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

import msgspec

from agent.relay.limits import check_filters
from agent.relay.merged import answered
from agent.relay.negotiation import FILTER_INVALID, FILTER_NOT_FOUND
from agent.relay.outputs import CountJob, FetchJob, MergedJob, NegOpenJob, NegStepJob, SaveJob
from agent.relay.visibility import QueryRefused, VisibleStore
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import Hint
from nostr_client.errors import InvalidFilter, InvalidInput, NegentropyError, StoreError
from nostr_client.negentropy.reconcile import Responder
from nostr_client.negentropy.storage import seal_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.relay.core import RelayCore
    from agent.relay.limits import CountFigures
    from agent.relay.outputs import Job, Output
    from agent.relay.session import ServerSession
    from agent.relay.visibility import Items


FILTERS_AT_ONCE = 4
"""Most filters of a COUNT that is answered without waiting: each takes a millisecond at most."""

COUNTS_REST_S = 0.1
"""Seconds after a COUNT that was too long to be answered at once: it took one to two milliseconds
from the other connections."""

UNLIMITED = 2**63
"""More events than any store holds."""


async def open_session(
    job: NegOpenJob, core: RelayCore, session: ServerSession
) -> Sequence[Output]:
    """Make the snapshot and the first answer. Raises QueryRefused, StoreError."""
    visible = VisibleStore(core.store, job.viewer)
    filters = await _filters(job, core, visible)
    async with core.scans:
        _reserve(session, job, min(await visible.count(filters), _limit(filters)))
        items = await visible.items(filters)
    _reserve(session, job, len(items[0]))
    core.context.counted["neg_sessions"] += 1
    limit = core.options.limits.neg_frame_bytes
    loop = asyncio.get_running_loop()
    try:
        begun = loop.run_in_executor(core.threads, _begin, items, job.message, limit)
        engine, reply = await begun
    except NegentropyError as error:
        raise QueryRefused(f"invalid: {error}") from error
    return session.negotiation.opened(job, engine, reply)


async def step_session(
    job: NegStepJob, core: RelayCore, session: ServerSession
) -> Sequence[Output]:
    """The answer to a later message. Raises QueryRefused."""
    engine = job.state.engine
    if engine is None:
        raise QueryRefused("closed: the session was closed")
    loop = asyncio.get_running_loop()
    try:
        reply = await loop.run_in_executor(core.threads, engine.reconcile, job.message)
    except NegentropyError as error:
        raise QueryRefused(f"invalid: {error}") from error
    return session.negotiation.stepped(job, reply)


def _begin(items: Items, message: bytes, frame_limit: int) -> tuple[Responder, bytes]:
    engine = Responder(seal_columns(*items), frame_limit=frame_limit)
    return engine, engine.reconcile(message)


def _reserve(session: ServerSession, job: NegOpenJob, items: int) -> None:
    refusal = session.negotiation.reserve(job, items)
    if refusal:
        raise QueryRefused(refusal)


def _limit(filters: Sequence[Filter]) -> int:
    """The most events that the limits of `filters` leave; a filter without one leaves all."""
    return sum(UNLIMITED if f.limit is None else f.limit for f in filters)


async def _filters(job: NegOpenJob, core: RelayCore, visible: VisibleStore) -> tuple[Filter, ...]:
    """The filters of a session, given or read from an event. Raises QueryRefused."""
    if not isinstance(job.wanted, str):
        return job.wanted
    try:
        found = await visible.events([Filter(ids=[job.wanted])])
        if not found:
            raise QueryRefused(FILTER_NOT_FOUND)
        filters = _parse(found[0].content)
    except InvalidFilter as error:
        raise QueryRefused(FILTER_INVALID) from error
    refusal = check_filters(filters, core.options.limits, search=core.context.search)
    refusal = refusal or job.viewer.refusal(filters)
    if refusal:
        raise QueryRefused(refusal)
    return filters


def _parse(content: str) -> tuple[Filter, ...]:
    """One filter, or an array of at least one. Raises InvalidFilter."""
    try:
        value = msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:
        raise InvalidFilter("no JSON") from error
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(isinstance(item, dict) for item in listed):
        raise InvalidFilter("neither a filter nor an array of filters")
    return tuple(Filter.from_json(item) for item in listed)


class JobConnection(Protocol):
    """What a job needs of the connection that asked for it."""

    session: ServerSession
    fetching: asyncio.Lock

    def handle(self, outputs: Iterable[Output]) -> None:
        """Carry out what the session wants."""

    def put_at_once(self, frames: Sequence[bytes]) -> bool:
        """Send all of `frames`, or none where the reader has to take others first."""

    async def put_slowly(self, frames: Sequence[bytes]) -> None:
        """Send many frames at the reader's pace."""

    async def ready(self) -> bool:
        """Wait until the reader took what waits; False where it is cut off."""


async def perform(job: Job, core: RelayCore, connection: JobConnection) -> None:
    """Do `job` and give its result to the connection's session. Safe to cancel."""
    try:
        outputs = await _do(job, core, connection)
    except QueryRefused as refusal:
        outputs = connection.session.failed(job, str(refusal))
    except TimeoutError:
        outputs = connection.session.failed(job, "error: the store took too long")
    except InvalidInput as error:
        outputs = connection.session.failed(job, f"invalid: {error}")
    except StoreError as error:
        outputs = connection.session.failed(job, f"error: {error}")
    connection.handle(outputs)


async def _do(job: Job, core: RelayCore, connection: JobConnection) -> Sequence[Output]:
    match job:
        case FetchJob():
            return await _fetch(job, core, connection)
        case CountJob():
            return await _count(job, core, connection)
        case MergedJob():
            assert core.merged is not None
            core.context.counted["merged_counts"] += 1
            return await answered(job, core.merged)
        case NegOpenJob():
            return await open_session(job, core, connection.session)
        case NegStepJob():
            return await step_session(job, core, connection.session)
        case SaveJob():  # `Ingest` saves it
            raise AssertionError(job)


def answer_at_once(job: Job, core: RelayCore, connection: JobConnection) -> Sequence[Output] | None:
    """The end of an answer that was found and sent without waiting; None: `perform` the job."""
    match job:
        case FetchJob():
            return _fetch_at_once(job, core, connection)
        case CountJob() if len(job.filters) <= FILTERS_AT_ONCE:
            return _count_at_once(job, core, connection)
        case _:
            return None


def _fetch_at_once(
    job: FetchJob, core: RelayCore, connection: JobConnection
) -> Sequence[Output] | None:
    try:
        found = VisibleStore(core.store, job.viewer).at_once(job.filters)
    except StoreError as error:
        return connection.session.failed(job, f"error: {error}")
    if found is None:
        return None
    if not connection.put_at_once(connection.session.stored(job, found.events)):
        return None
    core.context.counted["fetches"] += 1
    known = len(job.filters) == 1
    hint = _MORE[found.more] if known else _hint(job.filters, len(found.events))
    return connection.session.end_stored(job, hint)


_MORE = {True: Hint.MORE, False: Hint.FINISH}


async def _fetch(job: FetchJob, core: RelayCore, connection: JobConnection) -> Sequence[Output]:
    core.context.counted["fetches"] += 1
    most = _most(job.filters)
    asked = [f.replace(limit=most + 1) for f in job.filters] if most else job.filters
    found = 0
    visible = VisibleStore(core.store, job.viewer, core.room)
    async with connection.fetching, aclosing(visible.pages(asked)) as pages:
        async for events in pages:
            shown = events[: most - found] if most else events
            found += len(events)
            frames = connection.session.stored(job, shown)
            events.clear()
            del shown  # only its frames wait for the reader, and they are counted
            await connection.put_slowly(frames)
            del frames
            if not await connection.ready():  # rows are read as the reader takes them
                return []
    return connection.session.end_stored(job, _hint(job.filters, found))


def _most(filters: Sequence[Filter]) -> int | None:
    """The limit of a lone filter: one event beyond it shows at once whether there are more.

    None for several filters, whose events overlap, and for no events at all.
    """
    return filters[0].limit or None if len(filters) == 1 else None


def _hint(filters: Sequence[Filter], found: int) -> Hint | None:
    """What is known of events that were not sent (NIP-67); `found`: events, each once.

    Fewer than the smallest limit: no filter was cut.
    """
    limits = [f.limit for f in filters if f.limit is not None]
    if len(filters) == 1 and limits and limits[0]:
        return Hint.MORE if found > limits[0] else Hint.FINISH
    return Hint.FINISH if not limits or found < min(limits) else None


def _count_at_once(
    job: CountJob, core: RelayCore, connection: JobConnection
) -> Sequence[Output] | None:
    """After a COUNT that took too long, the next ones go to the threads for a while."""
    start = core.context.clock.monotonic()
    if start < core.counts_rest_until:
        return None
    visible = VisibleStore(core.store, job.viewer)
    try:
        figures = visible.figures_at_once(job.filters, registers=job.offset is not None)
    except (InvalidInput, StoreError):  # `perform` reports it
        return None
    if figures is None:
        core.counts_rest_until = start + COUNTS_REST_S
        return None
    return _counted(job, figures, core, connection, start)


def _counted(
    job: CountJob, figures: CountFigures, core: RelayCore, connection: JobConnection, start: float
) -> Sequence[Output]:
    core.context.counted["counts"] += 1
    core.context.count_seconds.append(core.context.clock.monotonic() - start)
    return connection.session.counted(job, figures)


async def _count(job: CountJob, core: RelayCore, connection: JobConnection) -> Sequence[Output]:
    start = core.context.clock.monotonic()
    visible = VisibleStore(core.store, job.viewer)
    async with core.scans:
        figures = await visible.figures(job.filters, registers=job.offset is not None)
    return _counted(job, figures, core, connection, start)
