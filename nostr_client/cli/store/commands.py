"""`nostr-client store`: work on the local store from the command line."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.entry import CommandEntry, LazyGroup, run_async
from nostr_client.cli.filteroptions import (
    Conditions,
    filter_options,
    limited_filter_options,
    refuse_limits,
)
from nostr_client.cli.output import (
    cell,
    console,
    json_option,
    plain_table,
    print_json,
    print_table,
    progress,
    say,
)
from nostr_client.cli.place import StoreOrAgent, store_option
from nostr_client.codecs.display import moment, plural
from nostr_client.errors import SchemaTooOld, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.codecs.filters import Filter
    from nostr_client.store.base import HotTarget, IndexStats, StoreStats, VerifyReport
    from nostr_client.store.file.migrate import Schema
    from nostr_client.store.sqlite import SqliteStore


async def open_to_read(path: Path, migrations: Sequence[Schema] = ()) -> SqliteStore:
    """Open a store for reading; bring an older version up to date first.

    Raises StoreLocked for an older one that another process writes, and as SqliteStore.open does.
    """
    from nostr_client.store.sqlite import SqliteStore

    try:
        return await SqliteStore.open(path, read_only=True, migrations=migrations)
    except SchemaTooOld:
        await (await SqliteStore.open(path, migrations=migrations)).close()
        return await SqliteStore.open(path, read_only=True, migrations=migrations)


FURTHER = {
    "sql": CommandEntry("nostr_client.cli.store.sql:sql", "Query the store's views in SQL."),
    "import": CommandEntry(
        "nostr_client.cli.store.files:import_", 'Save the events of files; "-" is stdin.'
    ),
    "export": CommandEntry(
        "nostr_client.cli.store.files:export",
        "Write events into FILE, or as JSON lines to stdout, oldest first, then by id.",
    ),
}
"""Commands with their own module."""


@click.group(cls=LazyGroup, entries=FURTHER)
def store() -> None:
    """Import, export and query the local store."""


@store.command()
@store_option
@json_option
def show(store: Path | None, as_json: bool) -> None:
    """Show totals of the store, and the state of its derived tables."""
    path = StoreOrAgent(store).path
    totals, index = run_async(_totals(path))
    if as_json:
        derived = None if index is None else _fields(index)
        print_json({"path": str(path), **_fields(totals), "index": derived})
    else:
        _print_totals(path, totals, index)


@store.command()
@click.option("--tag-name", metavar="TAG", help="Show only targets of this tag, as e or p.")
@click.option(
    "--of-kind",
    type=click.IntRange(0, 65_535),
    metavar="KIND",
    help="Show only targets of this kind.",
)
@click.option(
    "--targets",
    "rows",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Show at most this many.",
)
@store_option
@json_option
def hot(
    tag_name: str | None, of_kind: int | None, rows: int, store: Path | None, as_json: bool
) -> None:
    """Show the targets with most events: exact authors beside the estimate of their registers."""
    found = run_async(_hot(StoreOrAgent(store).path, tag_name, of_kind, rows))
    if as_json:
        print_json({"targets": found})
    else:
        _print_hot(found)


@store.command()
@store_option
@json_option
def verify(store: Path | None, as_json: bool) -> None:
    """Check every id, signature and index row again. Exit code 1 if something is wrong."""
    report = run_async(_verify(StoreOrAgent(store).path))
    if as_json:
        print_json({**_fields(report), "ok": report.ok})
    else:
        for problem in report.problems:
            click.echo(f"{problem.id or 'file'}\t{problem.what}")
        say(
            f"{plural(report.events, 'event')}, {plural(report.tags, 'tag row')} checked: "
            f"{plural(report.found, 'problem')}"
        )
    click.get_current_context().exit(0 if report.ok else 1)


@store.command()
@store_option
@limited_filter_options
def query(store: Path | None, conditions: Conditions) -> None:
    """Print the events that match, newest first, one JSON object a line."""
    run_async(_query(StoreOrAgent(store).path, conditions.chosen()))


@store.command()
@store_option
@filter_options
@json_option
def count(store: Path | None, as_json: bool, conditions: Conditions) -> None:
    """Print how many events match; with --json also their distinct authors."""
    filters = conditions.chosen()
    refuse_limits(filters, "a count")
    events, authors = run_async(_count(StoreOrAgent(store).path, filters))
    if as_json:
        print_json({"count": events, "authors": authors})
    else:
        click.echo(events)


def _fields(struct: object) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(struct)
    return fields


async def _totals(path: Path) -> tuple[StoreStats, IndexStats | None]:
    from nostr_client.store.index import read as index_read

    async with await open_to_read(path) as opened:
        index = None
        with suppress(StoreError):  # none is kept
            await _attach_index(opened)
            index = await opened.database.read(index_read.stats)
        return await opened.stats(), index


async def _attach_index(opened: SqliteStore) -> None:
    """Read the derived tables too. Raises StoreError if they do not exist."""
    from nostr_client.store.index.keeper import Index

    await Index.open(opened)


async def _hot(path: Path, name: str | None, kind: int | None, rows: int) -> list[HotTarget]:
    from nostr_client.store.index import read as index_read

    async with await open_to_read(path) as opened:
        await _attach_index(opened)
        return await opened.database.read(
            lambda conn: index_read.hottest(conn, rows, name=name, kind=kind)
        )


async def _verify(path: Path) -> VerifyReport:
    """Run the store's own check, then check the sums of counters, which the event store does not
    know."""
    from nostr_client.counters.engine.read import check_sums
    from nostr_client.store.base import DifferenceLog

    async with await open_to_read(path) as opened:
        total = (await opened.stats()).events
        with progress("verifying", total) as advance:
            report = await opened.verify(lambda done, _: advance(done))
        sums = DifferenceLog()
        await opened.database.read(lambda conn: check_sums(conn, sums))
        return report.and_also(sums)


async def _query(path: Path, filters: Sequence[Filter]) -> None:
    async with await open_to_read(path) as opened:
        async for event in opened.stream(filters):
            click.echo(event.to_json().encode())


async def _count(path: Path, filters: Sequence[Filter]) -> tuple[int, int]:
    async with await open_to_read(path) as opened:
        return await opened.count(filters), await opened.distinct_authors(filters)


def _print_totals(path: Path, found: StoreStats, index: IndexStats | None) -> None:
    table = plain_table(header=False)
    table.add_row("path", str(path))
    for name, value in _fields(found).items():
        if name != "kinds":
            table.add_row(name.replace("_", " "), _cell(name, value))
    table.add_row("derived tables", "none" if index is None else _derived(index))
    for kind, number in list(found.kinds.items())[:20]:
        table.add_row(f"kind {kind}", str(number))
    console().print(table)


def _derived(index: IndexStats) -> str:
    dirty = f", {index.dirty:,} to be read again" if index.dirty else ""
    return f"generation {index.generation}: {index.hot:,} hot targets{dirty}, {index.bytes:,} bytes"


def _cell(name: str, value: object) -> str:
    if name in ("oldest", "newest") and isinstance(value, int):
        return f"{moment(value)} UTC"
    return cell(value)


def _print_hot(found: Sequence[HotTarget]) -> None:
    from nostr_client.store.index.schema import HOT

    rows = (
        (
            one.name, one.value, one.kind, one.events, one.authors,
            f"{'≤ ' if one.dirty else ''}{one.estimate:g}",
        )
        for one in found
    )  # fmt: skip
    print_table(("tag", "target", "kind", "events", "authors", "estimate"), rows)
    say(f"targets of fewer than {HOT} events are not in it")
