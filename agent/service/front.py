"""The front door: the API with its token, open before the store is; until then it says so."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from agent.api.guard import Access
from agent.api.server import ApiServer, Bounds, serve
from agent.relay.listen import bind, parse_address
from agent.service.doorstep import Doorstep
from agent.service.token import make_token, token_file
from nostr_client.places import user_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.config.model import ApiSection


class Door(NamedTuple):
    """The API's server, and the token that it asks for."""

    api: ApiServer
    token: str


def make_access(section: ApiSection, token: str) -> Access:
    """Who may use the API. Raises InvalidInput, OSError for the token of sources."""
    path = section.source_token_file
    return Access(
        token=token,
        source_token=make_token(user_path(path)) if path else "",
        hosts=frozenset(host.lower() for host in section.hosts),
        origins=frozenset(origin.lower() for origin in section.cors_origins),
        open_metrics=section.open_metrics,
    )


@asynccontextmanager
async def front_door(section: ApiSection, step: Doorstep | None = None) -> AsyncIterator[Door]:
    """Serve for as long as the block runs, on a socket that listens already or on a new one.

    Raises NetworkError, InvalidInput (a token file).
    """
    token = await asyncio.to_thread(make_token, token_file(section))
    access = await asyncio.to_thread(make_access, section, token)
    if step is None:
        step = Doorstep(bind(*parse_address(section.listen)), time.monotonic())
    bounds = Bounds(section.body_limit, section.connections)
    async with serve(access, step.listener, bounds=bounds, since=step.since) as api:
        yield Door(api, token)
