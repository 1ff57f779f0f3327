"""`nostr-agent archive`: events between a store and JSONL, plain or packed, or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import chosen_store, config_options
from nostr_client.cli.entry import FAILURE, CommandGroup, run_async_until_sigterm
from nostr_client.cli.filteroptions import Conditions, filter_options, refuse_limits
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.parameters import UserPath
from nostr_client.cli.place import store_option
from nostr_client.cli.questions import include_private_option
from nostr_client.cli.store.files import say_held_back
from nostr_client.codecs.display import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.sync.files.jsonl import ImportReport


@click.group(cls=CommandGroup)
def archive() -> None:
    """Events in files: JSONL, plain or packed by gzip or zstd, or Parquet by kind and day."""


@archive.command("export")
@click.argument("target", type=UserPath(path_type=Path))
@click.option(
    "--form",
    type=click.Choice(["jsonl", "gzip", "zstd", "parquet"]),
    help="Else by the name: .jsonl, .gz, .zst; .parquet or no ending: a folder of Parquet.",
)
@store_option
@filter_options
@include_private_option
@config_options
@json_option
def export_(
    target: Path,
    include_private: bool,
    form: Any,
    store: Path | None,
    config: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
    conditions: Conditions,
) -> None:
    """Write what matches, or all public events, into TARGET; works beside the running agent.

    There is no limit: `nostr-client store query` prints the newest events.
    """
    from agent.maintenance.archive import form_of

    filters = conditions.optional()
    refuse_limits(filters, "export")
    path, form = chosen_store(store, config, settings), form_of(target, form)
    number, held_back = run_async_until_sigterm(
        _export(path, filters, include_private, target, form)
    )
    if as_json:
        answer = {"events": number, "held_back": held_back, "target": str(target), "form": form}
        print_json(answer)
    else:
        say(f"{plural(number, 'event')} in {target}")
        say_held_back(held_back)


@archive.command("import")
@click.argument("paths", nargs=-1, required=True, type=UserPath(path_type=Path, exists=True))
@store_option
@config_options
@json_option
def import_(
    paths: tuple[Path, ...],
    store: Path | None,
    config: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Verify and save what PATHS hold, files or folders; the agent must not run.

    Of a folder those files are read whose names are an archive's. Ends with 1 where a line is no
    event; the others are saved.
    """
    reports = run_async_until_sigterm(_import(chosen_store(store, config, settings), paths))
    stored = sum(report.stored for report, _ in reports)
    events = sum(report.lines for report, _ in reports)
    rejected: dict[str, int] = {}
    for report, rejects in reports:
        for reason, number in (*rejects.items(), *report.reasons.items()):
            rejected[reason] = rejected.get(reason, 0) + number
    lines = events + sum(sum(rejects.values()) for _, rejects in reports)
    if as_json:
        print_json({"lines": lines, "events": events, "stored": stored, "rejected": rejected})
    else:
        click.echo(f"{stored} of {lines} stored")
        for reason, number in rejected.items():
            say(f"{number:,} rejected: {reason}")
    if rejected or not all(report.whole for report, _ in reports):
        click.get_current_context().exit(FAILURE)


async def _export(
    path: Path, filters: Sequence[Filter], include_private: bool, target: Path, form: Any
) -> tuple[int, int]:
    from agent.maintenance.archive import export
    from nostr_client.codecs.private_kinds import PublicEvents
    from nostr_client.store.sqlite import SqliteStore

    async with await SqliteStore.open(path, read_only=True) as opened:
        events = PublicEvents(opened.export(filters), filters, include_private=include_private)
        return await export(aiter(events), target, form), events.held_back


async def _import(path: Path, paths: Sequence[Path]) -> list[tuple[ImportReport, dict[str, int]]]:
    from agent.maintenance.archive import import_ as read_in
    from agent.maintenance.archive import sources
    from nostr_client.store.sqlite import SqliteStore

    found = sources(paths)
    async with await SqliteStore.open(path) as opened:
        return [await read_in(opened, source) for source in found]
