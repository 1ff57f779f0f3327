"""`nostr-client relay`: a relay's description of itself, a test of it, and an agent's relays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.entry import CommandGroup, run_async
from nostr_client.cli.output import (
    cell,
    console,
    json_option,
    plain_table,
    print_json,
    print_table,
)
from nostr_client.cli.place import StoreOrAgent, place_option, the_agent
from nostr_client.cli.relay.check import check
from nostr_client.cli.relay.rank import rank_relays
from nostr_client.cli.relays import network_options, timeout_option
from nostr_client.codecs.display import whole_percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nostr_client.codecs.nip11 import RelayInfo
    from nostr_client.options import Options


@click.group(cls=CommandGroup)
def relay() -> None:
    """Show a relay's description of itself, test it, rank relays, and list those of an agent."""


relay.add_command(check)
relay.add_command(rank_relays)


@relay.command()
@click.argument("url")
@timeout_option
@network_options()
@json_option
def show(url: str, timeout: float, network: Options, as_json: bool) -> None:
    """Show the relay's own description (NIP-11). It is a claim, too."""
    import msgspec

    document = msgspec.to_builtins(run_async(_info(url, timeout, network)))
    if as_json:
        print_json(document)
    else:
        _show(document)


@relay.command("list")
@place_option
@json_option
def list_(place: StoreOrAgent, as_json: bool) -> None:
    """List every relay of the agent: connection, latency, abilities, tasks."""
    found = run_async(_relays(place))
    if as_json:
        print_json(found)
        return
    columns = ("relay", "status", "latency", "up", "can", "tasks", "failing", "last error")
    print_table(columns, map(_row, found))


async def _relays(place: StoreOrAgent) -> list[Mapping[str, Any]]:
    async with the_agent(place) as agent:
        return await agent.relays()


def _row(one: Mapping[str, Any]) -> Iterable[object]:
    can = [name for name in ("count", "hll", "negentropy", "auth") if one["capabilities"][name]]
    latency = None if one["latency_ms"] is None else f"{one['latency_ms']:.0f} ms"
    rate = whole_percent(one["success_rate"]) if one["attempts"] else ""
    cells = (one["url"], one["status"], latency, rate, " ".join(can))
    return *cells, one["tasks"], one["failing"], one["last_error"]


async def _info(url: str, seconds: float, options: Options) -> RelayInfo:
    from nostr_client.client import NostrClient

    async with NostrClient(timeout=seconds, options=options) as client:
        return await client.relay_info(url)


def _show(document: dict[str, Any]) -> None:
    from rich.text import Text

    from nostr_client.errors import clip

    table = plain_table(header=False)
    limits = document.pop("limitation")
    rows = document | {name: value for name, value in limits.items() if value is not None}
    for name, value in rows.items():
        if value not in ("", None):
            listed = isinstance(value, (list, tuple))
            shown = (", ".join(map(str, value)) or "-") if listed else cell(value)
            table.add_row(Text(name, style="bold"), Text(clip(shown)))
    console().print(table)
