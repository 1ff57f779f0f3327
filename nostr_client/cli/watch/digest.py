"""`nostr-client digest`: print what changed since a time, for all watches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from nostr_client.cli.entry import run_async
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.parameters import TimeParameter
from nostr_client.cli.place import StoreOrAgent, agent_at, place_option
from nostr_client.cli.watch.file import watches_at
from nostr_client.cli.watch.run import NO_WATCHES
from nostr_client.watch.digest import DigestSection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.watch.digest import Digest

FORMATS = ("text", "markdown", "json")

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]()#+!|~<>])")


@click.command()
@click.option(
    "--since",
    metavar="TIME",
    type=TimeParameter(),
    default="1d",
    show_default=True,
    help="Begin there: a date, a time ago, or Unix seconds.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    metavar="FORM",
    help="Print text, markdown or json; --json is short for --format json.",
)
@place_option
@json_option
def digest(since: int, form: str | None, place: StoreOrAgent, as_json: bool) -> None:
    """Print what changed: numbers, new people, relays that came and went, counters.

    After these come coverages below their line, and, if an agent has the store, syncs that did not
    complete.

    Newcomers are estimated from the registers that rose since TIME, which is far more exact than
    the difference of two estimates. The text has the watches that changed most; JSON has all.
    """
    found = run_async(_digest(place, since))
    if as_json or form == "json":
        print_json(found)
        return
    parts = _parts(found)
    if not parts:
        say(NO_WATCHES)
    click.echo("".join(_markdown(parts) if form == "markdown" else _text(parts)), nl=False)


async def _digest(place: StoreOrAgent, since: int) -> Digest:
    """Return the digest of the agent that has the store, else that of the store."""
    async with agent_at(place) as agent:
        if agent is not None:
            return await agent.digest(since)
    async with watches_at(place) as watches:
        return await watches.digest(since)


def _parts(found: Digest) -> list[DigestSection]:
    parts = found.sections()
    return [DigestSection(found.title, []), *parts] if parts else []


def _text(parts: Iterable[DigestSection]) -> Iterable[str]:
    for title, lines in parts:
        yield f"{title}\n"
        yield from (f"  {line}\n" for line in lines)


def _markdown(parts: Iterable[DigestSection]) -> Iterable[str]:
    for n, (title, lines) in enumerate(parts):
        yield f"{'##' if n else '#'} {_plain(title)}\n\n"
        yield from (f"- {_plain(line)}\n" for line in lines)
        yield "\n" if lines else ""


def _plain(text: str) -> str:
    """Escape what Markdown would read as markup: names are foreign text."""
    return _MARKUP.sub(r"\\\1", text)
