"""`nostr-agent demo`: an agent over local relays, in a minute: watches, a sync, counters."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import click

from agent.api import schema
from agent.commands import tables
from agent.commands.demo_counters import counters
from agent.scratch import temporary
from nostr_client import kinds
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.runner import run_async_until_sigterm

if TYPE_CHECKING:
    from agent.api.client import AgentClient
    from nostr_client.event import Event
    from nostr_client.pool import RelayPool

SEED = 7
PEOPLE = 40
PATIENCE = 120
"""Looks, four a second, until the agent must have caught up."""

RELAYS = ("with registers", "without registers", "with registers too")

_CONFIG = """
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
log = "warning"
[counters]
ingest = true
[[watches]]
name = "followers"
query = "followers"
target = "{author}"
interval = "10s"
[[watches]]
name = "reactions"
query = "reactions"
target = "{note}"
interval = "10s"
[[syncs]]
name = "all-of-it"
filters = [{{ kinds = [1, 3, 7] }}]
interval = "10s"
"""


@click.group(invoke_without_command=True)
@click.option(
    "--seconds", type=click.IntRange(5, 600), default=45, show_default=True, help="Time it has."
)
@json_option
@click.pass_context
def demo(ctx: click.Context, seconds: int, as_json: bool) -> None:
    """Start relays and an agent, let people follow and react, and show what the agent sees.

    Everything is local, in a folder that is removed. Exit code 1 when the numbers end up wrong.
    """
    if ctx.invoked_subcommand is not None:
        return
    ended = run_async_until_sigterm(_demo(seconds, quiet=as_json))
    if as_json:
        print_json(ended)
    else:
        _tell_end(ended)
    ctx.exit(0 if ended["right"] else 1)


demo.add_command(counters)


async def _demo(seconds: int, *, quiet: bool) -> dict[str, Any]:
    from agent.api.client import AgentClient
    from agent.config import parse
    from agent.relay.options import RelayOptions
    from agent.relay.server import serve
    from agent.service.run import running
    from nostr_client.pool import RelayPool
    from nostr_client.store.sqlite import SqliteStore

    async with AsyncExitStack() as stack:
        urls: list[str] = []
        for name in RELAYS:
            store = await stack.enter_async_context(await SqliteStore.open(":memory:"))
            options = RelayOptions(hll=name != "without registers")
            server = await stack.enter_async_context(serve(store, port=0, options=options))
            urls.append(server.url)
        folder = stack.enter_context(temporary("nostr-agent-demo-"))
        people = _People()
        text = _CONFIG.format(
            folder=folder.as_posix(),
            relays=", ".join(f'"{url}"' for url in urls),
            author=people.author,
            note=people.note.id,
        )
        service = await stack.enter_async_context(running(parse(text), publish=False))
        client = await stack.enter_async_context(AgentClient(service.api.url, service.token))
        pool = await stack.enter_async_context(RelayPool())
        if not quiet:
            click.echo(f"three relays: {', '.join(urls)}\nan agent: {service.api.url}\n")
        async with asyncio.TaskGroup() as group:
            shown = group.create_task(_show(client, quiet=quiet))
            await people.live(pool, urls, seconds)
            right = await _caught_up(client, people)
            shown.cancel()
        return await _ended(client, people, right=right)


class _People:
    """Made-up people who follow an author and react to a note: the same for the same seed."""

    def __init__(self) -> None:
        self._rng = random.Random(SEED)
        self.author = self._signer("author").pubkey
        self.note = self._event("author", kinds.TEXT_NOTE, ())
        self.followers = 0
        self.reactions = 0

    def _signer(self, name: str) -> Any:
        from nostr_client.keys import KeySigner

        return KeySigner(sha256(f"demo {SEED} {name}".encode()).digest(), rand=bytes)

    def _event(self, name: str, kind: int, tags: tuple[tuple[str, ...], ...]) -> Event:
        from nostr_client.event import EventTemplate

        now = int(time.time())
        template = EventTemplate(kind=kind, tags=tags, content="+", created_at=now)
        event: Event = self._signer(name).sign_now(template).event
        return event

    async def live(self, pool: RelayPool, urls: list[str], seconds: int) -> None:
        """One person after the other, spread over the time; each on one relay or two."""
        await self._publish(pool, self.note, urls)
        for n in range(PEOPLE):
            where = self._rng.sample(urls, self._rng.choice((1, 1, 2)))
            follow = self._event(f"p{n}", kinds.CONTACTS, (("p", self.author),))
            await self._publish(pool, follow, where)
            self.followers += 1
            if n % 2:
                like = self._event(f"p{n}", kinds.REACTION, (("e", self.note.id),))
                await self._publish(pool, like, where)
                self.reactions += 1
            await asyncio.sleep(seconds * 0.8 / PEOPLE)

    async def _publish(self, pool: RelayPool, event: Event, urls: list[str]) -> None:
        from nostr_client.keys import verify

        await pool.publish(verify(event), urls)


async def _show(client: AgentClient, *, quiet: bool) -> None:
    """Print what changes, as it comes over the event stream."""
    last: dict[str, str] = {}
    async for _, message in client.events():
        if quiet or not isinstance(message, schema.Delta):
            continue
        line = _line(message)
        name = line.partition(":")[0]
        if line and last.get(name) != line:
            last[name] = line
            click.echo(line)


def _line(delta: schema.Delta) -> str:
    if delta.watch is not None and delta.watch.figure is not None:
        value, bounds = tables.figure(delta.watch.figure)
        name, asked = delta.watch.spec.name, f"{delta.watch.answered}/{delta.watch.asked}"
        return f"watch {name}: {value} ({bounds}), {asked} relays"
    if delta.sync is not None and delta.sync.outcome:
        events = sum(one.downloaded for one in delta.sync.relays)
        return f"sync {delta.sync.spec.name}: {delta.sync.outcome}, {events} new events"
    return ""


async def _caught_up(client: AgentClient, people: _People) -> bool:
    """Wait, not for ever, until the agent's numbers hold the truth and its store everything."""
    truth = {"followers": people.followers, "reactions": people.reactions}
    for _ in range(PATIENCE):
        if await _is_right(client, truth):
            return True
        await asyncio.sleep(0.25)
    return False


