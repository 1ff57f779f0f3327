"""`nostr-client watch run`: the stored watches are asked when they are due."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nostr_client.cli import series
from nostr_client.cli.exitcodes import NO_RELAY
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.questions import (
    deny_option,
    indexer_option,
    keep_option,
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
from nostr_client.cli.runner import run_async
from nostr_client.cli.secretkey import key_file_option, optional_signer
from nostr_client.cli.store import store_option, stored_at
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from pathlib import Path

    from nostr_client.client import NostrClient
    from nostr_client.count.result import CountResult
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch import Runner, Watch, WatchBook

GIVE_ONE = "no relay to ask: give --relay or --indexer"
NO_WATCHES = "no watches yet: nostr-client watch add NAME WHAT TARGET"


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--once", is_flag=True, help="Ask every one of them now, once, and end.")
@relay_option
@indexer_option
@deny_option
@most_option
@timeout_option
@keep_option
@key_file_option
@network_options(strangers=True)
@store_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    once: bool,
    relays: tuple[str, ...],
    path: Path | None,
    as_json: bool,
    keep_events: bool,
    **how: Any,
) -> None:
    """Ask watches when they are due, until interrupted; all of them, or those named.

    --relay and --indexer are for watches that name no relays themselves; one that has no relay to
    ask is told once. Exit codes of --once: 0 when some relay answered for each watch, 124 when
    those of all others timed out, else 3. 2 when not one of the watches has a relay to ask.
    """
    from nostr_client.heap import prepare_for_long_runs

    prepare_for_long_runs()
    running = _run(stored_at(path), names, once, as_json, _Asked(relays, keep_events, how))
    ctx.exit(worst_code(run_async(running)))


class _Asked(NamedTuple):
    """Who is asked, and how."""

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
            choice=relay_choice(how["indexers"], how["denied"], how["most"]),
            signer=optional_signer(how["key_file"]),
        )


@asynccontextmanager
async def _asking(path: Path, asked: _Asked) -> AsyncIterator[tuple[WatchBook, Runner]]:
    """The watches of a store and what asks them, over one file."""
    from nostr_client.claims import CLAIMS
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch import WATCHES, WatchBook

    async with AsyncExitStack() as stack:
        store = None
        if asked.keep_events:
            opening = SqliteStore.open(path, migrations=[CLAIMS, WATCHES])
            store = await stack.enter_async_context(await opening)
            book = WatchBook(store.database)
        else:
            book = await stack.enter_async_context(await WatchBook.open(path))
        client = await stack.enter_async_context(asked.client(store))
        yield book, client.runner(book)


async def _run(
    path: Path, names: tuple[str, ...], once: bool, as_json: bool, asked: _Asked
) -> list[int]:
    """Until interrupted, or once: then the exit code of each watch."""
    async with _asking(path, asked) as (book, runner):
        known = {made.name: made for made, _ in await book.all()}
        for name in names:
            if name not in known:
                raise unknown(name)
        if not known:
            say(NO_WATCHES)
        wanted = set(names) or None
        chosen = [made for name, made in known.items() if wanted is None or name in wanted]
        _refuse_without_relays(chosen, asked)
        if once:
            return await _once(runner, wanted or known, as_json)
        async for name, result in runner.run(wanted, on_lost=_Lost().tell):
            _tell(name, result, as_json)
        return []


async def _once(runner: Runner, names: Collection[str], as_json: bool) -> list[int]:
    lost = _Lost()
    results = await runner.round(names, all_of_them=True, on_lost=lost.tell)
    for name, result in results.items():
        _tell(name, result, as_json)
    codes = [outcome_code([one.status for one in given.relays]) for given in results.values()]
    return [*codes, *(NO_RELAY for _ in lost.told)]


class _Lost:
    """Says of each watch that has no relay to ask why, and again only where that changes."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def tell(self, lacks: Mapping[str, str]) -> None:
        for name, why in sorted(lacks.items()):
            if self.told.get(name) != why:
                say(f"{name}: {why or GIVE_ONE}")
        self.told.update(lacks)


def _refuse_without_relays(watches: Sequence[Watch], asked: _Asked) -> None:
    """Raise InvalidInput where no watch can ever be asked; an indexer may know relays later."""
    if watches and not (asked.relays or asked.how["indexers"] or any(w.relays for w in watches)):
        _Lost().tell(dict.fromkeys((made.name for made in watches), ""))
        raise InvalidInput("no relay to ask")


def _tell(name: str, result: CountResult, as_json: bool) -> None:
    if as_json:
        print_json({"watch": name} | result.to_dict())
        return
    from nostr_client.cli.count_table import merged_line

    click.echo(f"{series.moment(time.time())}  {name}  {merged_line(result)}")


def unknown(name: str) -> InvalidInput:
    return InvalidInput(f"there is no watch named {name!r}")
