"""`nostr-client watch people`: print who did what behind the number of a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.entry import run_async
from nostr_client.cli.output import csv_of, json_option, print_json, print_table, say
from nostr_client.cli.parameters import TimeParameter
from nostr_client.cli.place import StoreOrAgent, place_option
from nostr_client.cli.watch import series
from nostr_client.cli.watch.file import watches_at

if TYPE_CHECKING:
    from nostr_client.watch.people import People, Person

FORMATS = ("text", "csv", "json")

MOST = 10_000
"""People of one answer: as many as the API returns, and as a store reads."""


@click.command()
@click.argument("name")
@click.option(
    "--since",
    metavar="TIME",
    type=TimeParameter(),
    default="7d",
    show_default=True,
    help="Include only what was seen since then: a date, a time ago, or Unix seconds.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    metavar="FORM",
    help="Print text, csv or json; --json is short for --format json.",
)
@place_option
@json_option
def people(name: str, since: int, form: str | None, place: StoreOrAgent, as_json: bool) -> None:
    """Print who followed, unfollowed, reacted, reposted, replied or zapped, newest first.

    Names come from profiles in the store. Anybody may take any name: the key stands behind it.
    """
    found = run_async(_people(place, name, since))
    if as_json or form == "json":
        print_json({"watch": name} | as_dict(found))
    elif form == "csv":
        click.echo(_as_csv(found), nl=False)
    else:
        _print(found)


async def _people(place: StoreOrAgent, name: str, since: int) -> People:
    async with watches_at(place, merges=True) as watches:
        return await watches.people(name, since, MOST)


def _print(found: People) -> None:
    rows = [(series.moment(one.seen_at), one.what, one.person) for one in found.people]
    if rows:
        print_table(("seen", "what", "who"), rows)
    else:
        say(f"nobody was seen to do anything since {series.moment(found.since)}")
    if found.more:
        say(f"and {found.more:,} more before them: an answer has {MOST:,} at most")
    if found.nameless:
        say(found.nameless)


def as_dict(found: People) -> dict[str, Any]:
    """Return people as JSON values."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(found)
    return fields | {"people": [_fields(one) for one in found.people]}


def _fields(one: Person) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(one) | {"wiped": one.wiped}


def _as_csv(found: People) -> str:
    """Write one row for each person with a header; times in Unix seconds."""
    rows = list(map(_fields, found.people))
    numbers = ("amount", "keys", "keys_before", "wiped")
    columns = ("seen_at", "at", "act", "pubkey", "name", *numbers, "event")
    shown = (one | {"wiped": str(one["wiped"]).lower()} for one in rows)
    return csv_of(columns, ([one[name] for name in columns] for one in shown))
