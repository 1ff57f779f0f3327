"""How commands print: tables by rich on a terminal, JSON with `--json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from nostr_client.cli.parameters import UserPath

if TYPE_CHECKING:
    from datetime import tzinfo

    from rich.console import Console
    from rich.table import Column, Table

_PIPE_WIDTH = 240

F = TypeVar("F", bound=Callable[..., Any])

json_option: Callable[[F], F] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of text for people."
)
"""The `--json` flag; the command receives it as `as_json`."""

output_option: Callable[[F], F] = click.option(
    "--output",
    "-o",
    metavar="FILE",
    type=UserPath(path_type=Path, dir_okay=False),
    help="Write to this new file in place of stdout.",
)

follow_option: Callable[[F], F] = click.option(
    "--follow", "-f", is_flag=True, help="Go on with what is new until interrupted."
)

once_option: Callable[[F], F] = click.option(
    "--once", is_flag=True, help="Do once what there is to do, then end."
)

until_eof_option: Callable[[F], F] = click.option(
    "--until-eof", is_flag=True, help="End when stdin ends: for a parent process."
)

force_option: Callable[[F], F] = click.option(
    "--force", is_flag=True, help="Replace what is there."
)

print_option: Callable[[F], F] = click.option(
    "--print", "to_stdout", is_flag=True, help="Print the file instead of writing it."
)


def console(*, stderr: bool = False) -> Console:
    """A console that honours NO_COLOR; into a pipe it prints no colour, and long lines whole.

    It prints text as it is: what relays send may look like markup (`[red]`) or an emoji (`:x:`).
    """
    from rich.console import Console  # 100 ms that commands without tables need not wait for

    out = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = _PIPE_WIDTH
    return out


def plain_table(*columns: str | Column, header: bool = True) -> Table:
    """An empty table as every command prints one: no lines between columns, no cell cut."""
    from rich.table import Column, Table

    made = (Column(one, overflow="fold") if isinstance(one, str) else one for one in columns)
    return Table(*made, box=None, pad_edge=False, show_header=header)


def print_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; cells are text, foreign text has its control characters visible."""
    from nostr_client.errors import clip

    table = plain_table(*columns)
    for row in rows:
        table.add_row(*("" if cell is None else clip(str(cell)) for cell in row))
    console().print(table, markup=False)


def print_json(value: Any) -> None:
    """Print `value` as compact JSON and a newline on stdout, always in UTF-8."""
    click.echo(msgspec.json.encode(value))


def print_done(what: str, *, as_json: bool) -> None:
    """Say that something was done; as JSON where that is asked for."""
    if as_json:
        print_json({"done": True})
    else:
        say(what)


def cell(value: object) -> str:
    """A value in a table for people: nothing for None, `true` and `false` as in JSON."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def say(message: str) -> None:
    """Print talk: a line on stderr."""
    click.echo(message, err=True)


def moment(at: float, zone: tzinfo | None = UTC) -> str:
    """A time for people; one that no calendar reaches stays a number: an event may name any."""
    try:
        return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S")
    except (OSError, OverflowError, ValueError):
        return f"{at}" if isinstance(at, int) else f"{at:.0f}"


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """A spinner on stderr while the block runs, on a terminal alone."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield
        return
    with out.status(message):
        yield
