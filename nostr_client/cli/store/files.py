"""`nostr-client store import` and `store export`: events between the store and files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nostr_client.cli.entry import run_async
from nostr_client.cli.filteroptions import Conditions, filter_options, refuse_limits
from nostr_client.cli.output import json_option, print_json, progress, say
from nostr_client.cli.parameters import UserPath
from nostr_client.cli.place import StoreOrAgent, store_option
from nostr_client.cli.questions import include_private_option
from nostr_client.cli.store.commands import open_to_read
from nostr_client.codecs.display import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.sync.files.event_files import EventFiles, Form
    from nostr_client.sync.files.jsonl import ImportReport


@click.command("import")
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
    from nostr_client.sync.files.event_files import opened
    from nostr_client.sync.files.jsonl import DamagedInput

    try:
        with opened(files) as lines:  # before there is a loop, so that Ctrl-C ends a wait for stdin
            report = run_async(_import(StoreOrAgent(store).path, lines))
    except DamagedInput as error:
        _print_import(error.report, as_json=as_json)
        raise
    _print_import(report, as_json=as_json)
    click.get_current_context().exit(0 if report.whole else 1)


@click.command()
@click.argument(
    "target", metavar="[FILE]", required=False, type=UserPath(path_type=Path, allow_dash=True)
)
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

    "-" is stdout. Nothing that exists is replaced.

    Without conditions: all events but private kinds (messages, drafts, wallets, application data,
    lists with private items). A filter with a limit is refused, as it selects the newest: use
    `store query`. SQLite is a copy with indexes and full text for any tool, and a second file
    describes it for Datasette; it has claims, watches and counters only with --include-private.
    """
    filters = conditions.optional()
    refuse_limits(filters, "export")
    if target is None or str(target) == "-":
        if form not in (None, "jsonl"):
            raise click.UsageError(f"--format {form} goes into a FILE")
        say_held_back(run_async(_export(StoreOrAgent(store).path, filters, include_private)))
        return
    number, held_back = _export_to(
        StoreOrAgent(store).there, filters, include_private, target, form
    )
    say(f"{plural(number, 'event')} in {target}")
    say_held_back(held_back)


def _export_to(
    path: Path, filters: Sequence[Filter], include_private: bool, target: Path, form: str | None
) -> tuple[int, int]:
    """Write a file or a folder; return how many events, and how many were held back."""
    from nostr_client.sync.files.event_files import form_of

    wanted = form_of(target.name, form)
    if wanted == "sqlite":
        return _export_sqlite(path, filters, include_private, target)
    return run_async(_export_file(path, filters, include_private, target, wanted))


def say_held_back(number: int) -> None:
    """Print how many private events an export left out."""
    if number:
        say(f"{number:,} private events were left out: name their kinds, or --include-private")


async def _import(path: Path, lines: EventFiles) -> ImportReport:
    from nostr_client.cli.gc_tuning import prepare_for_long_runs
    from nostr_client.store.options import StoreOptions
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.files.jsonl import CACHE_MB, import_jsonl

    prepare_for_long_runs()
    options = StoreOptions(cache_mb=CACHE_MB)
    async with await SqliteStore.open(path, options=options) as opened:
        with progress("importing", lines.size, "bytes") as advance:
            return await import_jsonl(
                opened,
                lines,
                lambda _, done: advance(done if lines.size is None else lines.position()),
            )


async def _export(path: Path, filters: Sequence[Filter], include_private: bool) -> int:
    from nostr_client.codecs.private_kinds import PublicEvents
    from nostr_client.sync.files.jsonl import export_jsonl

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
    from nostr_client.sync.files.event_files import writer

    prepare_for_long_runs()
    number = 0
    async with await open_to_read(path) as opened:
        total = await opened.count(filters) if filters else (await opened.stats()).events
        events = PublicEvents(opened.export(filters), filters, include_private=include_private)
        with writer(target, form) as write, progress("exporting", total, "events") as advance:
            async for event in events:
                write(event)
                number += 1
                advance(number + events.held_back)
    return number, events.held_back


def _export_sqlite(
    path: Path, filters: Sequence[Filter], include_private: bool, target: Path
) -> tuple[int, int]:
    """Write a copy and its description for Datasette; return as `_export_file`."""
    import time

    from nostr_client.store.sql.copy import CopySelection, export_sqlite, new_description

    ids, held_back = run_async(_ids(path, filters, include_private))
    chosen = CopySelection(ids, include_private)
    with (
        new_description(target, own=include_private),
        progress("exporting", None, "tables") as advance,
    ):
        number, left_out = export_sqlite(path, target, chosen, int(time.time()), advance)
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


def _print_import(report: ImportReport, *, as_json: bool) -> None:
    if as_json:
        print_json({**msgspec.structs.asdict(report), "stored": report.stored})
        return
    click.echo(f"{report.stored} of {report.lines} stored")
    for status, number in sorted(report.statuses.items()):
        if status != "stored":
            say(f"{number} {status}")
    for reason, number in report.reasons.items():
        say(f"  {number} × {reason} (first in line {report.first_lines[reason]})")
