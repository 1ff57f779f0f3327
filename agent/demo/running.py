"""Starts the parts of the demonstration: relays, people, and an agent that watches them."""

from __future__ import annotations

import random
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from agent.api.client import AgentClient
from agent.config import parse
from agent.demo import history, relays
from agent.demo.world import SEED, World
from agent.reindex.tempdir import temporary
from agent.service.process.secrets import read_token_file, token_file
from agent.service.run import running
from nostr_client.network.pool import RelayPool
from nostr_client.watch.definition import Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from agent.service.run import Service

INTERVAL: Final = "10s"
"""Between two rounds of a watch or a sync."""

EVERYTHING: Final = "everything"
"""The sync that brings all posts."""

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
log = "{log}"
log_format = "json"
[counters]
ingest = true
streams = [{{ name = "VOTES", subjects = ["votes.>"] }}]
[[syncs]]
name = "the-thread"
filters = [{{ kinds = [1] }}]
interval = "{interval}"
[[syncs]]
name = "{everything}"
filters = [{{ kinds = [1, 3, 6, 7] }}]
interval = "{interval}"
"""


class Demonstration(NamedTuple):
    """What runs: `names` are the relays' by URL, `watches` what the agent was asked to watch."""

    world: World
    names: dict[str, str]
    service: Service
    client: AgentClient
    pool: RelayPool
    watches: tuple[Watch, ...]
    votes: random.Random

    async def join(self) -> None:
        """Somebody new comes, posts and votes."""
        urls = list(self.names)
        for post in self.world.join(int(time.time())):
            await self.pool.publish(post.event, [urls[n] for n in post.relays])
        vote = self.votes.choice(("yes", "yes", "no"))
        await self.client.add("VOTES", f"votes.{vote}", "1")

    async def remember(self) -> None:
        """Give each watch the history of the week before."""
        database = self.service.agent.parts.store.database
        for spec in self.watches:
            posts = self.world.posts
            await history.write(database, spec.name, spec.question, posts, self.world.now)

    def place(self) -> dict[str, str]:
        """Where the agent is: its API's URL and the files of its tokens."""
        api = self.service.agent.config.api
        files = {"token": token_file(api), "read_token": read_token_file(api)}
        return {"api": self.service.api.url, **{name: str(path) for name, path in files.items()}}


@asynccontextmanager
async def demonstration(log: str) -> AsyncIterator[Demonstration]:
    """Everything, for as long as the block runs, in a folder that is then removed.

    `log`: the least level of what the agent writes to stderr.
    """
    world = World(int(time.time()), relays.SPREAD)
    async with AsyncExitStack() as stack:
        names = await relays.start(stack, world.posts)
        folder = stack.enter_context(temporary("nostr-agent-demo-"))
        text = _CONFIG.format(
            folder=folder.as_posix(),
            relays=_quoted(names),
            interval=INTERVAL,
            log=log,
            everything=EVERYTHING,
        )
        service = await stack.enter_async_context(running(parse(text), publish=False))
        client = await stack.enter_async_context(AgentClient(service.api.url, service.token))
        pool = await stack.enter_async_context(RelayPool())
        watches = tuple(_watches(world))
        for spec in watches:
            await client.add_watch(spec)
        votes = random.Random(SEED)
        yield Demonstration(world, names, service, client, pool, watches, votes)


def _quoted(urls: Iterable[str]) -> str:
    return ", ".join(f'"{url}"' for url in urls)


def _watches(world: World) -> list[Watch]:
    launch, thread = world.launch.event.id, world.thread.event.id
    asked = (
        ("author-followers", "followers", world.author),
        ("launch-reactions", "reactions", launch),
        ("launch-reposts", "reposts", launch),
        ("thread-reactions", "reactions", thread),
        ("thread-replies", "replies", thread),
    )
    found = [
        {"name": name, "query": query, "target": target, "interval": INTERVAL}
        for name, query, target in asked
    ]
    return msgspec.convert(found, list[Watch])
