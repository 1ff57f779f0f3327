"""`nostr-client sync run` and `mirror`: bring the store and relays to the same events (NIP-77)."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import click

from nostr_client.cli.entry import FAILURE, NO_RELAY, OK, TIMEOUT, CommandGroup, run_async
from nostr_client.cli.filteroptions import Conditions, filter_options
from nostr_client.cli.key import key_file_option, optional_signer
from nostr_client.cli.names import conditions_with_keys
from nostr_client.cli.output import console, json_option, plain_table, print_json, say
from nostr_client.cli.parameters import Seconds
from nostr_client.cli.place import StoreOrAgent, place_option, store_option
from nostr_client.cli.questions import dry_run_option, moving_options, window_option
from nostr_client.cli.relays import chosen_relays, network_options, relay_option
from nostr_client.cli.store.commands import open_to_read
from nostr_client.cli.sync.kept import add, cancel, list_, print_syncs, remove, run_kept
from nostr_client.cli.sync.kept import show as show_kept
from nostr_client.codecs.display import moment, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from rich.console import Console
    from rich.table import Table

    from nostr_client.client import NostrClient
    from nostr_client.codecs.filters import Filter
    from nostr_client.options import Options
    from nostr_client.store.sync_memory import TriedEvents, TriedFilter
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.procedure import OnProgress, Question
    from nostr_client.sync.report import RelayReport, SyncReport


_MEAN_BYTES = 700
"""Assumed size of an event before the first download."""


@contextmanager
def sync_bars(*, shown: bool) -> Iterator[OnProgress | None]:
    """Yield a function that shows the relays' numbers so far, or None without a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield None
        return
    with SyncBars(console(stderr=True)) as bars:
        yield bars.update


class SyncBars:
    """A context manager; `update` shows the relays' numbers so far."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._tasks: list[int] = []
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[numbers_line]}"),
            console=console,
        )

    def update(self, relays: Sequence[RelayReport]) -> None:
        """Show the numbers so far."""
        for index, one in enumerate(relays):
            if index >= len(self._tasks):
                self._tasks.append(self._progress.add_task(one.relay, numbers_line="", total=None))
            self._progress.update(
                self._progress.tasks[self._tasks[index]].id,
                completed=one.downloaded + one.uploaded,
                total=(one.need + one.have) or None,
                numbers_line=numbers_line(one),
            )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()


def numbers_line(one: RelayReport) -> str:
    """Return one relay's numbers in a line."""
    return (
        f"{plural(one.rounds, 'round')}, need {one.need:,}, have {one.have:,}, "
        f"down {one.downloaded:,}, up {one.uploaded:,}, saved {saved_bytes(one):,} bytes"
    )


def saved_bytes(one: RelayReport) -> int:
    """Return about how many bytes less this took than a transfer of everything compared."""
    full = one.compared * _MEAN_BYTES
    return max(0, full - one.bytes_sent - one.bytes_received)


_SIDES = ("down", "up")


@click.command()
@store_option
@relay_option
@click.option(
    "--clear", is_flag=True, help="Clear the memory, so that the next sync tries everything again."
)
@json_option
def memory(store: Path | None, relays: tuple[str, ...], clear: bool, as_json: bool) -> None:
    """Show what a sync does not try again yet, and why; of the given relays, else of all.

    The memory has events that a relay refused or named and did not send, and filters that it does
    not compare by NIP-77, each for the key that was used, with the time of the next try.
    """
    place = StoreOrAgent(store).there
    if clear:
        gone = run_async(_clear(place, relays))
        if as_json:
            print_json({"cleared": gone})
        else:
            say(f"{plural(gone, 'entry', 'entries')} cleared")
        return
    events, filters = run_async(_read(place, relays))
    if as_json:
        print_json({"events": list(map(_event, events)), "filters": list(map(_filter, filters))})
    else:
        _show(events, filters)


async def _read(
    place: Path, relays: tuple[str, ...]
) -> tuple[list[TriedEvents], list[TriedFilter]]:
    from nostr_client.codecs.relay_url import normalize
    from nostr_client.store.sync_memory import TriedTable

    chosen = {normalize(one) for one in relays}
    async with await open_to_read(place) as opened:
        events, filters = await TriedTable(opened.database).summary(int(time.time()))
    return (
        [one for one in events if not chosen or one.relay in chosen],
        [one for one in filters if not chosen or one.relay in chosen],
    )


