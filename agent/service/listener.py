"""Opens the listener of the API before the store; until the store is open it answers 503."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from agent.api.guard import ApiAccess
from agent.api.server import ApiServer, Bounds, serve
from agent.relay.listen import bind, parse_address
from agent.service.secrets import Tokens, make_tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.config.model import ApiSection


class Door(NamedTuple):
    """The API's server, and the tokens that it takes."""

    api: ApiServer
    tokens: Tokens


def make_access(section: ApiSection, tokens: Tokens) -> ApiAccess:
    """Who may use the API."""
    return ApiAccess(
        token=tokens.manage,
        read_token=tokens.read,
        source_token=tokens.source,
        hosts=frozenset(host.lower() for host in section.hosts),
        origins=frozenset(origin.lower() for origin in section.cors_origins),
        open_metrics=section.open_metrics,
        badges=frozenset(section.badges),
    )


@asynccontextmanager
async def front_door(section: ApiSection) -> AsyncIterator[Door]:
    """Serve for as long as the block runs. Raises NetworkError, InvalidInput (a token file)."""
    tokens = await asyncio.to_thread(make_tokens, section)
    listener = bind(*parse_address(section.listen))
    bounds = Bounds(section.body_limit, section.connections)
    async with serve(make_access(section, tokens), listener, bounds=bounds) as api:
        yield Door(api, tokens)
