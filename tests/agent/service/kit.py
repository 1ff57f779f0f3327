"""A whole agent in the test's process, over a store in a folder of its own."""

from __future__ import annotations

import asyncio
import io
import time
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agent.api import schema
from agent.api.client import AgentClient
from agent.config import parse
from agent.log import Log
from agent.service.run import Service, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from nostr_client.watch.clock import Clock

PATIENCE_S = 120.0
"""Seconds after which something is taken to hang; a loaded machine needs a minute now and then."""


def config_text(
    folder: Path,
    relays: Sequence[str],
    more: str = "",
    sections: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """A configuration with free ports; `more` is further TOML, `sections` goes into those."""
    within = {name: sections.get(name, "") for name in ("store", "relay", "api", "relays")}
    names = ", ".join(f'"{url}"' for url in relays)
    return f"""
[store]
path = "{folder / "store.db"}"
{within["store"]}
[relay]
listen = "127.0.0.1:0"
{within["relay"]}
[api]
listen = "127.0.0.1:0"
token_file = "{folder / "token"}"
{within["api"]}
[relays]
default = [{names}]
indexers = []
{within["relays"]}
{more}
"""


class Running:
    """A service with a client that talks to it over its socket, and what it wrote to its log."""

    def __init__(self, service: Service, client: AgentClient, log: io.StringIO) -> None:
        self.service = service
        self.client = client
        self.log = log

    async def until(
        self, good: Callable[[schema.WatchState], bool], name: str
    ) -> schema.WatchState:
        """The first state of a watch that is good, from the stream; fails after a while."""
        async with asyncio.timeout(PATIENCE_S):
            async for _, message in self.client.events():
                found: tuple[schema.WatchState, ...] = ()
                if isinstance(message, schema.StateSnapshot):
                    found = message.watches
                elif isinstance(message, schema.Delta) and message.watch is not None:
                    found = (message.watch,)
                for watch in found:
                    if watch.spec.name == name and good(watch):
                        return watch
        raise AssertionError(f"the stream ended before {name} was right")


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = PATIENCE_S) -> None:
    """Wait until `check` says yes; fails after `seconds`."""
    async with asyncio.timeout(seconds):
        while True:
            if await check():
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def an_agent(
    folder: Path,
    relays: Sequence[str] = (),
    more: str = "",
    *,
    clock: Clock | None = None,
    sections: Mapping[str, str] = MappingProxyType({}),
    text: str = "",
    **changes: Any,
) -> AsyncIterator[Running]:
    """A running agent, ended in order when the block is left."""
    out = io.StringIO()
    config = parse(text or config_text(folder, relays, more, sections))
    log = Log(clock.wall if clock else time.time, style="json", out=out)
    async with (
        running(config, clock=clock, log=log, **changes) as service,
        AgentClient(service.api.url, service.token) as client,
    ):
        yield Running(service, client, out)
