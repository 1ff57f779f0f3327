"""`nostr-client watch`: questions that are asked again and again, and what came of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli import series
from nostr_client.cli.entry import run_async
from nostr_client.cli.output import console, json_option, print_json, say
from nostr_client.cli.parameters import UserPath
from nostr_client.cli.questions import (
    NAMES,
    Duration,
    asked_query,
    filter_option,
    trusted_option,
)
from nostr_client.cli.relays import relay_option
from nostr_client.cli.store import store_option, store_place, stored_at
from nostr_client.cli.watchrun import NO_WATCHES, run, unknown
from nostr_client.codecs.display import duration, plural
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import InvalidInput, SchemaTooOld

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.result import CountResult
    from nostr_client.watch import Point, Watch, WatchBook
    from nostr_client.watch.definition import Policy, QueryName

FORMATS = ("csv", "json", "parquet")


@click.group()
def watch() -> None:
    """Ask questions again and again, and keep their numbers.

    Watches live in the store. `watch run` asks those that are due; the agent does so by itself.
    """


watch.add_command(run)


@watch.command()
@click.argument("name")
@click.argument("what", metavar="[WHAT]", type=click.Choice(NAMES), required=False)
@click.argument("target", required=False)
@filter_option
@relay_option
@click.option(
    "--interval",
    type=Duration(),
    default="30m",
    show_default=True,
    help="How often, as 30s or 6h; 10s at least.",
)
@click.option(
    "--trust",
    "policy",
    type=click.Choice(["exclude", "flag", "off"]),
    help="What to do about claims that cannot be true; by default what whoever asks does.",
)
@trusted_option
@store_option
@json_option
def add(
    name: str,
    what: QueryName | None,
    target: str | None,
    filters: tuple[str, ...],
    relays: tuple[str, ...],
    interval: float,
    policy: Policy | None,
    trusted: tuple[str, ...],
    path: Path | None,
    as_json: bool,
) -> None:
    """Add a watch called NAME for WHAT about TARGET, or for whatever --filter matches.

    Where no relay is named, nor in the environment, it is asked on those that `watch run` is
    given, else on the relays that the target's author reads (NIP-65).
    """
    from nostr_client.watch import Watch

    asked = asked_query(what, target, filters)
    made = Watch(
        name=name,
        query=what,
        target=target or "",
        filters=tuple(one.to_dict() for one in asked.filters) if filters else (),
        relays=relays,
        interval=duration(interval),
        policy=policy,
        trusted=trusted,
    )
    made.check()  # before a store is made for it
    run_async(_add(store_place(path), made))
    if as_json:
        print_json(_shown(made))
    else:
        say(f"watching {name} every {duration(interval)}")


async def _add(path: Path, made: Watch) -> None:
    from nostr_client.watch import WatchBook

    async with await WatchBook.open(path) as book:
        await book.add(made)


@watch.command("list")
@store_option
@json_option
def list_(path: Path | None, as_json: bool) -> None:
    """All watches with their newest numbers."""
    found = run_async(_list(store_place(path)))
    if as_json:
        print_json([_as_dict(*one) for one in found])
        return
    for made, asked, points in found:
        line = series.sparkline_of(points, 24)
        newest = series.number(points[-1]) if points else "not known yet"
        click.echo(f"{made.name}  {made.question.name}  {newest}  {line}  {series.moment(asked)}")
    if not found:
        say(NO_WATCHES)


async def _opened(path: Path) -> WatchBook:
    """A store to read from beside whoever writes it; brought up to date first if it is older."""
    from nostr_client.watch import WatchBook

    try:
        return await WatchBook.open(path, read_only=True)
    except SchemaTooOld:
        return await WatchBook.open(path)


async def _list(path: Path) -> list[tuple[Watch, int | None, list[Point]]]:
    async with await _opened(path) as book:
        return [(made, asked, await book.history(made.name)) for made, asked in await book.all()]


def _shown(made: Watch) -> dict[str, Any]:
    """A watch for people, as an agent shows it: webhooks and commands may hold secrets."""
    import msgspec

    from nostr_client.watch.definition import shown

    fields: dict[str, Any] = msgspec.to_builtins(shown(made))
    return fields


def _as_dict(made: Watch, asked: int | None, points: Sequence[Point]) -> dict[str, Any]:
    newest = series.as_dicts(points[-1:])
    return _shown(made) | {"asked_at": asked, "newest": newest[0] if newest else None}


@watch.command()
@click.argument("name")
@store_option
@json_option
def show(name: str, path: Path | None, as_json: bool) -> None:
    """What the number of a watch is made of, as it stands now; no relay is asked."""
    made, asked, points, result = run_async(_show(store_place(path), name))
    if as_json:
        parts = [part.to_dict() for part in result.merged.parts]
        print_json(_as_dict(made, asked, points) | {"result": result.to_dict(), "parts": parts})
        return
    from nostr_client.cli.count import show as show_result

    show_result(result)
    _tell_parts(result, made.excluded)
    if points:
        click.echo(f"{series.sparkline_of(points)}  since {series.moment(points[0].at)}")


async def _show(path: Path, name: str) -> tuple[Watch, int | None, list[Point], CountResult]:
    from nostr_client.count.procedure import Counter

    async with await _opened(path) as book:
        found = await book.get(name)
        if found is None:
            raise unknown(name)
        made, asked = found
        counter = Counter(book=book.claims)
        whom = await _asked_of(book, made, asked)
        result = await counter.explain(
            made.question,
            whom,
            policy=made.trust,
            trusted=made.trusted,
            left_out=made.left_out,
        )
        return made, asked, await book.history(name), result


async def _asked_of(book: WatchBook, made: Watch, asked: int | None) -> dict[str, str] | None:
    """The relays of a watch by normalised URL: its own, else those that it was asked on last.

    The store holds what others said about the same question too, as to `count --store`. None (all
    of them) for a watch that an older version asked, which did not note whom.
    """
    found = made.relays or await book.relays(made.name)
    if found is None and asked is not None:
        say(f"{made.name}: all relays that were ever asked about it, until it is asked again")
        return None
    return {normalize(url): url for url in found or ()}


def _tell_parts(result: CountResult, left_out: Sequence[str]) -> None:
    out = console()
    for part in result.merged.parts:
        used = " and ".join(part.used) if part.used else "nothing"
        share = "" if part.share is None else f", {part.share:.0%} of all"
        out.print(f"{part.relay}: {used} used{share}", soft_wrap=True, markup=False)
    for url in left_out:
        out.print(f"{url}: left out by you", soft_wrap=True, markup=False)


@watch.command()
@click.argument("name")
@store_option
def rm(name: str, path: Path | None) -> None:
    """Remove a watch and its history."""
    if not run_async(_remove(stored_at(path), name)):
        raise unknown(name)
    say(f"removed {name}")


async def _remove(path: Path, name: str) -> bool:
    from nostr_client.watch import WatchBook

    async with await WatchBook.open(path) as book:
        return await book.remove(name)


@watch.command()
@click.argument("name")
@click.option("--last", type=Duration(), help="Only so far back, such as 30d.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Print or write it as this.")
@click.option(
    "--output", "-o", type=UserPath(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write there in place of stdout.",
)  # fmt: skip
@click.option(
    "--plot",
    type=UserPath(path_type=Path, dir_okay=False),
    metavar="FILE.png",
    help="Draw it (needs the extra `plot`).",
)
@store_option
@json_option
def history(
    name: str,
    last: float | None,
    form: str | None,
    output: Path | None,
    plot: Path | None,
    path: Path | None,
    as_json: bool,
) -> None:
    """The numbers of a watch: all of two days, then one an hour, after a quarter one a day."""
    for target in (output, plot):
        if target is not None and target.exists():
            raise InvalidInput(f"{target} is there; choose another name or remove it")
    since = 0 if last is None else int(time.time() - last)
    points = run_async(_history(store_place(path), name, since))
    if plot is not None:
        series.plot(points, plot, name)
        say(f"drew {plural(len(points), 'point')} in {plot}")
    if as_json or form is not None or output is not None:
        _write(name, points, "json" if as_json else form or "csv", output)
    elif plot is None:
        if not points:
            say(f"no numbers of {name} yet")
            return
        click.echo(series.sparkline_of(points))
        series.say_points(points)


async def _history(path: Path, name: str, since: int) -> list[Point]:
    async with await _opened(path) as book:
        if await book.get(name) is None:
            raise unknown(name)
        return await book.history(name, since=since)


def _write(name: str, points: Sequence[Point], form: str, output: Path | None) -> None:
    if form == "parquet":
        if output is None:
            raise click.UsageError("Parquet goes into a file: --output FILE")
        series.write_parquet(points, output)
    elif form == "csv":
        _text(series.as_csv(points), output)
    elif output is None:
        print_json({"watch": name, "points": series.as_dicts(points)})
    else:
        import msgspec

        output.write_bytes(msgspec.json.encode({"watch": name, "points": series.as_dicts(points)}))


def _text(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")
