"""`nostr-agent reindex` while the agent runs: it owns the store, so it is asked to do it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from agent.api.address import addresses, reach
from agent.api.schema import Rebuild, RebuildBody
from agent.reindex.protocol import LOCAL, Stage, Talk
from nostr_client.cli.output import print_json, say
from nostr_client.display import plural
from nostr_client.errors import InvalidInput, NetworkError, StoreLocked
from nostr_client.store.connect import check_file
from nostr_client.store.lock import WriterLock

if TYPE_CHECKING:
    from pathlib import Path

    from agent.reindex.run import Tell

ASK_S: Final = 0.5
"""Seconds between two looks at how far it is."""


def agent_writes(store: Path) -> bool:
    """Whether a running agent holds this store.

    Raises StoreLocked where another process does, InvalidInput where there is none, StoreError
    for what can be none.
    """
    if not store.exists():
        raise InvalidInput(f"there is no store at {store}")
    check_file(store)
    try:
        WriterLock(store).release()
    except StoreLocked as error:
        try:
            agent = addresses()
        except NetworkError:
            raise error from None
        if agent.pid != error.pid:
            raise
        return True
    return False


async def by_agent(given: dict[str, Any], tell: Tell) -> Rebuild:
    """Have the agent do it, and tell how it goes. Cancelled, it has the agent cancel it too.

    Raises InvalidInput for what an agent is not asked for.
    """
    if given["master"] != LOCAL:
        raise InvalidInput("--master: the agent is running, and rebuilds on its own machine")
    body = RebuildBody(
        engine=given["engine"],
        check=given["check"],
        repair=given["repair"],
        memory=given["memory"],
    )
    from agent.api.client import AgentClient

    async with AgentClient(*reach(None, None)) as client:
        shown = await client.start_rebuild(body)
        tell(Talk("the running agent does it"))
        told: set[str] = set()
        try:
            while shown.running:
                await asyncio.sleep(ASK_S)
                shown = await client.rebuild()
                _tell_new(shown, told, tell)
        except asyncio.CancelledError:
            await asyncio.shield(client.cancel_rebuild())
            raise
    return shown


def _tell_new(shown: Rebuild, told: set[str], tell: Tell) -> None:
    for one in shown.stages:
        if one.name in told:
            continue
        if one.state in ("done", "skipped"):
            told.add(one.name)
        tell(Stage(*msgspec.structs.astuple(one)))


def show(done: Rebuild, *, as_json: bool) -> None:
    """Print what came of it."""
    if as_json:
        print_json(done)
        return
    for one in done.differences:
        click.echo(f"{one.table}\t{one.key}\t{one.cause}")
    if done.found is not None:
        say(f"{plural(done.found, 'difference')}, {len(done.differences):,} listed")
    if done.generation is not None:
        say(f"index generation {done.generation} is in its place")
    say(f"{done.outcome}{': ' if done.message else ''}{done.message}")


def code_of(done: Rebuild, given: dict[str, Any]) -> int:
    """The exit code of the command."""
    if done.outcome != "done":
        return 130 if done.outcome == "cancelled" else 1
    return 1 if done.found and not given["repair"] else 0
