"""`nostr-client digest`: print what changed since a time, for all watches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from nostr_client.cli import series
from nostr_client.cli.entry import run_async
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.parameters import TimeParameter
from nostr_client.cli.place import StoreOrAgent, agent_at, place_option
from nostr_client.cli.watch_file import watches_at
from nostr_client.cli.watchrun import NO_WATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    """Print what changed: numbers, new people, relays that came and went, unfinished syncs.

    Newcomers are estimated from the registers that rose, which is far more exact than the
    difference of two estimates. The registers are those of the last answer before TIME of a day.
    """
    found, syncs = run_async(_digest(place, since))
    if as_json or form == "json":
        import msgspec

        print_json(msgspec.to_builtins(found) | {"syncs": syncs})
        return
    parts = _parts(found, syncs)
    if not parts:
        say(NO_WATCHES)
    click.echo("".join(_markdown(parts) if form == "markdown" else _text(parts)), nl=False)


async def _digest(place: StoreOrAgent, since: int) -> tuple[Digest, list[dict[str, str]] | None]:
    """Return the digest, and the syncs that are not complete; None where no agent knows them."""
    async with agent_at(place) as agent:
        if agent is not None:
            syncs = [_sync(one) for one in await agent.syncs() if not _is_fine(one)]
            return await agent.digest(since), syncs
    async with watches_at(place) as watches:
        return await watches.digest(since), None


def _is_fine(one: Mapping[str, Any]) -> bool:
    return one["outcome"] in ("", "complete")


def _sync(one: Mapping[str, Any]) -> dict[str, str]:
    return {"name": one["spec"]["name"], "outcome": one["outcome"]}


def _parts(found: Digest, syncs: list[dict[str, str]] | None) -> list[tuple[str, list[str]]]:
    parts = [(f"{one.name} ({one.query})", one.lines) for one in found.watches]
    if syncs:
        parts.append(("syncs", [f"{one['name']} ended {one['outcome']}" for one in syncs]))
    if parts:
        since, until = series.moment(found.since), series.moment(found.until)
        parts.insert(0, (f"from {since} to {until}", []))
    return parts


def _text(parts: Iterable[tuple[str, list[str]]]) -> Iterable[str]:
    for title, lines in parts:
        yield f"{title}\n"
        yield from (f"  {line}\n" for line in lines)


def _markdown(parts: Iterable[tuple[str, list[str]]]) -> Iterable[str]:
    for n, (title, lines) in enumerate(parts):
        yield f"{'##' if n else '#'} {_plain(title)}\n\n"
        yield from (f"- {_plain(line)}\n" for line in lines)
        yield "\n" if lines else ""


def _plain(text: str) -> str:
    """Escape what Markdown would read as markup: names are foreign text."""
    return _MARKUP.sub(r"\\\1", text)
