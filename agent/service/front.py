"""The front door: the API with its token, open before the store; until then it answers 503."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from agent.api.guard import Access
from agent.api.server import ApiServer, Bounds, serve
from agent.relay.listen import bind, parse_address
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
async def front_door(section: ApiSection) -> AsyncIterator[Door]:
    """Serve for as long as the block runs. Raises NetworkError, InvalidInput (a token file)."""
    token = await asyncio.to_thread(make_token, token_file(section))
    access = await asyncio.to_thread(make_access, section, token)
    listener = bind(*parse_address(section.listen))
    bounds = Bounds(section.body_limit, section.connections)
    async with serve(access, listener, bounds=bounds) as api:
        yield Door(api, token)
