"""`nostr-client store`: work on the local store from the command line."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from pathlib import Path
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
    say,
)
from nostr_client.cli.parameters import UserPath
from nostr_client.cli.place import StoreOrAgent, store_option
from nostr_client.cli.questions import include_private_option
from nostr_client.codecs.display import moment, plural
from nostr_client.errors import SchemaTooOld, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.store.base import HotTarget, IndexStats, StoreStats, VerifyReport
    from nostr_client.store.migrate import Schema
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.event_files import Form
    from nostr_client.sync.jsonl import ImportReport


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


FURTHER = {"sql": CommandEntry("nostr_client.cli.sql:sql", "Query the store's views in SQL.")}
"""Commands with their own module."""


@click.group(cls=LazyGroup, entries=FURTHER)
def store() -> None:
    """Import, export and query the local store."""


@store.command("import")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=UserPath(path_type=Path, exists=True, allow_dash=True),
)
@store_option
@json_option
def import_(files: tuple[Path, ...], store: Path | None, as_json: bool) -> None:
    """Save the events of files; "-" is stdin.

    The first bytes of a file decide its format: JSONL, plain or compressed by gzip or zstd, Parquet
    and folders of it, and SQLite that `export` wrote. JSON arrays and recorded EVENT frames are
    read too. Every event is verified. Exit code 1 if a line is not a valid event; the reason and
    the first line are printed, and all other events are saved. After an interruption, import again
    to continue.
    """
    report = run_async(_import(StoreOrAgent(store).path, files))
    if as_json:
        print_json({**_fields(report), "stored": report.stored})
    else:
        _print_import(report)
    click.get_current_context().exit(0 if report.whole else 1)


@store.command()
@click.argument("target", metavar="[FILE]", required=False, type=UserPath(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "parquet", "sqlite"]),
    help="Write this format. Default, by the name: .jsonl, .jsonl.gz, .jsonl.zst, .parquet "
    "(a folder), .sqlite.",
)
@store_option
@filter_options
@include_private_option
def export(
    target: Path | None,
    form: str | None,
    store: Path | None,
    include_private: bool,
    conditions: Conditions,
) -> None:
    """Write events into FILE, or as JSON lines to stdout, oldest first, then by id.

    Without conditions: all events but private kinds (messages, drafts, wallets, application data,
    lists with private items). A filter with a limit is refused, as it selects the newest: use
    `store query`. SQLite is a copy with indexes and full text for any tool, and a second file
    describes it for Datasette; it has claims, watches and counters only with --include-private.
    """
    filters = conditions.optional()
    refuse_limits(filters, "export")
    if target is None:
        if form not in (None, "jsonl"):
            raise click.UsageError(f"--format {form} goes into a FILE")
        say_held_back(run_async(_export(StoreOrAgent(store).path, filters, include_private)))
        return
    from nostr_client.sync.event_files import form_of

    wanted = form_of(target.name, form)
    exporting = _export_sqlite if wanted == "sqlite" else _export_file
    number, held_back = run_async(
        exporting(StoreOrAgent(store).there, filters, include_private, target, wanted)
    )
    say(f"{plural(number, 'event')} in {target}")
    say_held_back(held_back)


def say_held_back(number: int) -> None:
    """Print how many private events an export left out."""
    if number:
        say(f"{number:,} private events were left out: name their kinds, or --include-private")


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


async def _import(path: Path, files: Sequence[Path]) -> ImportReport:
    from nostr_client.cli.gc_tuning import prepare_for_long_runs
    from nostr_client.store.options import StoreOptions
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.event_files import opened as opened_files
    from nostr_client.sync.jsonl import CACHE_MB, import_jsonl

    prepare_for_long_runs()
    options = StoreOptions(cache_mb=CACHE_MB)
    with opened_files(files) as lines:
        async with await SqliteStore.open(path, options=options) as opened:
            with _progress("importing", _size(files), "bytes") as advance:
                return await import_jsonl(opened, lines, lambda _, done: advance(done))


async def _export(path: Path, filters: Sequence[Filter], include_private: bool) -> int:
    from nostr_client.codecs.private_kinds import PublicEvents
    from nostr_client.sync.jsonl import export_jsonl

    async with await open_to_read(path) as opened:
        events = PublicEvents(opened.export(filters), filters, include_private=include_private)
        await export_jsonl(aiter(events), sys.stdout.buffer.write)
        sys.stdout.buffer.flush()
    return events.held_back


async def _export_file(
    path: Path, filters: Sequence[Filter], include_private: bool, target: Path, form: Form
) -> tuple[int, int]:
    """Write into a file or folder; return how many events, and how many were held back."""
    from nostr_client.cli.gc_tuning import prepare_for_long_runs
    from nostr_client.codecs.private_kinds import PublicEvents
    from nostr_client.sync.event_files import writer

    prepare_for_long_runs()
    number = 0
    async with await open_to_read(path) as opened:
        total = await opened.count(filters) if filters else (await opened.stats()).events
        events = PublicEvents(opened.export(filters), filters, include_private=include_private)
        with writer(target, form) as write, _progress("exporting", total, "events") as advance:
            async for event in events:
                write(event)
                number += 1
                advance(number + events.held_back)
    return number, events.held_back


async def _export_sqlite(
    path: Path, filters: Sequence[Filter], include_private: bool, target: Path, form: Form
) -> tuple[int, int]:
    """Write a copy and its metadata for Datasette; return as `_export_file`."""
    import json
    import time

    from nostr_client.store.sql.copy import CopySelection, export_sqlite, metadata

    ids, held_back = await _ids(path, filters, include_private)
    with _progress("exporting", None, "tables") as advance:
        number, left_out = export_sqlite(
            path,
            target,
            CopySelection(ids, include_private),
            int(time.time()),
            lambda done, _: advance(done),
        )
    described = metadata(target.stem, own=include_private)
    text = json.dumps(described, indent=2, ensure_ascii=False)
    target.with_name(f"{target.stem}.metadata.json").write_text(f"{text}\n", "utf-8")
    return number, held_back + left_out


async def _ids(
    path: Path, filters: Sequence[Filter], include_private: bool
) -> tuple[list[bytes] | None, int]:
    """Return the ids that filters choose, None without filters, and how many private events they
    leave out."""
    from nostr_client.codecs.private_kinds import PublicEvents

    if not filters:
        return None, 0
    async with await open_to_read(path) as opened:
        events = PublicEvents(opened.export(filters), filters, include_private=include_private)
        return [bytes.fromhex(event.id) async for event in events], events.held_back


async def _totals(path: Path) -> tuple[StoreStats, IndexStats | None]:
    from nostr_client.store import index_read

    async with await open_to_read(path) as opened:
        index = None
        with suppress(StoreError):  # none is kept
            await _attach_index(opened)
            index = await opened.database.read(index_read.stats)
        return await opened.stats(), index


async def _attach_index(opened: SqliteStore) -> None:
    """Read the derived tables too. Raises StoreError if they do not exist."""
    from nostr_client.store.index import Index

    await Index.open(opened)


async def _hot(path: Path, name: str | None, kind: int | None, rows: int) -> list[HotTarget]:
    from nostr_client.store import index_read

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
        with _progress("verifying", total) as advance:
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


def _size(files: Sequence[Path]) -> int | None:
    """Return the bytes in all, for the progress bar; None if one is not a plain file of lines."""
    plain = (".jsonl", ".json", ".ndjson")
    if not all(file.is_file() and file.suffix in plain for file in files):
        return None
    return sum(file.stat().st_size for file in files)


@contextmanager
def _progress(
    what: str, total: int | None, unit: str = "events"
) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr, only on a terminal, with the rate and the time left; the callable
    receives the progress."""
    from rich.progress import Progress, TextColumn, TransferSpeedColumn

    err = console(stderr=True)
    rate = TransferSpeedColumn() if unit == "bytes" else TextColumn(f"{{task.speed:,.0f}} {unit}/s")
    columns = (*Progress.get_default_columns(), rate)
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def _print_import(report: ImportReport) -> None:
    click.echo(f"{report.stored} of {report.lines} stored")
    for status, number in sorted(report.statuses.items()):
        if status != "stored":
            say(f"{number} {status}")
    for reason, number in report.reasons.items():
        say(f"  {number} × {reason} (first in line {report.first_lines[reason]})")


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
    from nostr_client.store.index_schema import HOT

    rows = (
        (
            one.name, one.value, one.kind, one.events, one.authors,
            f"{'≤ ' if one.dirty else ''}{one.estimate:g}",
        )
        for one in found
    )  # fmt: skip
    print_table(("tag", "target", "kind", "events", "authors", "estimate"), rows)
    say(f"targets of fewer than {HOT} events are not in it")
