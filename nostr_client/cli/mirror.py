"""`nostr-client mirror`: two relays brought to the same events, without a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.output import console, json_option, print_json
from nostr_client.cli.relays import network, proxy_option
from nostr_client.cli.runner import run_async
from nostr_client.cli.secretkey import key_file_option, optional_signer
from nostr_client.cli.sync import filters_of, sharing_options, show, sync_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.client import NostrClient
    from nostr_client.filters import Filter
    from nostr_client.sync.report import SyncReport


@click.command()
@click.argument("first", metavar="RELAY_A")
@click.argument("second", metavar="RELAY_B")
@click.option(
    "--filter",
    "filters",
    metavar="JSON",
    multiple=True,
    help="A filter, without `limit`; more are OR'd.",
)
@click.option(
    "--direction",
    type=click.Choice(["down", "up", "both"]),
    default="down",
    show_default=True,
    help="From RELAY_A to RELAY_B, the other way, or both.",
)
@sharing_options
@click.option("--dry-run", is_flag=True, help="Compare only.")
@key_file_option
@proxy_option
@json_option
@click.pass_context
def mirror(
    ctx: click.Context,
    first: str,
    second: str,
    filters: tuple[str, ...],
    direction: str,
    include_private: bool,
    include_others: bool,
    dry_run: bool,
    key_file: str | None,
    proxy: str | None,
    as_json: bool,
) -> None:
    """Copy what RELAY_B lacks from RELAY_A; --direction up the other way, or both.

    Your own public events are copied, by the key that is given, and what a filter names: its
    kinds, and for others' events its authors. --include-others copies everybody's.

    They are compared with each other by negentropy (NIP-77), and only what differs passes through
    here. A relay without NIP-77 is read by REQ. Exit codes as for sync.
    """
    from nostr_client.client import NostrClient

    asked = filters_of(filters or ("{}",))
    client = NostrClient(signer=optional_signer(key_file), options=network(proxy))
    told = {
        "direction": direction,
        "dry_run": dry_run,
        "include_private": include_private,
        "include_others": include_others,
    }
    report = run_async(_mirror(client, asked, (first, second), not as_json, told))
    if as_json:
        print_json(report.to_dict())
    else:
        show(report, False)
    ctx.exit(sync_code(report))


async def _mirror(
    client: NostrClient,
    asked: Sequence[Filter],
    relays: tuple[str, str],
    bars: bool,
    told: dict[str, Any],
) -> SyncReport:
    from nostr_client.cli.syncbars import SyncBars

    async with client:
        with SyncBars(console(stderr=True), shown=bars) as shown:
            return await client.mirror(asked, *relays, on_progress=shown.update, **told)
