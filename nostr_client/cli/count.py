"""`nostr-client count`: one number from many relays, and what each of them said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.output import json_option, print_json, say, waiting
from nostr_client.cli.paths import UserPath
from nostr_client.cli.questions import (
    NAMES,
    asked_query,
    deny_option,
    filter_option,
    indexer_option,
    keep_option,
    most_option,
    relay_choice,
    trust_option,
    trusted_option,
)
from nostr_client.cli.relays import (
    chosen_relays,
    network_options,
    outcome_code,
    relay_option,
    timeout_option,
)
from nostr_client.cli.runner import run_async
from nostr_client.cli.secretkey import key_file_option, optional_signer
from nostr_client.display import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.client import NostrClient
    from nostr_client.count import Query
    from nostr_client.count.result import CountResult
    from nostr_client.options import Options


@click.command()
@click.argument("what", metavar="[WHAT]", type=click.Choice(NAMES), required=False)
@click.argument("target", required=False)
@filter_option
@relay_option
@indexer_option
@deny_option
@most_option
@timeout_option
@click.option("--read/--no-read", default=True, help="Read the events of relays without HLL.")
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=32 * 2**20,
    show_default=True,
    help="Read so much from one relay; what is beyond makes the number a lower bound.",
)
@click.option(
    "--max-events",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Read so many events from one relay.",
)
@click.option(
    "--by-content",
    is_flag=True,
    help="Read the events everywhere, and split reactions into likes, dislikes and emoji, replies "
    "into direct ones and those below.",
)
@click.option(
    "--verify-zaps",
    is_flag=True,
    help="Ask the wallets of those who got zaps by which key they sign receipts: their hosts learn "
    "that you count.",
)
@trust_option
@trusted_option
@click.option(
    "--store",
    metavar="PATH",
    type=UserPath(dir_okay=False),
    help="Keep what relays say in this store; the next count reads only what is new.",
)
@keep_option
@key_file_option
@network_options(strangers=True)
@json_option
@click.pass_context
def count(
    ctx: click.Context,
    /,
    what: str | None,
    target: str | None,
    filters: tuple[str, ...],
    relays: tuple[str, ...],
    indexers: tuple[str, ...],
    by_content: bool,
    verify_zaps: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Count WHAT about TARGET over all relays, or whatever --filter matches.

    WHAT is followers, reactions, reposts, quotes, replies, comments, replies+comments or zaps;
    TARGET is an npub, nprofile, note, nevent, naddr or hex.

    Each relay is asked by COUNT (NIP-45). Relays that give no HLL registers are read by events,
    up to --max-bytes and --max-events each; what was read stands beside each relay. --no-read
    turns that off.
    """
    if by_content and (what not in ("reactions", "replies") or not how["read"]):
        raise click.UsageError("--by-content goes with reactions and replies, which it reads")
    if verify_zaps and (what != "zaps" or not how["read"]):
        raise click.UsageError("--verify-zaps goes with zaps, whose receipts it reads")
    query = asked_query(what, target, filters)
    if by_content:
        from msgspec.structs import replace

        query = replace(query, by_content=True)
    urls = None if indexers and not relays else chosen_relays(relays)
    result = run_async(_count(_client(indexers, **how), query, urls, verify_zaps))
    if as_json:
        print_json(result.to_dict())
    else:
        from nostr_client.cli.count_table import show

        show(result)
    code = outcome_code([claim.status for claim in result.relays])
    if code:
        say("nostr-client: count: no relay answered")
    ctx.exit(code)


def _client(
    indexers: Sequence[str],
    *,
    denied: Sequence[str],
    most: int,
    timeout: float,
    read: bool,
    max_bytes: int,
    max_events: int,
    trust: str,
    trusted: Sequence[str],
    store: str | None,
    keep_events: bool,
    key_file: str | None,
    network: Options,
) -> NostrClient:
    from nostr_client.client import NostrClient
    from nostr_client.merge import TrustPolicy
    from nostr_client.options import ReadBudget

    if keep_events and store is None:
        raise click.UsageError("--keep-events needs --store PATH")
    return NostrClient(
        options=network,
        timeout=timeout,
        read=read,
        budget=ReadBudget(bytes=max_bytes, events=max_events),
        trust=TrustPolicy(trust),
        trusted=trusted,
        store=store,
        keep_events=keep_events,
        choice=relay_choice(indexers, denied, most),
        signer=optional_signer(key_file),
    )


async def _count(
    client: NostrClient, query: Query, urls: Sequence[str] | None, verify_zaps: bool
) -> CountResult:
    whom = "the target's relays" if urls is None else plural(len(urls), "relay")
    async with client:
        with waiting(f"asking {whom}…"):
            return await client.count(query, relays=urls, verify_zaps=verify_zaps)
