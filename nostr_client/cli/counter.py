"""`nostr-client counter`: counters of the local store, or of a nats-server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nostr_client.cli.counter_backend import (
    Place,
    backend_options,
    bound,
    listening,
    opened,
    place,
)
from nostr_client.cli.counter_stream import source, stream
from nostr_client.cli.entry import run_async
from nostr_client.cli.output import cell, console, json_option, plain_table, print_json

if TYPE_CHECKING:
    from nostr_client.counters.audit import Recount
    from nostr_client.counters.base import Entry

F = TypeVar("F", bound=Callable[..., Any])

stream_option: Callable[[F], F] = click.option(
    "--stream", "stream_name", metavar="NAME", help="The stream, where several could be meant."
)

NUMBERS = {"ignore_unknown_options": True}
"""So that `add SUBJECT -5` takes -5 for the number that it is."""


@click.group()
def counter() -> None:
    """Exact sums by subject (ADR-49): add, read, audit, reset.

    Subjects are NATS subjects; in reads `*` stands for one token and `>` for the rest.
    """


counter.add_command(stream)
counter.add_command(source)


@counter.command(context_settings=NUMBERS)
@click.argument("subject")
@click.argument("number", metavar="N")
@click.option("--id", "msg_id", metavar="ID", help="Count this once, however often it is sent.")
@stream_option
@backend_options
@json_option
def add(
    subject: str,
    number: str,
    msg_id: str | None,
    stream_name: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Add N, which may be negative, and print the new value.

    An --id that was counted before adds nothing and is a failure that says so.
    """
    value = run_async(_add(place(options), stream_name, subject, number, msg_id))
    _print_value(subject, value, as_json=as_json)


@counter.command()
@click.argument("patterns", metavar="[SUBJECT]...", nargs=-1)
@click.option("--at", "at_seq", type=click.IntRange(min=1), help="As of this sequence.")
@stream_option
@backend_options
@json_option
def get(
    patterns: tuple[str, ...],
    at_seq: int | None,
    stream_name: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print counters with their sources; without a subject: all.

    A subject without a wildcard that no counter has is a failure.
    """
    entries = run_async(_get(place(options), stream_name, patterns, at_seq))
    if as_json:
        print_json([_entry(entry) for entry in entries])
    else:
        _tell(entries)
    _refuse_missing(patterns, {entry.subject for entry in entries})


@counter.command()
@click.argument("patterns", metavar="[SUBJECT]...", nargs=-1)
@stream_option
@backend_options
@json_option
def load(patterns: tuple[str, ...], stream_name: str | None, as_json: bool, **options: Any) -> None:
    """Print values: one line a counter, the value first; without a subject: all.

    A subject without a wildcard that no counter has is a failure.
    """
    found = run_async(_load(place(options), stream_name, patterns))
    if as_json:
        print_json(found)
    else:
        for subject, value in found.items():
            click.echo(f"{value}\t{subject}")
    _refuse_missing(patterns, found)


@counter.command()
@click.argument("subject")
@click.option("--after", "after_seq", type=click.IntRange(min=0), default=0, help="A sequence.")
@stream_option
@backend_options
@json_option
def history(
    subject: str, after_seq: int, stream_name: str | None, as_json: bool, **options: Any
) -> None:
    """Print the kept changes of a counter, oldest first."""
    entries = run_async(_history(place(options), stream_name, subject, after_seq))
    if as_json:
        print_json([_entry(entry) for entry in entries])
    else:
        _tell(entries)


@counter.command()
@click.argument("subject")
@stream_option
@backend_options
@json_option
def recount(subject: str, stream_name: str | None, as_json: bool, **options: Any) -> None:
    """Add up the kept changes and compare with the value; exit code 1 where they disagree."""
    found = run_async(_recount(place(options), stream_name, subject))
    if as_json:
        print_json(_recounted(found))
    else:
        _tell_recount(_recounted(found))
    if not found.holds:
        raise click.exceptions.Exit(1)


@counter.command()
@click.argument("subject")
@stream_option
@backend_options
@json_option
def reset(subject: str, stream_name: str | None, as_json: bool, **options: Any) -> None:
    """Take a counter to 0 and drop its history; print its value then.

    It is not 0 where somebody added meanwhile: that stays counted.
    """
    value = run_async(_reset(place(options), stream_name, subject))
    _print_value(subject, value, as_json=as_json)


@counter.command()
@click.argument("subject")
@stream_option
@backend_options
@json_option
def delete(subject: str, stream_name: str | None, as_json: bool, **options: Any) -> None:
    """Remove a counter, or all that a pattern names; print how many messages went."""
    gone = run_async(_delete(place(options), stream_name, subject))
    if as_json:
        print_json({"purged": gone})
    else:
        click.echo(gone)


@counter.command()
@click.argument("patterns", metavar="[SUBJECT]...", nargs=-1)
@click.option("--after", "after_seq", type=click.IntRange(min=0), help="Go on after a sequence.")
@click.option("--count", "most", type=click.IntRange(min=1), help="End after so many lines.")
@stream_option
@backend_options
@json_option
def watch(
    patterns: tuple[str, ...],
    after_seq: int | None,
    most: int | None,
    stream_name: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print counters as they are, then each change as it comes; with --json one object a line."""
    run_async(_watch(place(options), stream_name, patterns, after_seq, most, as_json))


async def _add(
    where: Place, stream_name: str | None, subject: str, number: str, msg_id: str | None
) -> int:
    n = _number(number)
    async with opened(where, writes=True) as store:
        return await (await listening(store, stream_name, subject)).add(subject, n, msg_id=msg_id)


async def _get(
    where: Place, stream_name: str | None, patterns: tuple[str, ...], at_seq: int | None
) -> list[Entry]:
    async with opened(where, writes=False) as store:
        counters = await bound(store, stream_name, *patterns)
        return [entry async for entry in counters.get_many(*patterns, at_seq=at_seq)]


async def _load(where: Place, stream_name: str | None, patterns: tuple[str, ...]) -> dict[str, str]:
    async with opened(where, writes=False) as store:
        counters = await bound(store, stream_name, *patterns)
        return {subject: _text(value) async for subject, value in counters.load_many(*patterns)}


async def _history(
    where: Place, stream_name: str | None, subject: str, after_seq: int
) -> list[Entry]:
    async with opened(where, writes=False) as store:
        counters = await bound(store, stream_name, subject)
        return [entry async for entry in counters.history(subject, after_seq=after_seq)]


async def _recount(where: Place, stream_name: str | None, subject: str) -> Recount:
    async with opened(where, writes=False) as store:
        return await (await bound(store, stream_name, subject)).recount(subject)


async def _reset(where: Place, stream_name: str | None, subject: str) -> int:
    async with opened(where, writes=True) as store:
        return await (await listening(store, stream_name, subject)).reset(subject)


async def _delete(where: Place, stream_name: str | None, subject: str) -> int:
    async with opened(where, writes=True) as store:
        return await (await bound(store, stream_name, subject)).delete(subject)


async def _watch(
    where: Place,
    stream_name: str | None,
    patterns: tuple[str, ...],
    after_seq: int | None,
    most: int | None,
    as_json: bool,
) -> None:
    async with opened(where, writes=False) as store:
        counters = await bound(store, stream_name, *patterns)
        async with aclosing(counters.watch(*patterns, after_seq=after_seq)) as feed:
            async for entry in _first(feed, most):
                line = f"{_text(entry.value)}\t{entry.subject}"
                print_json(_entry(entry)) if as_json else click.echo(line)


async def _first(feed: AsyncIterator[Entry], most: int | None) -> AsyncIterator[Entry]:
    left = most
    async for entry in feed:
        yield entry
        if left is not None:
            left -= 1
            if not left:
                return


def _refuse_missing(patterns: tuple[str, ...], found: Container[str]) -> None:
    """A counter that was named and is not there is no 0; raises CounterError 10037."""
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


def _text(value: int) -> str:
    from nostr_client.counters.rules import format_integer

    return format_integer(value)


def _print_value(subject: str, value: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"subject": subject, "value": _text(value)})
    else:
        click.echo(_text(value))


