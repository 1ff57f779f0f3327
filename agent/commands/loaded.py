"""`nostr-agent tables …`: a few targets of what a cluster counted, loaded and asked."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agent.commands.options import chosen_store, config_options
from agent.commands.tables import print_table
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.paths import UserPath
from nostr_client.cli.runner import run_async_until_sigterm

if TYPE_CHECKING:
    from agent.reindex.loading import Asked


file_argument = click.argument("file", type=UserPath(path_type=Path, dir_okay=False))


@click.group()
def tables() -> None:
    """Ask the tables of a rebuild from archives: what they say is of then, not of now."""


@tables.command()
@click.argument("folder", type=UserPath(path_type=str))
@file_argument
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="ID",
    help="A person, event or address: npub, note, nevent, naddr, hex. Repeat for more.",
)
@click.option(
    "--follows-of", metavar="NPUB", help="And all whom this person follows, by the store's copy."
)
@click.option(
    "--store",
    type=UserPath(path_type=Path, dir_okay=False),
    help="The store that has the list of follows. Else that of the configuration.",
)
@config_options
@json_option
def load(
    folder: str,
    file: Path,
    targets: tuple[str, ...],
    follows_of: str | None,
    store: Path | None,
    config: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Load some targets of the tables in FOLDER (a rebuild's --out, or its URL) into FILE."""
    from agent.reindex import loading

    values = [value_of(one) for one in targets]
    if follows_of is not None:
        path = chosen_store(store, config, settings)
        values += run_async_until_sigterm(_follows(path, follows_of))
    if not values:
        raise click.UsageError("say which targets: --target, --follows-of")
    done = loading.load(folder, values, file)
    if as_json:
        print_json({"file": str(file), "rows": done})
    else:
        say(f"in {file}: targets {done['hot']:,}, authors of them {done['hot_author']:,}")


@tables.command()
@file_argument
@click.argument("targets", nargs=-1, metavar="[ID]...")
@click.option("--authors", is_flag=True, help="The keys behind them, and how many events of each.")
@json_option
def show(file: Path, targets: tuple[str, ...], authors: bool, as_json: bool) -> None:
    """What FILE says of targets: events, exact distinct authors, what registers say, zaps."""
    from agent.reindex import loading

    about, found = loading.ask(file, [value_of(one) for one in targets])
    when = datetime.fromtimestamp(about.as_of, UTC).isoformat(sep=" ", timespec="minutes")
    if authors:
        people = {one.target: loading.authors(file, one.target) for one in found}
        for target, keys in people.items():
            for pubkey, n in keys:
                click.echo(f"{target.name}\t{target.value}\t{target.kind}\t{pubkey}\t{n}")
    elif as_json:
        print_json({"as_of": about.as_of, "hot": about.hot, "targets": list(map(_told, found))})
        return
    else:
        print_table(_COLUMNS, [_told(one).values() for one in found])
    say(f"of archives as of {when}; targets of fewer than {about.hot} events are not in it")


_COLUMNS: Final = ("tag", "value", "kind", "events", "authors", "estimate", "receipts", "msats")


def _told(one: Asked) -> dict[str, Any]:
    from nostr_client import hll

    estimate = round(hll.estimate(one.registers), 1)
    numbers = (one.events, one.authors, estimate, one.receipts, one.msats)
    return dict(zip(_COLUMNS, (*one.target, *numbers), strict=True))


def value_of(text: str) -> str:
    """What an identifier names, as tags name it. Raises InvalidIdentifier."""
    from nostr_client import nip19

    if nip19.is_address(text.strip()):
        return text.strip()
    match nip19.read(text).target:
        case nip19.PublicKey(value) | nip19.Profile(value) | nip19.Hex(value):
            return value
        case nip19.Note(value) | nip19.EventPointer(value):
            return value
        case nip19.Address() as address:
            return address.coordinate


async def _follows(path: Path, person: str) -> list[str]:
    """Whom somebody follows, by the newest list in a store. Raises InvalidInput."""
    from nostr_client import kinds, nip19
    from nostr_client.errors import InvalidInput
    from nostr_client.filters import Filter
    from nostr_client.store.sqlite import SqliteStore

    author = nip19.decode_pubkey(person)
    async with await SqliteStore.open(path, read_only=True) as store:
        found = await store.query([Filter(authors=[author], kinds=[kinds.CONTACTS], limit=1)])
    if not found:
        raise InvalidInput(f"{path} has no list of follows of {person}")
    return list(found[0].tag_values("p"))