async def _is_right(client: AgentClient, truth: dict[str, int]) -> bool:
    figures = {w.spec.name: w.figure for w in (await client.watches()).watches}
    inside = all(
        (f := figures[name]) is not None and f.low <= n <= (n if f.high is None else f.high)
        for name, n in truth.items()
    )
    return inside and (await client.store()).events == sum(truth.values()) + 1


async def _ended(client: AgentClient, people: _People, *, right: bool) -> dict[str, Any]:
    found = (await client.watches()).watches
    counters = (await client.counters("INGEST")).counters
    return {
        "right": right,
        "truth": {"followers": people.followers, "reactions": people.reactions},
        "watches": {
            w.spec.name: None if w.figure is None else tables.figure(w.figure) for w in found
        },
        "stored": (await client.store()).events,
        "counters": {one.subject: one.value for one in counters},
    }


def _tell_end(ended: dict[str, Any]) -> None:
    click.echo("")
    for name, truth in ended["truth"].items():
        value, bounds = ended["watches"][name] or ("?", "")
        click.echo(f"{name}: {value} ({bounds}); in truth {truth}")
    for subject, value in ended["counters"].items():
        click.echo(f"counter {subject} = {value}")
    click.echo(f"{ended['stored']} events stored by the sync")
    say("all right" if ended["right"] else "NOT right")
    say(
        "what to look at next:\n"
        "  nostr-agent init && nostr-agent run     an agent of your own\n"
        "  nostr-agent watch add …                 a question of your own\n"
        "  nostr-agent status | relays | logs -f   how it does\n"
        "  docs/how-to/service.md                  alerts, backup, the HTTP API, systemd"
    )
