"""`nostr-client sync memory`: what a sync does not try again yet, shown and cleared."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from nostr_client.cli.output import console, json_option, moment, plain_table, print_json, say
from nostr_client.cli.reading import open_to_read
from nostr_client.cli.relays import relay_option
from nostr_client.cli.runner import run_async
from nostr_client.cli.store import store_option, stored_at
from nostr_client.display import plural

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.store.tried import TriedEvents, TriedFilter

_SIDES = ("down", "up")


@click.command()
@store_option
@relay_option
@click.option("--clear", is_flag=True, help="Forget it, so that the next sync tries it all again.")
@json_option
def memory(path: Path | None, relays: tuple[str, ...], clear: bool, as_json: bool) -> None:
    """Show what a sync does not try again yet, and why; of the relays given, else of all.

    Events that a relay refused or named and did not send, and filters that it does not compare by
    NIP-77, each for the key that was used, with the time of the next try.
    """
    place = stored_at(path)
    if clear:
        gone = run_async(_clear(place, relays))
        if as_json:
            print_json({"cleared": gone})
        else:
            say(f"{gone} entries cleared")
        return
    events, filters = run_async(_read(place, relays))
    if as_json:
        print_json({"events": list(map(_event, events)), "filters": list(map(_filter, filters))})
    else:
        _show(events, filters)


async def _read(
    place: Path, relays: tuple[str, ...]
) -> tuple[list[TriedEvents], list[TriedFilter]]:
    from nostr_client.relayurl import normalize
    from nostr_client.store.tried import TriedTable

    chosen = {normalize(one) for one in relays}
    async with await open_to_read(place) as store:
        events, filters = await TriedTable(store.database).summary(int(time.time()))
    return (
        [one for one in events if not chosen or one.relay in chosen],
        [one for one in filters if not chosen or one.relay in chosen],
    )


async def _clear(place: Path, relays: tuple[str, ...]) -> int:
    from nostr_client.relayurl import normalize
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.store.tried import TriedTable

    async with await SqliteStore.open(place) as store:
        chosen = [normalize(one) for one in relays]
        return await TriedTable(store.database).clear(chosen or None)


def _event(one: TriedEvents) -> dict[str, object]:
    return one._asdict() | {"side": _SIDES[one.side]}


def _filter(one: TriedFilter) -> dict[str, object]:
    return one._asdict()


def _show(events: list[TriedEvents], filters: list[TriedFilter]) -> None:
    from rich.text import Text

    if not events and not filters:
        say("nothing is remembered")
        return
    columns = ("relay", "key", "what", "verdict", "reason", "next try (UTC)")
    shown = plain_table(*columns)
    rows = [
        (e.relay or "any", e.key[:8], f"{plural(e.events, 'event')} {_SIDES[e.side]}", e.verdict,
         e.reason, moment(e.first_due))
        for e in events
    ]  # fmt: skip
    rows += [
        (f.relay, f.key[:8], f.scope or "NIP-77", "by REQ", f.reason, moment(f.until))
        for f in filters
    ]
    for row in rows:
        shown.add_row(*map(Text, row))
    console().print(shown)
