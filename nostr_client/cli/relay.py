"""`nostr-client relay`: what a relay says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.entry import run_async
from nostr_client.cli.output import cell, console, json_option, plain_table, print_json
from nostr_client.cli.relay_check import check
from nostr_client.cli.relays import network_options, timeout_option

if TYPE_CHECKING:
    from nostr_client.codecs.nip11 import RelayInfo
    from nostr_client.options import Options


@click.group()
def relay() -> None:
    """Look at single relays."""


relay.add_command(check)


@relay.command()
@click.argument("url")
@timeout_option
@network_options()
@json_option
def info(url: str, timeout: float, network: Options, as_json: bool) -> None:
    """Show the relay's own description (NIP-11). What it says about itself is a claim, too."""
    import msgspec

    told = msgspec.to_builtins(run_async(_info(url, timeout, network)))
    if as_json:
        print_json(told)
    else:
        _show(told)


async def _info(url: str, seconds: float, options: Options) -> RelayInfo:
    from nostr_client.client import NostrClient

    async with NostrClient(timeout=seconds, options=options) as client:
        return await client.relay_info(url)


def _show(told: dict[str, Any]) -> None:
    from rich.text import Text

    from nostr_client.errors import clip

    table = plain_table(header=False)
    limits = told.pop("limitation")
    rows = told | {name: value for name, value in limits.items() if value is not None}
    for name, value in rows.items():
        if value not in ("", None):
            listed = isinstance(value, (list, tuple))
            shown = (", ".join(map(str, value)) or "-") if listed else cell(value)
            table.add_row(Text(name, style="bold"), Text(clip(shown)))
    console().print(table)
