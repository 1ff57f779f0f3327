"""Show the newest coverages that an agent keeps: `nostr-client coverage` without an author."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nostr_client.cli.entry import NO_RELAY, OK, run_async
from nostr_client.cli.output import console, plain_table, print_json, say
from nostr_client.cli.place import agent_at
from nostr_client.codecs.display import moment, percent, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nostr_client.cli.place import StoreOrAgent
    from nostr_client.sync.coverage_report import CoverageRun, RelayCoverage


def show_kept(place: StoreOrAgent, *, as_json: bool) -> int:
    """Print the newest run of each coverage of a store, or of the agent at `--api`; return the exit
    code."""
    found = run_async(_kept(place))
    if as_json:
        import msgspec

        print_json([{"name": name} | msgspec.to_builtins(run) for name, run in found.items()])
    else:
        for name, run in found.items():
            _show(name, run)
        if not found:
            say("no coverage yet: an agent keeps those of its configuration ([[coverage]])")
    compared = any(one.compared for run in found.values() for one in run.relays)
    return OK if compared or not found else NO_RELAY


async def _kept(place: StoreOrAgent) -> Mapping[str, CoverageRun]:
    async with agent_at(place, holds=False) as agent:
        if agent is not None:
            return await agent.coverages()
    return await _stored(place)


async def _stored(place: StoreOrAgent) -> Mapping[str, CoverageRun]:
    """Read a store's file, also beside the agent that writes it."""
    from nostr_client.errors import SchemaTooOld
    from nostr_client.store.file.database import Database
    from nostr_client.sync.coverage.history import COVERAGES, last

    try:
        database = await Database.open(place.there, read_only=True, migrations=[COVERAGES])
    except SchemaTooOld:  # no agent of this version has opened it
        return {}
    async with database:
        return await database.read(last)


def _show(name: str, run: CoverageRun) -> None:
    from rich.text import Text

    from nostr_client.errors import clip

    table = plain_table("relay", *(f"kind {one.kind}" for one in run.kinds), "of all")
    for relay in run.relays:
        cells = [in_cell(one.held, whole=one.whole) for one in relay.kinds]
        table.add_row(Text(clip(relay.relay)), *cells, part_of_all(relay.share))
    stored = [one.stored for one in run.kinds if one.stored is not None]
    if stored:
        table.add_row(Text("store"), *map(str, stored), "")
    table.add_row(Text("known"), *(str(one.known) for one in run.kinds), "")
    click.echo(f"{name}, compared {moment(run.at)}")
    console().print(table)
    say_what_is_known(run.known, run.protected, run.expired)
    if stored:
        say_what_the_store_lacks(run.known - sum(stored))
    for relay in run.relays:
        _remark(relay)
        if run.known and relay.compared and relay.share is None:
            what = "what it should have is not known, as after a request to vanish"
            say(f"{clip(relay.relay)}: {what}")
    for one in run.repaired or ():
        say(f"{clip(one.relay)} took {one.taken} of {plural(one.planned, 'missing event')}")


def in_cell(held: int, *, whole: bool) -> str:
    """Return how many events a relay has; `?` marks a lower bound, and stands alone for none."""
    return str(held) if whole else f"{held}?" if held else "?"


def part_of_all(share: float | None) -> str:
    """Return a share in per cent; `?` if it is not known."""
    return "?" if share is None else percent(share)


def say_what_is_known(known: int, protected: int, expired: int) -> None:
    """Print that no event is known, and how many of those that are known no repair moves."""
    if not known:
        say("no event is known, so no relay's share is known")
    if protected:
        say(f"{plural(protected, 'event')} protected by the author (NIP-70): not moved")
    if expired:
        say(f"{plural(expired, 'event')} expired (NIP-40): not moved")


def say_what_the_store_lacks(lacking: int) -> None:
    """Print that a repair does not fill the store, and what does."""
    if lacking > 0:
        what = f"the store lacks {plural(lacking, 'event')}, and a repair does not fill it"
        say(f"{what}: run `nostr-client sync run --direction down` with a filter for this author")


def _remark(relay: RelayCoverage) -> None:
    from nostr_client.errors import clip

    if relay.undeleted:
        say(f"{clip(relay.relay)} serves {plural(relay.undeleted, 'deleted event')}")
    if relay.unconfirmed:
        alone = plural(relay.unconfirmed, "event")
        say(f"{clip(relay.relay)} names {alone} that nothing confirms: not counted")
    if relay.why:
        say(f"{clip(relay.relay)} was not read to the end: {clip(relay.why)}")
