"""NIP-77 sessions over the store: a snapshot at NEG-OPEN, one step for every NEG-MSG after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from agent.relay.limits import check_filters
from agent.relay.negotiation import FILTER_INVALID, FILTER_NOT_FOUND
from agent.relay.visible import Refused, Visible
from nostr_client.errors import InvalidFilter, NegentropyError
from nostr_client.filters import Filter
from nostr_client.negentropy.reconcile import Responder
from nostr_client.negentropy.storage import seal_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.core import Core
    from agent.relay.outputs import NegOpenJob, NegStepJob, Output
    from agent.relay.session import Session
    from agent.relay.visible import Items


UNLIMITED = 2**63
"""More events than any store holds."""


async def open_session(job: NegOpenJob, core: Core, session: Session) -> Sequence[Output]:
    """Make the snapshot and the first answer. Raises Refused, StoreError."""
    visible = Visible(core.store, job.viewer)
    filters = await _filters(job, core, visible)
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
        raise Refused(f"invalid: {error}") from error
    return session.negotiation.opened(job, engine, reply)


async def step_session(job: NegStepJob, core: Core, session: Session) -> Sequence[Output]:
    """The answer to a later message. Raises Refused."""
    engine = job.state.engine
    if engine is None:
        raise Refused("closed: the session was closed")
    loop = asyncio.get_running_loop()
    try:
        reply = await loop.run_in_executor(core.threads, engine.reconcile, job.message)
    except NegentropyError as error:
        raise Refused(f"invalid: {error}") from error
    return session.negotiation.stepped(job, reply)


def _begin(items: Items, message: bytes, frame_limit: int) -> tuple[Responder, bytes]:
    engine = Responder(seal_columns(*items), frame_limit=frame_limit)
    return engine, engine.reconcile(message)


def _reserve(session: Session, job: NegOpenJob, items: int) -> None:
    refusal = session.negotiation.reserve(job, items)
    if refusal:
        raise Refused(refusal)


def _limit(filters: Sequence[Filter]) -> int:
    """The most events that the limits of `filters` leave; a filter without one leaves all."""
    return sum(UNLIMITED if f.limit is None else f.limit for f in filters)


async def _filters(job: NegOpenJob, core: Core, visible: Visible) -> tuple[Filter, ...]:
    """The filters of a session: given, or read from the event that holds them. Raises Refused."""
    if not isinstance(job.wanted, str):
        return job.wanted
    try:
        found = await visible.events([Filter(ids=[job.wanted])])
        if not found:
            raise Refused(FILTER_NOT_FOUND)
        filters = _parse(found[0].content)
    except InvalidFilter as error:
        raise Refused(FILTER_INVALID) from error
    refusal = check_filters(filters, core.options.limits, search=core.context.search)
    refusal = refusal or job.viewer.refusal(filters)
    if refusal:
        raise Refused(refusal)
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
