"""`nostr-client counter`: counters of a store, of the agent that holds it, or of a nats-server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nostr_client.cli.counter.backend import (
    BackendChoice,
    counters_at,
    holding,
    listening,
    opened,
    stream_where_option,
    where_option,
)
from nostr_client.cli.counter.streams import link, source, stream
from nostr_client.cli.entry import FAILURE, OK, CommandGroup, run_async
from nostr_client.cli.output import cell, console, json_option, plain_table, print_json
from nostr_client.counters import shown

if TYPE_CHECKING:
    from nostr_client.counters.shown import Audit, Counter

F = TypeVar("F", bound=Callable[..., Any])

stream_option: Callable[[F], F] = click.option(
    "--stream", "stream_name", metavar="NAME", help="Use this stream, if several match."
)

after_option: Callable[[F], F] = click.option(
    "--after",
    metavar="SEQUENCE",
    type=click.IntRange(min=0),
    help="Print only changes after this sequence.",
)

NUMBERS = {"ignore_unknown_options": True}
"""Makes click read -5 in `add SUBJECT -5` as a number."""


@click.group(cls=CommandGroup)
def counter() -> None:
    """Add to counters of exact sums (ADR-49), and read them.

    Subjects are NATS subjects; in reads `*` stands for one token and `>` for the rest.
    """


counter.add_command(stream)
counter.add_command(source)
counter.add_command(link)


@counter.command(context_settings=NUMBERS)
@click.argument("subject")
@click.argument("number", metavar="N")
@click.option(
    "--msg-id", metavar="ID", help="Add a number with this ID only once, however often it is sent."
)
@stream_option
@where_option
@json_option
def add(
    subject: str,
    number: str,
    msg_id: str | None,
    stream_name: str | None,
    where: BackendChoice,
    as_json: bool,
) -> None:
    """Add N, which may be negative, and print the new value.

    If the --msg-id was counted before, nothing is added and the command fails with a message.
    """
    value = run_async(_add(where, stream_name, subject, _number(number), msg_id))
    _print_value(subject, value, as_json=as_json)


@counter.command()
@click.argument("patterns", metavar="[SUBJECT]...", nargs=-1)
@click.option(
    "--at",
    type=click.IntRange(min=1),
    metavar="SEQUENCE",
    help="Print the values at this sequence.",
)
@click.option("--values", is_flag=True, help="Print one line a counter, the value first.")
@stream_option
@where_option
@json_option
def get(
    patterns: tuple[str, ...],
    at: int | None,
    values: bool,
    stream_name: str | None,
    where: BackendChoice,
    as_json: bool,
) -> None:
    """Print counters with their sources; without a subject: all.

    Fails if a subject without a wildcard names no counter.
    """
    found = run_async(_get(where, stream_name, patterns, at))
    if as_json:
        print_json(found)
    elif values:
        for one in found:
            click.echo(f"{one.value}\t{one.subject}")
    else:
        _print_counters(found)
    _refuse_missing(patterns, {one.subject for one in found})


@counter.command()
@click.argument("subject")
@after_option
@stream_option
@where_option
@json_option
def history(
    subject: str, after: int | None, stream_name: str | None, where: BackendChoice, as_json: bool
) -> None:
    """Print the stored changes of a counter, oldest first."""
    found = run_async(_history(where, stream_name, subject, after or 0))
    if as_json:
        print_json(found)
    else:
        _print_counters(found)


@counter.command()
@click.argument("subject")
@stream_option
@where_option
@json_option
@click.pass_context
def recount(
    ctx: click.Context, subject: str, stream_name: str | None, where: BackendChoice, as_json: bool
) -> None:
    """Add a counter up from its stored changes. Exit code 1 if the sum differs."""
    found = run_async(_recount(where, stream_name, subject))
    if as_json:
        print_json(found)
    else:
        _print_audit(found)
    ctx.exit(OK if found.holds else FAILURE)


@counter.command()
@click.argument("subject")
@stream_option
@where_option
@json_option
def reset(subject: str, stream_name: str | None, where: BackendChoice, as_json: bool) -> None:
    """Reset a counter to 0 and drop its history; print its new value.

    The value is not 0 if somebody added meanwhile: that stays counted. Its sources do not send
    again what they sent before.
    """
    value = run_async(_reset(where, stream_name, subject))
    _print_value(subject, value, as_json=as_json)


@counter.command()
@click.argument("subject")
@stream_option
@where_option
@json_option
def remove(subject: str, stream_name: str | None, where: BackendChoice, as_json: bool) -> None:
    """Remove a counter, or all that match a pattern; print how many messages were removed."""
    gone = run_async(_remove(where, stream_name, subject))
    if as_json:
        print_json({"messages": gone})
    else:
        click.echo(gone)


@counter.command()
@click.argument("patterns", metavar="[SUBJECT]...", nargs=-1)
@after_option
@click.option(
    "--lines", "most", type=click.IntRange(min=1), metavar="N", help="End after this many lines."
)
@stream_option
@stream_where_option
@json_option
def watch(
    patterns: tuple[str, ...],
    after: int | None,
    most: int | None,
    stream_name: str | None,
    where: BackendChoice,
    as_json: bool,
) -> None:
    """Print counters, then each change as it arrives; with --json one object a line."""
    run_async(_watch(where, stream_name, patterns, after, most, as_json))


async def _add(
    where: BackendChoice, stream: str | None, subject: str, n: int, msg_id: str | None
) -> str:
    async with counters_at(where, changes=True) as counters:
        name = await listening(counters, stream, subject)
        return await counters.add(name, subject, n, msg_id)


async def _get(
    where: BackendChoice, stream: str | None, patterns: tuple[str, ...], at: int | None
) -> list[Counter]:
    async with counters_at(where, changes=False) as counters:
        name = await holding(counters, stream, *patterns)
        return await counters.counters(name, patterns, at)


async def _history(
    where: BackendChoice, stream: str | None, subject: str, after: int
) -> list[Counter]:
    async with counters_at(where, changes=False) as counters:
        name = await holding(counters, stream, subject)
        return await counters.increments(name, subject, after)


async def _recount(where: BackendChoice, stream: str | None, subject: str) -> Audit:
    async with counters_at(where, changes=False) as counters:
        return await counters.audit(await holding(counters, stream, subject), subject)


async def _reset(where: BackendChoice, stream: str | None, subject: str) -> str:
    async with counters_at(where, changes=True) as counters:
        return await counters.reset(await listening(counters, stream, subject), subject)


async def _remove(where: BackendChoice, stream: str | None, pattern: str) -> int:
    async with counters_at(where, changes=True) as counters:
        return await counters.remove(await holding(counters, stream, pattern), pattern)


async def _watch(
    where: BackendChoice,
    stream: str | None,
    patterns: tuple[str, ...],
    after: int | None,
    most: int | None,
    as_json: bool,
) -> None:
    from nostr_client.cli.counter.backend import StoredCounters

    async with opened(where, writes=False) as store:
        name = await holding(StoredCounters(store), stream, *patterns)
        counters = await store.counters(name)
        async with aclosing(counters.watch(*patterns, after_seq=after)) as feed:
            async for one in _first((shown.counter(entry) async for entry in feed), most):
                print_json(one) if as_json else click.echo(f"{one.value}\t{one.subject}")


async def _first(feed: AsyncIterator[Counter], most: int | None) -> AsyncIterator[Counter]:
    left = most
    async for entry in feed:
        yield entry
        if left is not None:
            left -= 1
            if not left:
                return


def _refuse_missing(patterns: tuple[str, ...], found: Container[str]) -> None:
    """Refuse a named counter that does not exist, as that is not 0; raises CounterError 10037."""
    from nostr_client.counters.rules import no_message
    from nostr_client.counters.subjects import has_wildcard

    missing = [name for name in patterns if not has_wildcard(name) and name not in found]
    if missing:
        raise no_message(" ".join(missing))


def _number(text: str) -> int:
    from nostr_client.counters.rules import parse_integer

    try:
        return parse_integer(text)
    except ValueError as error:
        raise click.UsageError(f"not a whole number: {text}") from error


def _print_value(subject: str, value: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"subject": subject, "value": value})
    else:
        click.echo(value)


def _print_counters(found: Sequence[Counter]) -> None:
    if not found:
        return
    from rich.table import Column

    long = [Column(name, overflow="fold") for name in ("subject", "value", "change")]
    table = plain_table(*long, Column("seq", no_wrap=True), Column("sources", overflow="fold"))
    for one in found:
        sources = [f"{stream} {s} {v}" for stream, of in one.sources.items() for s, v in of.items()]
        table.add_row(one.subject, one.value, one.incr or "", str(one.seq), ", ".join(sources))
    console().print(table)


def _print_audit(found: Audit) -> None:
    for name in ("value", "base", "total", "messages", "holds"):
        click.echo(f"{name}: {cell(getattr(found, name))}")
    for one in found.breaks:
        click.echo(f"break: at {one.seq} {one.found}, and not {one.expected}")
