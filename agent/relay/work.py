"""Doing a session's jobs: ask the store, hand the results back."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from agent.relay.outputs import CountJob, FetchJob, NegOpenJob, NegStepJob, SaveJob
from agent.relay.snapshot import open_session, step_session
from agent.relay.visible import Refused, Visible
from nostr_client.errors import InvalidInput, StoreError
from nostr_client.messages import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.connection import Connection
    from agent.relay.core import Core
    from agent.relay.outputs import Job, Output
    from nostr_client.filters import Filter


async def perform(job: Job, core: Core, connection: Connection) -> None:
    """Do `job` and give its result to the connection's session. Safe to cancel."""
    try:
        outputs = await _do(job, core, connection)
    except Refused as refusal:
        outputs = connection.session.failed(job, str(refusal))
    except TimeoutError:
        outputs = connection.session.failed(job, "error: the store took too long")
    except InvalidInput as error:
        outputs = connection.session.failed(job, f"invalid: {error}")
    except StoreError as error:
        outputs = connection.session.failed(job, f"error: {error}")
    connection.handle(outputs)


async def _do(job: Job, core: Core, connection: Connection) -> Sequence[Output]:
    match job:
        case FetchJob():
            return await _fetch(job, core, connection)
        case CountJob():
            return await _count(job, core, connection)
        case NegOpenJob():
            return await open_session(job, core, connection.session)
        case NegStepJob():
            return await step_session(job, core, connection.session)
        case SaveJob():  # goes through Ingest
            raise AssertionError(job)


async def _fetch(job: FetchJob, core: Core, connection: Connection) -> Sequence[Output]:
    core.context.counted["fetches"] += 1
    most = _most(job.filters)
    asked = [f.replace(limit=most + 1) for f in job.filters] if most else job.filters
    found = 0
    visible = Visible(core.store, job.viewer, core.room)
    async with connection.fetching, aclosing(visible.pages(asked)) as pages:
        async for events in pages:
            frames = connection.session.stored(job, events[: most - found] if most else events)
            found += len(events)
            events.clear()  # what waits for the reader is its frames alone, which are counted
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


async def _count(job: CountJob, core: Core, connection: Connection) -> Sequence[Output]:
    start = core.context.clock.monotonic()
    visible = Visible(core.store, job.viewer)
    figures = await visible.figures(job.filters, registers=job.offset is not None)
    core.context.counted["counts"] += 1
    core.context.count_seconds.append(core.context.clock.monotonic() - start)
    return connection.session.counted(job, figures)
