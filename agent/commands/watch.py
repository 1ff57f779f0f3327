"""`nostr-agent watch …`: the watches of the running agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from agent.commands import tables
from agent.commands.connect import agent_options, asked, show
from agent.specs import QueryName, WatchSpec
from nostr_client.cli.output import json_option
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api import schema


@click.group()
def watch() -> None:
    """List, add, change and remove watches; see their numbers and what these are made of."""


@watch.command("list")
@agent_options
@json_option
def list_(api: str | None, token_file: Path | None, as_json: bool) -> None:
    """All watches with their numbers."""
    show(asked(api, token_file, lambda c: c.watches()), as_json, tables.watches)


@watch.command("show")
@click.argument("name")
@agent_options
@json_option
def show_(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """One watch: its number, and what each relay said."""
    show(asked(api, token_file, lambda c: c.explain(name)), as_json, tables.counted)


def _spec_options(command: Any) -> Any:
    for option in (
        click.option("--query", type=click.Choice(get_args(QueryName)), help="What is counted."),
        click.option("--target", default="", help="npub, nevent, naddr or hex."),
        click.option("--filter", "filters", multiple=True, metavar="JSON", help="A filter."),
        click.option("--relay", "-r", "relays", multiple=True, metavar="URL"),
        click.option("--exclude", "excluded", multiple=True, metavar="URL", help="Left out."),
        click.option("--trust", "trusted", multiple=True, metavar="URL", help="Always believed."),
        click.option("--interval", default="30m", show_default=True),
        click.option("--live/--no-live", default=True, help="Listen for new events too."),
        click.option("--alert", "alerts", multiple=True, metavar="JSON", help="An alert."),
    ):
        command = option(command)
    return command


@watch.command()
@click.argument("name")
@_spec_options
@agent_options
@json_option
def add(name: str, api: str | None, token_file: Path | None, as_json: bool, **given: Any) -> None:
    """Add a watch; it is kept in the store."""
    spec = _spec(name, given)
    show(asked(api, token_file, lambda c: c.add_watch(spec)), as_json, _one)


@watch.command()
@click.argument("name")
@_spec_options
@agent_options
@json_option
def change(
    name: str, api: str | None, token_file: Path | None, as_json: bool, **given: Any
) -> None:
    """Replace a watch by this one."""
    spec = _spec(name, given)
    show(asked(api, token_file, lambda c: c.change_watch(spec)), as_json, _one)


@watch.command("rm")
@click.argument("name")
@agent_options
@json_option
def remove(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """Remove a watch and its history."""
    done = asked(api, token_file, lambda c: c.remove_watch(name))
    show(done, as_json, lambda _: click.echo(f"removed {name}"))


@watch.command()
@click.argument("name")
@agent_options
@json_option
def count(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """Ask every relay of a watch again, now."""
    done = asked(api, token_file, lambda c: c.recount(name))
    show(done, as_json, lambda _: click.echo(f"asking the relays of {name}"))


@watch.command()
@click.argument("name")
@click.option("--since", type=float, default=0.0, help="Unix seconds.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True)
@agent_options
@json_option
def history(
    name: str, since: float, limit: int, api: str | None, token_file: Path | None, as_json: bool
) -> None:
    """The numbers of a watch over time."""
    found = asked(api, token_file, lambda c: c.history(name, since=since, limit=limit))
    show(found, as_json, tables.history)


def _spec(name: str, given: dict[str, Any]) -> WatchSpec:
    values = {
        "name": name,
        **given,
        "filters": [_json(text) for text in given["filters"]],
        "alerts": [_json(text) for text in given["alerts"]],
    }
    try:
        return msgspec.convert(values, WatchSpec)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"no JSON: {error}") from error


def _one(found: schema.Watch) -> None:
    value, bounds = tables.figure(found.figure)
    click.echo(f"{found.spec.name}: {value} {bounds}".rstrip())