def _entry(entry: Entry) -> dict[str, Any]:
    """Numbers as text: they have any length, and JSON readers lose digits beyond 2^53."""
    return {
        "subject": entry.subject,
        "value": _text(entry.value),
        "incr": None if entry.incr is None else _text(entry.incr),
        "seq": entry.seq,
        "ts": entry.ts,
        "sources": {n: {s: _text(v) for s, v in m.items()} for n, m in entry.sources.items()},
        "local": _text(entry.local),
        "headers": [list(pair) for pair in entry.headers],
    }


def _tell(entries: list[Entry]) -> None:
    if not entries:
        return
    from rich.table import Column

    long = [Column(name, overflow="fold") for name in ("subject", "value", "change")]
    table = plain_table(*long, Column("seq", no_wrap=True), Column("sources", overflow="fold"))
    for entry in entries:
        sources = [f"{n} {s} {_text(v)}" for n, m in entry.sources.items() for s, v in m.items()]
        change = "" if entry.incr is None else _text(entry.incr)
        table.add_row(entry.subject, _text(entry.value), change, str(entry.seq), ", ".join(sources))
    console().print(table)


def _tell_recount(found: dict[str, Any]) -> None:
    breaks = found.pop("breaks")
    for name, value in found.items():
        click.echo(f"{name}: {cell(value)}")
    for one in breaks:
        click.echo(f"break: at {one['seq']} {one['found']}, and not {one['expected']}")


def _recounted(found: Recount) -> dict[str, Any]:
    return {
        "value": _text(found.value),
        "base": _text(found.base),
        "total": _text(found.total),
        "messages": found.messages,
        "holds": found.holds,
        "breaks": [
            {"seq": b.seq, "expected": _text(b.expected), "found": _text(b.found)}
            for b in found.breaks
        ],
    }
