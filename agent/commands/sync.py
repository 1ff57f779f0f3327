"""`nostr-agent sync …`: the syncs of the running agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent.api.schema import Syncs
from agent.commands import tables
from agent.commands.connect import asks
from agent.commands.given import json_of, spec_of
from agent.specs import SyncSpec
from nostr_client.cli.sync import sharing_options

if TYPE_CHECKING:
    from agent.api.schema import Sync
    from agent.commands.connect import Ask


@click.group()
def sync() -> None:
    """List, add, run, cancel and remove syncs."""


def _tell_one(found: Sync) -> None:
    tables.syncs(Syncs(syncs=(found,)))


@sync.command("list")
@asks(tables.syncs)
def list_() -> Ask:
    """All syncs with their newest run."""
    return lambda c: c.syncs()


@sync.command("show")
@click.argument("name")
@asks(_tell_one)
def show_(name: str) -> Ask:
    """One sync: its newest run, relay by relay."""
    return lambda c: c.sync(name)


@sync.command()
@click.argument("name")
@click.option("--filter", "filters", multiple=True, required=True, metavar="JSON", help="A filter.")
@click.option("--relay", "-r", "relays", multiple=True, metavar="URL", help="A relay.")
@click.option(
    "--direction", type=click.Choice(["down", "up", "both"]), default="down", show_default=True,
    help="Into the store, to the relays, or both.",
)  # fmt: skip
@sharing_options
@click.option("--interval", default="1h", show_default=True, help="As 30m or 6h; 10s at least.")
@click.option("--since", help="Only events of this last time, as 30d.")
@click.option("--window", type=int, default=25_000, show_default=True, help="Events at once.")
@asks("added {name}")
def add(filters: tuple[str, ...], **given: Any) -> Ask:
    """Add a sync; it is kept in the store."""
    spec = spec_of(SyncSpec, given | {"filters": json_of(filters)})
    return lambda c: c.add_sync(spec)


@sync.command("rm")
@click.argument("name")
@asks("removed {name}")
def remove(name: str) -> Ask:
    """Remove a sync; the events stay."""
    return lambda c: c.remove_sync(name)


@sync.command()
@click.argument("name")
@asks("running {name}")
def run(name: str) -> Ask:
    """Run a sync now."""
    return lambda c: c.run_sync(name)


@sync.command()
@click.argument("name")
@asks("cancelled {name}")
def cancel(name: str) -> Ask:
    """Stop a sync that runs; what was stored stays."""
    return lambda c: c.cancel_sync(name)
