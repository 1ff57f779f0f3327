"""`nostr-client mirror`: two relays brought to the same events, without a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.entry import run_async
from nostr_client.cli.key import key_file_option, optional_signer
from nostr_client.cli.output import console, json_option, print_json
from nostr_client.cli.parameters import UserPath
from nostr_client.cli.relays import network_options
from nostr_client.cli.sync import filters_of, moving_options, show, sync_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.client import NostrClient
    from nostr_client.codecs.filters import Filter
    from nostr_client.options import Options
    from nostr_client.sync.report import SyncReport


@click.command()
@click.argument("first", metavar="RELAY_A")
@click.argument("second", metavar="RELAY_B")
@moving_options("From RELAY_A to RELAY_B, the other way, or both.")
@click.option(
    "--store",
    "path",
    metavar="PATH",
    type=UserPath(path_type=Path, dir_okay=False),
    help="Remember in this store what was refused or withheld; by default nothing is remembered.",
)
@key_file_option
@network_options()
@json_option
@click.pass_context
def mirror(
    ctx: click.Context,
    /,
    first: str,
    second: str,
    filters: tuple[str, ...],
    path: Path | None,
    key_file: str | None,
    network: Options,
    as_json: bool,
    **moving: Any,
) -> None:
    """Copy what RELAY_B lacks from RELAY_A; --direction up the other way, or both.

    Your own public events are copied, by the key that is given, and what a filter names: its
    kinds, and for others' events its authors. --include-others copies everybody's.

    They are compared with each other by negentropy (NIP-77), and only what differs passes through
    here. A relay without NIP-77 is read by REQ, and so is what a relay leaves out. Exit codes as
    for sync.
    """
    from nostr_client.client import NostrClient

    asked = filters_of(filters or ("{}",))
    client = NostrClient(store=path, signer=optional_signer(key_file), options=network)
    report = run_async(_mirror(client, asked, (first, second), not as_json, moving))
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
    moving: dict[str, Any],
) -> SyncReport:
    from nostr_client.cli.sync import SyncBars

    async with client:
        with SyncBars(console(stderr=True), shown=bars) as shown:
            return await client.mirror(asked, *relays, on_progress=shown.update, **moving)
