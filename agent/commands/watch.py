"""`nostr-agent watch …`: the watches of the running agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from agent.commands import tables
from agent.commands.connect import asks
from agent.commands.given import json_of, spec_of
from nostr_client.watch.definition import QueryName, Watch

if TYPE_CHECKING:
    from agent.api import schema
    from agent.commands.connect import Ask


@click.group()
def watch() -> None:
    """List, add, change and remove watches; see their numbers and what these are made of."""


def _spec_options(command: Any) -> Any:
    for option in (
        click.option("--query", type=click.Choice(get_args(QueryName)), help="What is counted."),
        click.option("--target", default="", help="npub, nevent, naddr or hex."),
        click.option("--filter", "filters", multiple=True, metavar="JSON", help="A filter."),
        click.option("--relay", "-r", "relays", multiple=True, metavar="URL", help="A relay."),
        click.option("--exclude", "excluded", multiple=True, metavar="URL", help="Left out."),
        click.option("--trust", "trusted", multiple=True, metavar="URL", help="Always believed."),
        click.option("--interval", default="30m", show_default=True, help="6h, say; 10s at least."),
        click.option("--live/--no-live", default=True, help="Listen for new events too."),
        click.option("--keep", is_flag=True, help="Keep in the store what is heard live."),
        click.option("--alert", "alerts", multiple=True, metavar="JSON", help="An alert."),
    ):
        command = option(command)
    return click.argument("name")(command)


def _spec(given: dict[str, Any]) -> Watch:
    read = {key: json_of(given[key]) for key in ("filters", "alerts")}
    return spec_of(Watch, given | read)


def _tell_one(found: schema.WatchState) -> None:
    value, bounds = tables.figure(found.figure)
    click.echo(f"{found.spec.name}: {value} {bounds}".rstrip())


@watch.command("list")
@asks(tables.watches)
def list_() -> Ask:
    """All watches with their numbers."""
    return lambda c: c.watches()


@watch.command("show")
@click.argument("name")
@asks(tables.counted)
def show_(name: str) -> Ask:
    """One watch: its number, and what each relay said."""
    return lambda c: c.explain(name)


watch.add_command(show_, "explain")


@watch.command()
@_spec_options
@asks(_tell_one)
def add(**given: Any) -> Ask:
    """Add a watch; it is kept in the store."""
    spec = _spec(given)
    return lambda c: c.add_watch(spec)


@watch.command()
@_spec_options
@asks(_tell_one)
def change(**given: Any) -> Ask:
    """Replace a watch by this one."""
    spec = _spec(given)
    return lambda c: c.change_watch(spec.name, spec)


@watch.command("rm")
@click.argument("name")
@asks("removed {name}")
def remove(name: str) -> Ask:
    """Remove a watch and its history."""
    return lambda c: c.remove_watch(name)


@watch.command()
@click.argument("name")
@asks("asking the relays of {name}")
def count(name: str) -> Ask:
    """Ask every relay of a watch again, now."""
    return lambda c: c.recount(name)


@watch.command()
@click.argument("name")
@click.option("--since", type=float, default=0.0, help="Unix seconds.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Rows."
)
@asks(tables.history)
def history(name: str, since: float, limit: int) -> Ask:
    """The numbers of a watch over time."""
    return lambda c: c.history(name, since=since, limit=limit)