async def _clear(place: Path, relays: tuple[str, ...]) -> int:
    from nostr_client.codecs.relay_url import normalize
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.store.sync_memory import TriedTable

    async with await SqliteStore.open(place) as store:
        chosen = [normalize(one) for one in relays]
        return await TriedTable(store.database).clear(chosen or None)


def _event(one: TriedEvents) -> dict[str, object]:
    return one._asdict() | {"side": _SIDES[one.side]}


def _filter(one: TriedFilter) -> dict[str, object]:
    return one._asdict()


def _show(events: list[TriedEvents], filters: list[TriedFilter]) -> None:
    from rich.text import Text

    if not events and not filters:
        say("nothing is remembered")
        return
    columns = ("relay", "key", "what", "verdict", "reason", "next try (UTC)")
    shown = plain_table(*columns)
    rows = [
        (e.relay or "any", e.key[:8], f"{plural(e.events, 'event')} {_SIDES[e.side]}", e.verdict,
         e.reason, moment(e.first_due))
        for e in events
    ]  # fmt: skip
    rows += [
        (f.relay, f.key[:8], f.scope or "NIP-77", "by REQ", f.reason, moment(f.until))
        for f in filters
    ]
    for row in rows:
        shown.add_row(*map(Text, row))
    console().print(shown)


@click.group(cls=CommandGroup)
def sync() -> None:
    """Bring the store and relays to the same events, once, or repeatedly by an agent."""


@sync.command()
@click.argument("name", required=False)
@filter_options
@relay_option
@moving_options
@dry_run_option
@click.option(
    "--filter-event",
    metavar="ID",
    help="Use the filter, or the array of filters, in the content of this event (note, nevent or "
    "hex).",
)
@window_option
@click.option(
    "--stop-after",
    metavar="SECONDS",
    type=Seconds(),
    help="Stop after this long. Default: every step has its own deadline, and the whole has none.",
)
@click.option("--print-missing", is_flag=True, help="Print the ids that differ.")
@key_file_option
@network_options()
@place_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    name: str | None,
    place: StoreOrAgent,
    relays: tuple[str, ...],
    conditions: Conditions,
    filter_event: str | None,
    window: int,
    stop_after: float | None,
    print_missing: bool,
    key_file: str | None,
    network: Options,
    as_json: bool,
    **moving: Any,
) -> None:
    """Bring the events of relays into the store, the other way, or both.

    Nothing leaves the store unless --direction says so. Then only your own public events go, by the
    given key, and those that a filter names: its kinds, and for others' events its authors.

    Ids are compared by negentropy (NIP-77), and only the difference moves. A relay without NIP-77
    is read by REQ, page by page. You can stop a sync at any time: the next run continues. Exit code
    0 if every relay is complete, 1 if something is left, 3 if no relay could be compared.

    With NAME an agent runs its own sync of that name, and no other option has an effect.
    """
    if name is not None:
        kept = run_async(run_kept(place, name))
        if as_json:
            print_json(kept)
        else:
            print_syncs([kept])
        ctx.exit(_code((one["status"], one["reason"]) for one in kept["relays"]))
    from nostr_client.client import NostrClient
    from nostr_client.sync.options import SyncOptions

    urls = chosen_relays(relays)
    question = _question(conditions_with_keys(conditions, network), filter_event)
    path = place.there if moving["direction"] == "up" else place.path
    signer = optional_signer(key_file)
    client = NostrClient(urls, store=path, signer=signer, options=network)
    options = SyncOptions(window=window)
    moving["keep_ids"] = print_missing
    report = run_async(_sync(client, question, options, stop_after, not as_json, moving))
    if as_json:
        print_json({**report.to_dict(), **(missing(report) if print_missing else {})})
    else:
        show(report, print_missing)
    ctx.exit(sync_code(report))


for command in (memory, add, list_, show_kept, remove, cancel):
    sync.add_command(command)


