"""`nostr-client watch run`: ask the stored watches when they are due."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nostr_client.cli.entry import NO_RELAY, run_async
from nostr_client.cli.key import key_file_option, optional_signer
from nostr_client.cli.names import with_keys
from nostr_client.cli.output import json_option, once_option, print_json, say
from nostr_client.cli.place import RunningAgent, StoreOrAgent, agent_at, place_option
from nostr_client.cli.questions import (
    deny_option,
    indexer_option,
    keep_option,
    monitor_option,
    most_option,
    relay_choice,
)
from nostr_client.cli.relays import (
    network_options,
    outcome_code,
    relay_option,
    timeout_option,
    worst_code,
)
from nostr_client.cli.watch import series
from nostr_client.cli.watch.file import unknown
from nostr_client.errors import InvalidInput, StoreLocked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from nostr_client.client import NostrClient
    from nostr_client.count.figures import CountReport
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch import Watch, WatchRepository
    from nostr_client.watch.engine import Engine
    from nostr_client.watch.state import Merge, WatchSet

LOOK_S = 60.0
"""Seconds between two reads of the stored watches: other processes may have added some."""

GIVE_ONE = "no relay to ask: give --relay or --indexer"
NO_WATCHES = "no watches yet: nostr-client watch add NAME WHAT TARGET"


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@once_option
@relay_option
@indexer_option
@deny_option
@most_option
@monitor_option
@timeout_option
@keep_option
@key_file_option
@network_options(strangers=True)
@place_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    once: bool,
    relays: tuple[str, ...],
    place: StoreOrAgent,
    as_json: bool,
    keep_events: bool,
    **how: Any,
) -> None:
    """Ask watches when they are due, until interrupted; all of them, or those named.

    --relay and --indexer are for watches that name no relays themselves; a watch without any relay
    is reported once. Exit codes of --once: 0 if some relay answered for each watch, 124 if those of
    all others timed out, else 3. 2 if no watch has a relay to ask.

    An agent that holds the store asks its watches by itself, on the relays of its configuration;
    --once makes it ask them now.
    """
    from nostr_client.cli.gc_tuning import prepare_for_long_runs

    prepare_for_long_runs()
    how["monitors"] = with_keys(how["monitors"], how["network"])
    running = _run(place, names, once, as_json, _Asked(relays, keep_events, how))
    ctx.exit(worst_code(run_async(running)))


class _Asked(NamedTuple):
    """Which relays to ask, and how."""

    relays: tuple[str, ...]
    keep_events: bool
    how: Mapping[str, Any]

    def client(self, store: SqliteStore | None) -> NostrClient:
        from nostr_client.client import NostrClient

        how = self.how
        return NostrClient(
            self.relays,
            options=how["network"],
            timeout=how["timeout"],
            store=store,
            keep_events=self.keep_events,
            choice=relay_choice(how["indexers"], how["denied"], how["most"], how["monitors"]),
            signer=optional_signer(how["key_file"]),
        )


@asynccontextmanager
async def _opened(path: Path, asked: _Asked) -> AsyncIterator[tuple[WatchRepository, NostrClient]]:
    """Yield the watches of a store and the client that asks them, over one file."""
    from nostr_client.count.claims import CLAIMS
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch import WATCHES, WatchRepository

    async with AsyncExitStack() as stack:
        opening = SqliteStore.open(path, migrations=[CLAIMS, WATCHES])
        store = await stack.enter_async_context(await opening)
        client = await stack.enter_async_context(asked.client(store))
        yield WatchRepository(store.database), client


async def _run(
    place: StoreOrAgent, names: tuple[str, ...], once: bool, as_json: bool, asked: _Asked
) -> list[int]:
    """Run until interrupted, or once: then return the exit code of each watch."""
    async with agent_at(place) as agent:
        if agent is not None:
            return await _run_through(agent, names, once, as_json)
    return await _run_here(place.there, names, once, as_json, asked)


async def _run_through(
    agent: RunningAgent, names: tuple[str, ...], once: bool, as_json: bool
) -> list[int]:
    """Ask each watch of the agent now, all at once; return the exit code of each."""
    if not once:
        raise StoreLocked("the agent asks its watches by itself: --once has it ask them now")
    known = [one.watch.name for one in await agent.watches()]
    for name in names:
        if name not in known:
            raise unknown(name)
    if not known:
        say(NO_WATCHES)
    async with asyncio.TaskGroup() as group:
        tasks = {
            name: group.create_task(agent.ask_watch(name))
            for name in sorted(known)
            if not names or name in names
        }
    codes = []
    for name, task in tasks.items():
        _print_result(name, task.result(), as_json)
        statuses = [one.status for one in task.result().relays]
        codes.append(outcome_code(statuses) if statuses else NO_RELAY)
    return codes


async def _run_here(
    path: Path, names: tuple[str, ...], once: bool, as_json: bool, asked: _Asked
) -> list[int]:
    results: dict[str, CountReport] = {}

    async def merged(merge: Merge) -> None:
        if merge.is_whole and (merge.is_news or merge.is_near):
            name = merge.watched.watch.name
            results[name] = merge.result.counted(merge.watched.watch.left_out)
            if not once:
                _print_result(name, results[name], as_json)

    async with _opened(path, asked) as (book, client):
        known = await _wanted(book, client)
        _check(known.watches, names, asked)
        async with client.engine(merged, _only(known, names), book=book) as engine:
            if not once:
                await _keep_on(engine, book, client, names)
            lost = await _once(engine)
    for name, result in sorted(results.items()):
        _print_result(name, result, as_json)
    codes = [outcome_code([one.status for one in given.relays]) for given in results.values()]
    return [*codes, *(NO_RELAY for _ in lost.reported)]


async def _wanted(book: WatchRepository, client: NostrClient) -> WatchSet:
    return client.wanted(made for made, _ in await book.all())


def _only(known: WatchSet, names: Sequence[str]) -> WatchSet:
    """Return the named watches, or all of them."""
    watches = {name: one for name, one in known.watches.items() if not names or name in names}
    return known._replace(watches=watches)


def _check(known: Mapping[str, Watch], names: Sequence[str], asked: _Asked) -> None:
    """Raise InvalidInput for unknown names, and if no watch can ever be asked.

    An indexer may find relays later.
    """
    for name in names:
        if name not in known:
            raise unknown(name)
    if not known:
        say(NO_WATCHES)
    chosen = {name: one for name, one in known.items() if not names or name in names}
    found = asked.relays or asked.how["indexers"] or any(one.relays for one in chosen.values())
    if chosen and not found:
        _Lost().report(dict.fromkeys(chosen, ""))
        raise InvalidInput("no relay to ask")


async def _once(engine: Engine) -> _Lost:
    """Ask every relay of each watch once."""
    lost = _Lost()
    await engine.look()
    await engine.refresh()
    lost.report_lacks(engine)
    for name in engine.watches:
        engine.ask_now(name)
    async with asyncio.TaskGroup() as group:
        group.create_task(engine.worker.run())
        await engine.worker.settled()
        engine.worker.stop()
    lost.report_webs(engine)
    return lost


async def _keep_on(
    engine: Engine, book: WatchRepository, client: NostrClient, names: Sequence[str]
) -> None:
    """Ask what is due until interrupted, including watches that are added meanwhile."""
    lost = _Lost()
    await engine.look()
    await engine.refresh()
    async with asyncio.TaskGroup() as group:
        group.create_task(engine.run())
        while True:
            lost.report_lacks(engine)
            lost.report_webs(engine)
            await asyncio.sleep(LOOK_S)
            wanted = _only(await _wanted(book, client), names)
            if wanted != engine.wanted:
                engine.wanted = wanted
                await engine.look()
                await engine.refresh()


class _Lost:
    """Reports why a watch has no relay to ask, and again only if the reason changes."""

    def __init__(self) -> None:
        self.reported: dict[str, str] = {}
        self._webs: dict[str, str] = {}

    def report_webs(self, engine: Engine) -> None:
        """Report for each watch why nobody is counted within its web of trust."""
        webs = {name: one.no_web for name, one in engine.watches.items() if one.no_web}
        for name, why in sorted(webs.items()):
            if self._webs.get(name) != why:
                say(f"{name}: {why}")
        self._webs = webs

    def report(self, lacks: Mapping[str, str]) -> None:
        for name, why in sorted(lacks.items()):
            if self.reported.get(name) != why:
                say(f"{name}: {why or GIVE_ONE}")
        self.reported.update(lacks)

    def report_lacks(self, engine: Engine) -> None:
        """Report for each watch of an engine why it has no relay to ask."""
        from nostr_client.watch.state import NO_RELAY as UNNAMED

        lacks = {name: one.lack for name, one in engine.watches.items() if one.lack}
        self.report({name: "" if why == UNNAMED else why for name, why in lacks.items()})


def _print_result(name: str, found: CountReport, as_json: bool) -> None:
    if as_json:
        import msgspec

        print_json({"watch": name, **msgspec.to_builtins(found)})
        return
    near = f"; {found.within}" if found.within else ""
    click.echo(f"{series.moment(time.time())}  {name}  {found}{near}")
