"""`nostr-client count`: one number from many relays, and what each of them said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nostr_client.cli.output import json_option, print_json, say, waiting
from nostr_client.cli.relays import chosen_relays, outcome_code, relay_option, timeout_option
from nostr_client.cli.runner import run_async
from nostr_client.cli.secretkey import key_file_option, optional_signer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.client import NostrClient
    from nostr_client.count import Query
    from nostr_client.count.result import CountResult

NAMES = (
    "followers",
    "reactions",
    "reposts",
    "quotes",
    "replies",
    "comments",
    "replies+comments",
    "zaps",
)


@click.command()
@click.argument("what", metavar="[WHAT]", type=click.Choice(NAMES), required=False)
@click.argument("target", required=False)
@click.option("--filter", "filters", metavar="JSON", multiple=True, help="A filter; more are OR'd.")
@relay_option
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
    "--trust",
    type=click.Choice(["exclude", "flag", "off"]),
    default="exclude",
    show_default=True,
    help="What to do about claims that cannot be true.",
)
@click.option("--trusted", metavar="URL", multiple=True, help="Believe this relay in any case.")
@key_file_option
@json_option
@click.pass_context
def count(
    ctx: click.Context,
    what: str | None,
    target: str | None,
    filters: tuple[str, ...],
    relays: tuple[str, ...],
    timeout: float,
    read: bool,
    max_bytes: int,
    max_events: int,
    trust: str,
    trusted: tuple[str, ...],
    key_file: str | None,
    as_json: bool,
) -> None:
    """Count WHAT about TARGET over all relays, or whatever --filter matches.

    WHAT is followers, reactions, reposts, quotes, replies, comments, replies+comments or zaps;
    TARGET is an npub,
    nprofile, note, nevent, naddr or hex.

    Each relay is asked by COUNT (NIP-45). Relays that give no HLL registers are read by events,
    up to --max-bytes and --max-events each; what was read stands beside each relay. --no-read
    turns that off.
    """
    query = _query(what, target, filters)
    urls = chosen_relays(relays)
    client = _client(timeout, read, max_bytes, max_events, trust, trusted, key_file)
    result = run_async(_count(client, query, urls))
    if as_json:
        print_json(result.to_dict())
    else:
        from nostr_client.cli.count_table import show

        show(result)
    code = outcome_code([claim.status for claim in result.relays])
    if code:
        say("nostr-client: count: no relay answered")
    ctx.exit(code)


def _query(what: str | None, target: str | None, filters: Sequence[str]) -> Query:
    from nostr_client import count as counting
    from nostr_client.filters import Filter

    if filters and what is not None:
        raise click.UsageError("give WHAT and TARGET, or --filter, not both")
    if filters:
        return counting.query([Filter.from_json(text) for text in filters])
    if what is None or target is None:
        raise click.UsageError("say what to count: WHAT and TARGET, or --filter JSON")
    return counting.CANONICAL[what](target)


def _client(
    timeout: float,
    read: bool,
    max_bytes: int,
    max_events: int,
    trust: str,
    trusted: Sequence[str],
    key_file: str | None,
) -> NostrClient:
    from nostr_client.client import NostrClient
    from nostr_client.merge import TrustPolicy
    from nostr_client.options import ReadBudget

    return NostrClient(
        timeout=timeout,
        read=read,
        budget=ReadBudget(bytes=max_bytes, events=max_events),
        trust=TrustPolicy(trust),
        trusted=trusted,
        signer=optional_signer(key_file),
    )


async def _count(client: NostrClient, query: Query, urls: Sequence[str]) -> CountResult:
    async with client:
        with waiting(f"asking {len(urls)} relay{'s' * (len(urls) != 1)}…"):
            return await client.count(query, relays=urls)
