"""How commands print: tables by rich on a terminal, JSON with `--json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

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
    """An empty table as every command prints one: columns, and no lines between them."""
    from rich.table import Table

    return Table(*columns, box=None, pad_edge=False, show_header=header)


def print_json(value: Any) -> None:
    """Print `value` as compact JSON and a newline on stdout, always in UTF-8."""
    click.echo(msgspec.json.encode(value))


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
