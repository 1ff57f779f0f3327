"""`nostr-client store sql`: query the store's views in SQL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from nostr_client.cli.output import console, csv_of, json_option, plain_table, print_json, say
from nostr_client.cli.parameters import Seconds
from nostr_client.cli.place import StoreOrAgent, store_option
from nostr_client.cli.questions import include_private_option
from nostr_client.codecs.display import plural
from nostr_client.errors import clip
from nostr_client.store.sql.query import MOST_ROWS, MOST_SECONDS, SqlReader

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.store.sql.query import SqlResult

CELL_BYTES = 120
"""Most bytes of a cell in a table for people; --csv and --json have all of it."""


@click.command()
@click.argument("query", metavar="SELECT")
@store_option
@click.option(
    "--table", "form", flag_value="table", default=True, help="Print a table (the default)."
)
@click.option("--csv", "form", flag_value="csv", help="Print CSV with a header.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=MOST_ROWS,
    show_default=True,
    help="Print at most this many rows.",
)
@click.option(
    "--seconds",
    type=Seconds(),
    default=MOST_SECONDS,
    show_default=True,
    help="Stop a query that takes longer.",
)
@click.option(
    "--private-kind",
    "named",
    metavar="KIND",
    type=click.IntRange(0, 65535),
    multiple=True,
    help="Also show this private kind.",
)
@include_private_option
@json_option
def sql(
    query: str,
    store: Path | None,
    form: str,
    rows: int,
    seconds: float,
    named: tuple[int, ...],
    include_private: bool,
    as_json: bool,
) -> None:
    """Run one SELECT over the store's views; "-" reads it from stdin.

    The views are events, tags, authors, followers, reactions, reposts, replies, zaps, claims,
    watch_history, watch_within and counters. The statement can write nothing and read nothing else.
    Private kinds are hidden unless they are named. The agent may run meanwhile.
    """
    private = None if include_private else frozenset(named)
    asking = SqlReader(private=private, rows=rows, seconds=seconds)
    found = asking.ask(StoreOrAgent(store).path, sys.stdin.read() if query == "-" else query)
    _PRINT["json" if as_json else form](found)
    if found.cut:
        say(f"nostr-client: store sql: the first {plural(rows, 'row')}; --rows N prints more")


def _print_table(found: SqlResult) -> None:
    table = plain_table(*found.columns)
    for row in found.rows:
        table.add_row(*("" if value is None else _shown(value) for value in row))
    console().print(table)


def _shown(value: Any) -> str:
    return clip(str(_plain(value)), CELL_BYTES)


def _print_csv(found: SqlResult) -> None:
    text = csv_of(found.columns, (map(_plain, row) for row in found.rows))
    click.echo(text.encode(), nl=False)


def _print_json(found: SqlResult) -> None:
    print_json([dict(zip(found.columns, map(_plain, row), strict=True)) for row in found.rows])


def _plain(value: Any) -> Any:
    """Return a blob as hex: the views have none, but an expression may make one."""
    return value.hex() if isinstance(value, bytes) else value


_PRINT = {"table": _print_table, "csv": _print_csv, "json": _print_json}
