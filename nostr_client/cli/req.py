"""`nostr-client req`: print events of many relays as JSON lines, verified, each once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from nostr_client.cli.entry import run_async
from nostr_client.cli.filteroptions import Conditions, limited_filter_options
from nostr_client.cli.key import key_file_option, optional_signer
from nostr_client.cli.names import conditions_with_keys
from nostr_client.cli.output import follow_option, say
from nostr_client.cli.relays import (
    chosen_relays,
    network_options,
    outcome_code,
    relay_option,
    timeout_option,
)
from nostr_client.codecs.display import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.client import NostrClient
    from nostr_client.codecs.filters import Filter
    from nostr_client.network.event_queue import SubscriptionSource
    from nostr_client.options import Options


@click.command()
@limited_filter_options
@relay_option
@timeout_option
@follow_option
@click.option(
    "--paginate",
    is_flag=True,
    help="Read every relay to its end, page by page.",
)
@key_file_option
@network_options()
def req(
    relays: tuple[str, ...],
    timeout: float,
    follow: bool,
    paginate: bool,
    key_file: str | None,
    network: Options,
    conditions: Conditions,
) -> None:
    """Print the events that match, one JSON object a line.

    Every event is verified and printed once, even if several relays have it. Without --follow the
    command ends when every relay has answered. A relay's own cap may cut its answer: stderr says so
    if the relay does. --paginate reads on to the end, with a deadline for each page instead of
    --timeout; stderr names what is missing of each relay.
    """
    from nostr_client.client import NostrClient

    filters = conditions_with_keys(conditions, network).chosen()
    urls = chosen_relays(relays)
    signer = optional_signer(key_file)
    client = NostrClient(urls, timeout=timeout, signer=signer, options=network)
    if paginate:
        if follow or any(one.limit is not None for one in filters):
            raise click.UsageError("--paginate reads everything: it takes no --follow and no limit")
        statuses = run_async(_print_pages(client, urls, filters))
    else:
        statuses = run_async(_print_events(client, urls, filters, None if follow else timeout))
    for relay, _, why in statuses:
        if why:
            say(f"nostr-client: req: {relay}: {why}")
    click.get_current_context().exit(outcome_code([status for _, status, _ in statuses]))


async def _print_events(
    client: NostrClient, urls: Sequence[str], filters: Sequence[Filter], seconds: float | None
) -> list[tuple[str, str, str]]:
    from nostr_client.errors import RelayError

    async with client:
        skipped = await _without_search(client, urls) if any(f.search for f in filters) else []
        asked = [url for url in urls if url not in skipped]
        if not asked:
            return [(url, *_UNSEARCHED) for url in skipped]
        async with client.subscribe(filters, relays=asked, live=seconds is None) as events:
            try:
                async with asyncio.timeout(seconds):
                    async for found in events:
                        click.echo(found.event.to_json().encode())
            except (TimeoutError, RelayError):
                pass  # the sources have the reason
            statuses = [(url, *_status(source)) for url, source in events.sources.items()]
    return [*statuses, *((url, *_UNSEARCHED) for url in skipped)]


async def _print_pages(
    client: NostrClient, urls: Sequence[str], filters: Sequence[Filter]
) -> list[tuple[str, str, str]]:
    """Read all relays at once, each to its end; the id of every event stays in memory meanwhile."""
    seen: set[str] = set()
    async with client:
        skipped = await _without_search(client, urls) if any(f.search for f in filters) else []
        asked = [url for url in urls if url not in skipped]
        statuses = await asyncio.gather(*(_paged(client, url, filters, seen) for url in asked))
    return [*statuses, *((url, *_UNSEARCHED) for url in skipped)]


async def _paged(
    client: NostrClient, url: str, filters: Sequence[Filter], seen: set[str]
) -> tuple[str, str, str]:
    """Read one relay; return its URL, status, and what it did not send."""
    from nostr_client.count.claiming import status_of
    from nostr_client.errors import RelayError
    from nostr_client.network.paging.range_reader import Walk
    from nostr_client.sync.compare.pages import PagedId, count_holes, gaps, next_page, turn_page

    relay, lacking = client.pool.relay(url), []
    try:
        for one in filters:
            walk: Walk[PagedId] = Walk([one], one.since or 0, one.until)
            while (page := await next_page(relay, walk)) is not None:
                for found in page.events:
                    if found.event.id not in seen:
                        seen.add(found.event.id)
                        click.echo(found.event.to_json().encode())
                turn_page(walk, page)
            await count_holes(relay, one, walk)
            lacking += gaps(walk)
    except RelayError as error:
        status = str(status_of(error))
        return url, status, f"{status} ({error})"
    return url, "ok", "; ".join(lacking)


_UNSEARCHED = (
    "unsupported",
    "unsupported (no search: its NIP-11 document does not list NIP-50; not asked)",
)


async def _without_search(client: NostrClient, urls: Sequence[str]) -> list[str]:
    """Return relays whose document lists no search: they would send events that do not match."""
    supported = await asyncio.gather(*(client.pool.relay(url).supports(50) for url in urls))
    return [url for url, supports in zip(urls, supported, strict=True) if supports is False]


def _status(source: SubscriptionSource) -> tuple[str, str]:
    from nostr_client.count.claiming import status_of

    if source.error is not None:
        status = str(status_of(source.error))
        return status, f"{status} ({source.error})"
    if not source.stored_end:
        return "timeout", "timeout"
    return "ok", "; ".join(_lacking(source))


def _lacking(source: SubscriptionSource) -> list[str]:
    """Return what is missing of a relay that answered: events beyond its cap, unreadable frames."""
    from nostr_client.codecs.messages import Hint

    lacking = []
    if source.tally.hint is Hint.MORE and all(one.limit is None for one in source.filters):
        lacking.append("it has more events than it sent: read on to its end with --paginate")
    if source.tally.malformed:
        lacking.append(f"{plural(source.tally.malformed, 'frame')} could not be read")
    return lacking