def _question(conditions: Conditions, filter_event: str | None) -> Question:
    from nostr_client.codecs.typed import event_id

    if conditions.given == bool(filter_event):
        raise click.UsageError("say what to sync: a filter, as --kind 1, or --filter-event ID")
    return conditions.chosen() if filter_event is None else event_id(filter_event)


async def _sync(
    client: NostrClient,
    question: Question,
    options: SyncOptions,
    timeout: float | None,
    bars: bool,
    moving: dict[str, Any],
) -> SyncReport:

    async with client:
        with sync_bars(shown=bars) as shown:
            return await client.sync(
                question, options=options, timeout=timeout, on_progress=shown, **moving
            )


def missing(report: SyncReport) -> dict[str, Any]:
    """Return the ids that differ, by relay."""
    return {
        "missing": [
            {"relay": one.relay, "need": one.missing_here, "have": one.missing_there}
            for one in report.relays
        ]
    }


def show(report: SyncReport, print_missing: bool) -> None:
    """Print the report as a table; with ids, stdout has only ids and stderr the table."""
    for one in report.relays if print_missing else ():
        for key in one.missing_here:
            click.echo(f"need {key} {one.relay}")
        for key in one.missing_there:
            click.echo(f"have {key} {one.relay}")
    console(stderr=print_missing).print(table(report))


def table(report: SyncReport, names: Mapping[str, str] | None = None) -> Table:
    """Return one row for each relay, called by `names`."""
    from rich.text import Text

    from nostr_client.errors import clip

    columns = ("relay", "status", "need", "have", "downloaded", "uploaded", "received", "reason")
    shown = plain_table(*columns)
    for one in report.relays:
        numbers = (one.need, one.have, one.downloaded, one.uploaded, one.bytes_received)
        name = clip((names or {}).get(one.relay, one.relay))
        cells = [name, str(one.status), *(f"{number:,}" for number in numbers)]
        shown.add_row(*(Text(cell) for cell in (*cells, clip(one.reason))))
    return shown


def sync_code(report: SyncReport) -> int:
    """Return 0 if all is complete, 1 if something is left, 3 or 124 if nothing was compared."""
    return _code((str(one.status), one.reason) for one in report.relays)


def _code(relays: Iterable[tuple[str, str]]) -> int:
    """Return the exit code for the statuses and reasons of relays."""
    found = list(relays)
    statuses = {status for status, _ in found}
    if statuses == {"complete"}:
        return OK
    if statuses != {"failed"}:
        return FAILURE
    late = all("stopped after" in reason for _, reason in found)
    return TIMEOUT if late else NO_RELAY


@click.command()
@click.argument("first", metavar="RELAY_A")
@click.argument("second", metavar="RELAY_B")
@filter_options
@moving_options
@dry_run_option
@store_option
@key_file_option
@network_options()
@json_option
@click.pass_context
def mirror(
    ctx: click.Context,
    /,
    first: str,
    second: str,
    conditions: Conditions,
    store: Path | None,
    key_file: str | None,
    network: Options,
    as_json: bool,
    **moving: Any,
) -> None:
    """Copy what RELAY_B lacks from RELAY_A; with --direction up the other way, or both.

    Your own public events are copied, by the given key, and those that a filter names: its kinds,
    and for others' events its authors. --include-others copies everybody's.

    The relays are compared by negentropy (NIP-77), and only the difference passes through here. A
    relay without NIP-77 is read by REQ, as is what a relay leaves out. --store remembers what was
    refused or withheld. Exit codes as for sync.
    """
    from nostr_client.client import NostrClient
    from nostr_client.codecs.filters import Filter

    asked = conditions_with_keys(conditions, network).optional() or [Filter()]
    client = NostrClient(store=store, signer=optional_signer(key_file), options=network)
    report = run_async(_mirror(client, asked, (first, second), not as_json, moving))
    if as_json:
        print_json(report.to_dict())
    else:
        show(report, False)
    ctx.exit(sync_code(report))


async def _mirror(
    client: NostrClient,
    asked: Sequence[Filter],
    relays: tuple[str, str],
    bars: bool,
    moving: dict[str, Any],
) -> SyncReport:
    async with client:
        with sync_bars(shown=bars) as shown:
            return await client.mirror(asked, *relays, on_progress=shown, **moving)
