"""Print results: tables by rich on a terminal, JSON with `--json`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from nostr_client.cli.parameters import UserPath

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn, Task
    from rich.table import Column, Table

_PIPE_WIDTH = 240

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet may run."""

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
    help="Write to this new file instead of stdout.",
)

follow_option: Callable[[F], F] = click.option(
    "--follow", "-f", is_flag=True, help="Continue with new events until interrupted."
)

once_option: Callable[[F], F] = click.option(
    "--once", is_flag=True, help="Do the work that is due once, then end."
)

until_eof_option: Callable[[F], F] = click.option(
    "--until-eof", is_flag=True, help="End when stdin ends: for a parent process."
)

force_option: Callable[[F], F] = click.option(
    "--force", is_flag=True, help="Replace an existing file."
)

print_option: Callable[[F], F] = click.option(
    "--print", "to_stdout", is_flag=True, help="Print the file instead of writing it."
)


def console(*, stderr: bool = False) -> Console:
    """Return a console that honours NO_COLOR; into a pipe it prints no colour, and never breaks a
    line.

    It prints text literally: text from relays may look like markup (`[red]`) or an emoji (`:x:`).
    """
    from rich.console import Console  # the import takes 100 ms, which commands without tables save

    out = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = _PIPE_WIDTH
    return out


def plain_table(*columns: str | Column, header: bool = True) -> Table:
    """Return an empty table in the common style: no lines between columns, no cell cut."""
    from rich.table import Column, Table

    made = (Column(one, overflow="fold") if isinstance(one, str) else one for one in columns)
    return Table(*made, box=None, pad_edge=False, show_header=header)


def print_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; cells are text, control characters in foreign text are visible."""
    from nostr_client.errors import clip

    table = plain_table(*columns)
    for row in rows:
        table.add_row(*("" if cell is None else clip(str(cell)) for cell in row))
    console().print(table, markup=False)


def print_json(value: Any) -> None:
    """Print `value` as compact JSON and a newline on stdout, always in UTF-8."""
    click.echo(msgspec.json.encode(value))


def print_done(what: str, *, as_json: bool) -> None:
    """Report that something was done; as JSON on request."""
    if as_json:
        print_json({"done": True})
    else:
        say(what)


def cell(value: object) -> str:
    """Return a value of a table for people: nothing for None, `true` and `false` as in JSON."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def say(message: str) -> None:
    """Print a line for people on stderr."""
    click.echo(message, err=True)


def csv_of(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return CSV with a header; None is an empty cell.

    Relays choose much of the text, and spreadsheets run a cell that begins like a formula: such a
    text gets a `'` before it. A lone sign is no formula: most reactions are a `+`.
    """
    return "".join(map(_csv_line, [columns, *rows]))


def _csv_line(row: Iterable[object]) -> str:
    import csv
    import io

    out = io.StringIO()
    end = "\r\n"  # the writer quotes the signs of its line end alone, and both end a row elsewhere
    csv.writer(out, lineterminator=end).writerow(map(_plain_cell, row))
    return out.getvalue().removesuffix(end) + "\n"


def _plain_cell(value: object) -> object:
    is_formula = isinstance(value, str) and len(value) > 1 and value.startswith(_FORMULA)
    return f"'{value}" if is_formula else value


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """Show a spinner on stderr while the block runs, only on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(message):
        yield


@contextmanager
def progress(what: str, total: int | None, unit: str = "events") -> Iterator[Callable[..., None]]:
    """Show a bar on stderr, only on a terminal, with the rate and the time left.

    The callable receives what is done, and optionally a total that is known only then.
    """
    from rich.progress import Progress

    err = console(stderr=True)
    columns = (*Progress.get_default_columns(), _rate(unit))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, of=None: bar.update(task, completed=done, total=of)


def _rate(unit: str) -> ProgressColumn:
    """Return the column of the rate, which is not known before the second step."""
    from rich.progress import ProgressColumn, TransferSpeedColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("?" if speed is None else f"{speed:,.0f} {unit}/s")

    return TransferSpeedColumn() if unit == "bytes" else Rate()
