"""`nostr-client watch`: repeat questions, and read their numbers."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from nostr_client.cli.count.overlap import overlap_fields, overlap_option, show_overlap
from nostr_client.cli.entry import CommandGroup, run_async
from nostr_client.cli.filteroptions import Conditions, filter_options
from nostr_client.cli.names import conditions_with_keys, root_with_key, with_keys
from nostr_client.cli.output import (
    console,
    json_option,
    output_option,
    print_done,
    print_json,
    print_table,
    say,
)
from nostr_client.cli.parameters import Duration, UserPath
from nostr_client.cli.place import StoredWatch, StoreOrAgent, place_option
from nostr_client.cli.questions import (
    NAMES,
    asked_query,
    interval_option,
    provider_option,
    trust_option,
    trusted_option,
    within_option,
)
from nostr_client.cli.relays import proxy_option, relay_option
from nostr_client.cli.watch import series
from nostr_client.cli.watch.file import watches_at
from nostr_client.cli.watch.people import people
from nostr_client.cli.watch.run import NO_WATCHES, run
from nostr_client.codecs.display import duration, plural, whole_percent
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.figures import CountReport, RelayOverlaps
    from nostr_client.watch import Point, Watch
    from nostr_client.watch.definition import AlertSpec

FORMATS = ("text", "csv", "json", "parquet")

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=CommandGroup)
def watch() -> None:
    """Repeat questions at an interval, and store their numbers.

    Watches live in the store. `watch run` asks those that are due; an agent that holds the store
    does so by itself.
    """


watch.add_command(run)
watch.add_command(people)

_OPTIONS = (
    click.argument("name"),
    click.argument("what", metavar="[WHAT]", type=click.Choice(NAMES), required=False),
    click.argument("target", required=False),
    filter_options,
    relay_option,
    click.option(
        "--excluded", metavar="URL", multiple=True,
        help="Ask this relay, but exclude it from the number.",
    ),
    trusted_option,
    trust_option,
    interval_option,
    click.option(
        "--live/--no-live", default=True, show_default=True,
        help="Also listen for new events between two questions.",
    ),
    within_option,
    click.option("--keep-heard", "keep", is_flag=True, help="Store the events that arrive live."),
    provider_option,
    proxy_option,
    click.option(
        "--merged", is_flag=True,
        help="Have an agent's local relay answer COUNT with this number, on /merged.",
    ),
    click.option(
        "--alert", "alerts", metavar="JSON", multiple=True,
        help='Have an agent send this alert: {"when": "> 1000", "webhook": URL}.',
    ),
)  # fmt: skip


_FIELDS = ("relays", "excluded", "trusted", "live", "keep", "merged")
"""Fields of a watch that are set directly from options."""


def _definition(command: F) -> F:
    """Add the options that define a watch; the command receives `made`."""

    @functools.wraps(command)
    def with_watch(
        *args: Any,
        name: str,
        what: Any,
        target: str | None,
        conditions: Conditions,
        proxy: str | None,
        interval: float | None,
        trust: Any,
        within: str | None,
        alerts: Sequence[str],
        **given: Any,
    ) -> Any:
        from nostr_client.assertions.reading import subject_of_query
        from nostr_client.options import ConnectionOptions, Options
        from nostr_client.watch import INTERVAL, Watch

        network = Options(connection=ConnectionOptions(proxy=proxy))
        if target is not None:
            (target,) = with_keys([target], network)
        conditions = conditions_with_keys(conditions, network)
        asked = asked_query(what, target, conditions)
        made = Watch(
            name=name,
            query=what,
            target=target or "",
            filters=tuple(one.to_dict() for one in asked.filters) if conditions.given else (),
            interval=duration(INTERVAL if interval is None else interval),
            policy=trust,
            within=root_with_key(within, network) or "",
            alerts=tuple(map(_alert, alerts)),
            providers=tuple(with_keys(given.pop("providers"), network)),
            **{name: given.pop(name) for name in _FIELDS},
        )
        made.check()  # check before a store is created for it
        if made.providers:
            subject_of_query(made.question)
        return command(*args, made=made, **given)

    wrapped: Any = with_watch
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast("F", wrapped)


def _alert(text: str) -> AlertSpec:
    import msgspec

    from nostr_client.watch import AlertSpec

    try:
        found = msgspec.json.decode(text.encode("utf-8", "surrogateescape"), type=AlertSpec)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidInput(f"--alert: {error}") from error
    if found.command:
        raise InvalidInput("--alert: only the agent's configuration file may name alert commands")
    return found


@watch.command()
@_definition
@place_option
@json_option
def add(made: Watch, place: StoreOrAgent, as_json: bool) -> None:
    """Add a watch called NAME for WHAT about TARGET, or for the filter options.

    If neither an option nor the environment names a relay, the watch asks the relays that `watch
    run` is given, else those where the target's author reads (NIP-65).
    """
    found = run_async(_add(place, made))
    if as_json:
        print_json(found)
    else:
        say(f"watching {made.name} every {made.interval}")


@watch.command("set")
@_definition
@place_option
@json_option
def set_(made: Watch, place: StoreOrAgent, as_json: bool) -> None:
    """Replace the watch called NAME; the history stays with the question."""
    found = run_async(_set(place, made))
    if as_json:
        print_json(found)
    else:
        say(f"watching {made.name} every {made.interval}")


@watch.command("list")
@place_option
@json_option
def list_(place: StoreOrAgent, as_json: bool) -> None:
    """List all watches with their newest numbers."""
    found = run_async(_list(place))
    if as_json:
        print_json(list(map(_as_dict, found)))
        return
    if not found:
        say(NO_WATCHES)
        return
    print_table(("name", "question", "number", "trend", "asked"), map(_row, found))


def _row(one: StoredWatch) -> tuple[str, ...]:
    from nostr_client.watch import sparkline

    number = series.number(one.newest) if one.newest else "not known yet"
    line = sparkline(one.spark, len(one.spark)) if one.spark else ""
    asked = series.moment(one.asked_at)
    return one.watch.name, one.watch.question.name, number, line, asked


def _as_dict(one: StoredWatch) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(one.watch)
    newest = series.as_dicts([one.newest])[0] if one.newest else None
    return fields | {"asked_at": one.asked_at, "newest": newest}


@watch.command()
@click.argument("name")
@overlap_option
@place_option
@json_option
def show(name: str, overlap: bool, place: StoreOrAgent, as_json: bool) -> None:
    """Show the claims behind the number of a watch; no relay is asked."""
    kept, found, shared = run_async(_show(place, name, overlap=overlap))
    if as_json:
        import msgspec

        asserted = [one.to_dict() for one in kept.asserted]
        more = {"counted": msgspec.to_builtins(found), "assertions": asserted}
        print_json(_as_dict(kept) | more | (overlap_fields(shared) if shared else {}))
        return
    say_claims(found)
    console().print(str(found), style="bold", soft_wrap=True)
    if kept.watch.within:
        click.echo(_within(kept))
    for one in kept.asserted:
        from nostr_client.assertions.reading import compared

        click.echo(compared(one, found, time.time()))
    if kept.newest is not None and kept.spark:
        from nostr_client.watch import sparkline

        click.echo(
            f"{sparkline(kept.spark, len(kept.spark))}  until {series.moment(kept.newest.at)}"
        )
    if shared is not None:
        show_overlap(shared)


def _within(kept: StoredWatch) -> str:
    """Return the newest figure of a watch within its web of trust, with its time."""
    found = kept.newest.within if kept.newest is not None else None
    if found is None:
        return f"within {kept.watch.within}: not known yet"
    return f"{found}, {series.moment(found.at)}"


def say_claims(found: CountReport) -> None:
    """Print the claims of a number: each relay's answer, and how it was used."""
    columns = ("relay", "status", "method", "count", "estimate", "used", "share", "why")
    rows = (
        (
            one.relay, one.status, one.method, one.count, one.estimate,
            "left out" if one.excluded else ", ".join(one.used),
            None if one.share is None else whole_percent(one.share),
            "; ".join([*one.reasons, *([one.note] if one.note else [])]),
        )
        for one in found.relays
    )  # fmt: skip
    print_table(columns, rows)


