"""`python -m agent.sandbox`: start it, say where it is in one line of JSON, let people live."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from agent.api.client import AgentClient
from agent.config import parse
from agent.parent import end_with_stdin
from agent.sandbox import history, relays
from agent.sandbox.people import SEED, WEEK, World
from agent.scratch import temporary
from agent.service.run import running
from agent.service.token import read_token_file, token_file
from agent.specs import WatchSpec
from agent.watches import query_of
from nostr_client.pool import RelayPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.sandbox.people import Deed
    from agent.service.run import Service

PACE_S: Final = 1.5
"""Between two people."""

_CONFIG: Final = """
[store]
path = "{folder}/store.db"
[relay]
listen = "127.0.0.1:0"
[api]
listen = "127.0.0.1:0"
token_file = "{folder}/token"
[relays]
default = [{relays}]
indexers = []
[service]
log = "debug"
log_format = "json"
[counters]
ingest = true
streams = [{{ name = "VOTES", subjects = ["votes.>"] }}]
[[syncs]]
name = "the-thread"
filters = [{{ kinds = [1] }}]
interval = "15s"
[[syncs]]
name = "everything"
filters = [{{ kinds = [1, 3, 6, 7] }}]
interval = "20s"
"""


def watches(world: World) -> list[WatchSpec]:
    """What the agent is asked to watch."""
    launch, thread = world.launch.event.id, world.thread.event.id
    asked = (
        ("author-followers", "followers", world.author),
        ("launch-reactions", "reactions", launch),
        ("launch-reposts", "reposts", launch),
        ("thread-reactions", "reactions", thread),
        ("thread-replies", "replies", thread),
    )
    found = [
        {"name": name, "query": query, "target": target, "interval": "20s"}
        for name, query, target in asked
    ]
    return msgspec.convert(found, list[WatchSpec])


async def main() -> None:
    """Run until told to stop."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    end_with_stdin()
    now = int(time.time())
    world = World(now)
    deeds = world.past(relays.GOOD)
    async with AsyncExitStack() as stack:
        urls = await relays.start(stack, deeds)
        service, tokens = await _agent(stack, urls)
        client = await stack.enter_async_context(AgentClient(service.api.url, service.token))
        pool = await stack.enter_async_context(RelayPool())
        for spec in watches(world):
            await client.add_watch(spec)
        await _remember(service, world, deeds, now)
        print(json.dumps({"api": service.api.url, **tokens}), flush=True)  # noqa: T201
        living = asyncio.create_task(_live(world, client, pool, urls))
        await stopping.wait()
        living.cancel()
        await asyncio.wait({living})


async def _agent(stack: AsyncExitStack, urls: Sequence[str]) -> tuple[Service, dict[str, str]]:
    folder = stack.enter_context(temporary("nostr-sandbox-"))
    names = ", ".join(f'"{url}"' for url in urls)
    text = _CONFIG.format(folder=folder.as_posix(), relays=names)
    config = parse(text)
    service = await stack.enter_async_context(running(config, publish=False))
    files = {"token": token_file(config.api), "read_token": read_token_file(config.api)}
    return service, {name: str(path) for name, path in files.items()}


async def _remember(service: Service, world: World, deeds: Sequence[Deed], now: int) -> None:
    database = service.agent.parts.store.database
    for spec in watches(world):
        found = history.points(deeds, query_of(spec), relays.GOOD, now - WEEK, now)
        await database.write(partial(history.write, watch=spec.name, found=list(found)))


async def _live(world: World, client: AgentClient, pool: RelayPool, urls: Sequence[str]) -> None:
    """One person after the other, who votes too."""
    rng = random.Random(SEED)
    while True:
        for deed in world.next(int(time.time()), relays.GOOD):
            await pool.publish(deed.event, [urls[n] for n in deed.relays])
        await client.add("VOTES", f"votes.{rng.choice(('yes', 'yes', 'no'))}", 1)
        await asyncio.sleep(PACE_S * rng.uniform(0.5, 1.5))


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(0)
