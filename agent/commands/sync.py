"""`nostr-agent sync …`: the syncs of the running agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import msgspec

from agent.api.schema import Syncs
from agent.commands import tables
from agent.commands.connect import agent_options, asked, show
from agent.specs import SyncSpec
from nostr_client.cli.output import json_option
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def sync() -> None:
    """List, add, run, cancel and remove syncs."""


@sync.command("list")
@agent_options
@json_option
def list_(api: str | None, token_file: Path | None, as_json: bool) -> None:
    """All syncs with their newest run."""
    show(asked(api, token_file, lambda c: c.syncs()), as_json, tables.syncs)


@sync.command("show")
@click.argument("name")
@agent_options
@json_option
def show_(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """One sync: its newest run, relay by relay."""
    found = asked(api, token_file, lambda c: c.sync(name))
    show(found, as_json, lambda one: tables.syncs(Syncs(syncs=(one,))))


@sync.command()
@click.argument("name")
@click.option("--filter", "filters", multiple=True, required=True, metavar="JSON")
@click.option("--relay", "-r", "relays", multiple=True, metavar="URL")
@click.option("--direction", type=click.Choice(["down", "up", "both"]), default="down")
@click.option("--interval", default="1h", show_default=True)
@click.option("--since", help="Only events of this last time, as 30d.")
@click.option("--window", type=int, default=25_000, show_default=True)
@agent_options
@json_option
def add(name: str, api: str | None, token_file: Path | None, as_json: bool, **given: Any) -> None:
    """Add a sync; it is kept in the store."""
    try:
        values = {"name": name, **given, "filters": [json.loads(t) for t in given["filters"]]}
        spec = msgspec.convert(values, SyncSpec)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(str(error)) from error
    found = asked(api, token_file, lambda c: c.add_sync(spec))
    show(found, as_json, lambda one: click.echo(f"added {one.spec.name}"))


@sync.command("rm")
@click.argument("name")
@agent_options
@json_option
def remove(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """Remove a sync; the events stay."""
    done = asked(api, token_file, lambda c: c.remove_sync(name))
    show(done, as_json, lambda _: click.echo(f"removed {name}"))


@sync.command()
@click.argument("name")
@agent_options
@json_option
def run(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """Run a sync now."""
    done = asked(api, token_file, lambda c: c.run_sync(name))
    show(done, as_json, lambda _: click.echo(f"running {name}"))


@sync.command()
@click.argument("name")
@agent_options
@json_option
def cancel(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """Stop a sync that runs; what was stored stays."""
    done = asked(api, token_file, lambda c: c.cancel_sync(name))
    show(done, as_json, lambda _: click.echo(f"cancelled {name}"))