@watch.command()
@click.argument("name")
@place_option
@json_option
def remove(name: str, place: StoreOrAgent, as_json: bool) -> None:
    """Remove a watch and its history."""
    run_async(_remove(place, name))
    print_done(f"removed {name}", as_json=as_json)


async def _add(place: StoreOrAgent, made: Watch) -> Watch:
    async with watches_at(place, changes=True, makes=True) as watches:
        return await watches.add_watch(made)


async def _set(place: StoreOrAgent, made: Watch) -> Watch:
    async with watches_at(place, changes=True) as watches:
        return await watches.set_watch(made)


async def _list(place: StoreOrAgent) -> list[StoredWatch]:
    async with watches_at(place) as watches:
        return await watches.watches()


async def _show(
    place: StoreOrAgent, name: str, *, overlap: bool
) -> tuple[StoredWatch, CountReport, RelayOverlaps | None]:
    async with watches_at(place, merges=True) as watches:
        shared = await watches.overlaps(name) if overlap else None
        return await watches.watch(name), await watches.explain(name), shared


async def _remove(place: StoreOrAgent, name: str) -> None:
    async with watches_at(place, changes=True) as watches:
        await watches.remove_watch(name)


async def _points(place: StoreOrAgent, name: str, since: int) -> list[Point]:
    async with watches_at(place) as watches:
        return await watches.points(name, since)


@watch.command()
@click.argument("name")
@click.option("--last", type=Duration(), help="Include only this period, such as 30d.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    metavar="FORM",
    help="Print text, csv, json or parquet; --json is short for --format json.",
)
@output_option
@click.option(
    "--plot", type=UserPath(path_type=Path, dir_okay=False), metavar="FILE.png",
    help="Draw the history into this file (needs the extra `plot`).",
)  # fmt: skip
@place_option
@json_option
def history(
    name: str,
    last: float | None,
    form: str | None,
    output: Path | None,
    plot: Path | None,
    place: StoreOrAgent,
    as_json: bool,
) -> None:
    """Print the numbers of a watch: all of two days, then one an hour, later one a day."""
    for target in (output, plot):
        if target is not None and target.exists():
            raise InvalidInput(f"{target} exists; choose another name or remove it")
    since = 0 if last is None else int(time.time() - last)
    points = run_async(_points(place, name, since))
    if plot is not None:
        series.plot(points, plot, name)
        say(f"drew {plural(len(points), 'point')} in {plot}")
    form = "json" if as_json else form or ("csv" if output is not None else None)
    if form not in (None, "text"):
        _write(name, points, form or "", output)
    elif plot is None or form == "text":
        _print_points(name, points, output)


def _print_points(name: str, points: Sequence[Point], output: Path | None) -> None:
    if not points:
        say(f"no numbers of {name} yet")
        return
    lines = [series.sparkline_of(points), *series.lines_of(points)]
    _text("".join(f"{line}\n" for line in lines), output)


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
