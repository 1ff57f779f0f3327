"""`nostr-client sync add`, `list`, `show`, `remove` and `cancel`: the syncs of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.entry import run_async
from nostr_client.cli.filteroptions import Conditions, filter_options
from nostr_client.cli.output import json_option, print_done, print_json, print_table
from nostr_client.cli.parameters import Duration
from nostr_client.cli.place import StoreOrAgent, place_option, the_agent
from nostr_client.cli.questions import interval_option, moving_options, window_option
from nostr_client.cli.relays import relay_option
from nostr_client.codecs.display import duration, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@click.command()
@click.argument("name")
@filter_options
@relay_option
@moving_options
@interval_option
@click.option(
    "--last",
    type=Duration(),
    metavar="DURATION",
    help="Include only this period, such as 30d.",
)
@window_option
@place_option
@json_option
def add(
    conditions: Conditions,
    interval: float | None,
    last: float | None,
    place: StoreOrAgent,
    as_json: bool,
    **given: Any,
) -> None:
    """Add a sync called NAME to the agent, which runs it again and again."""
    spec = given | {"filters": [one.to_dict() for one in conditions.chosen()]}
    for name, value in (("interval", interval), ("since", last)):
        if value is not None:
            spec[name] = duration(value)
    found = run_async(_add(place, spec))
    if as_json:
        print_json(found)
    else:
        print_syncs([found])


@click.command("list")
@place_option
@json_option
def list_(place: StoreOrAgent, as_json: bool) -> None:
    """List the syncs of the agent, each with its newest run."""
    found = run_async(_list(place))
    if as_json:
        print_json(found)
    else:
        print_syncs(found)


@click.command()
@click.argument("name")
@place_option
@json_option
def show(name: str, place: StoreOrAgent, as_json: bool) -> None:
    """Show a sync of the agent, and its newest run relay by relay."""
    found = run_async(_show(place, name))
    if as_json:
        print_json(found)
    else:
        print_syncs([found])


@click.command()
@click.argument("name")
@place_option
@json_option
def remove(name: str, place: StoreOrAgent, as_json: bool) -> None:
    """Remove a sync of the agent; the events stay."""
    run_async(_remove(place, name))
    print_done(f"removed {name}", as_json=as_json)


@click.command()
@click.argument("name")
@place_option
@json_option
def cancel(name: str, place: StoreOrAgent, as_json: bool) -> None:
    """Stop a running sync of the agent; stored events stay."""
    run_async(_cancel(place, name))
    print_done(f"cancelled {name}", as_json=as_json)


async def _add(place: StoreOrAgent, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    async with the_agent(place) as agent:
        return await agent.add_sync(spec)


async def _list(place: StoreOrAgent) -> list[Mapping[str, Any]]:
    async with the_agent(place) as agent:
        return await agent.syncs()


async def _show(place: StoreOrAgent, name: str) -> Mapping[str, Any]:
    async with the_agent(place) as agent:
        return await agent.sync(name)


async def _remove(place: StoreOrAgent, name: str) -> None:
    async with the_agent(place) as agent:
        await agent.remove_sync(name)


async def _cancel(place: StoreOrAgent, name: str) -> None:
    async with the_agent(place) as agent:
        await agent.cancel_sync(name)


async def run_kept(place: StoreOrAgent, name: str) -> Mapping[str, Any]:
    """Run a sync of the agent now; return the sync with its result."""
    async with the_agent(place) as agent:
        return await agent.run_sync(name)


def print_syncs(found: Sequence[Mapping[str, Any]]) -> None:
    """Print syncs of an agent with their newest runs."""
    rows: list[Iterable[object]] = []
    for one in found:
        state = "running" if one["running"] else one["outcome"] or "never ran"
        ended = "" if one["ended_at"] is None else f"{moment(one['ended_at'])} UTC"
        rows.append((one["spec"]["name"], state, "", "", "", "", ended))
        rows += [
            (
                "", r["status"], r["relay"], f"{r['need']}/{r['have']}", r["downloaded"],
                r["uploaded"], r["reason"],
            )
            for r in one["relays"]
        ]  # fmt: skip
    print_table(("name", "state", "relay", "need/have", "down", "up", "when / why"), rows)
