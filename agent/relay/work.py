"""Doing a session's jobs: ask the store, hand the results back."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from agent.relay.outputs import CountJob, FetchJob, NegOpenJob, NegStepJob, SaveJob
from agent.relay.snapshot import open_session, step_session
from agent.relay.visible import Refused, Visible
from nostr_client.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.connection import Connection
    from agent.relay.core import Core
    from agent.relay.outputs import Job, Output


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
    async with aclosing(Visible(core.store, job.viewer).pages(job.filters)) as pages:
        async for events in pages:
            await connection.put_slowly(connection.session.stored(job, events))
    return connection.session.end_stored(job)


async def _count(job: CountJob, core: Core, connection: Connection) -> Sequence[Output]:
    start = core.context.clock.monotonic()
    visible = Visible(core.store, job.viewer)
    figures = await visible.figures(job.filters, registers=job.offset is not None)
    core.context.counted["counts"] += 1
    core.context.count_seconds.append(core.context.clock.monotonic() - start)
    return connection.session.counted(job, figures)
