"""How commands print: tables by rich on a terminal, one JSON object with `--json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

json_option: Callable[[F], F] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of a table."
)
"""The `--json` flag; the command receives it as `as_json`."""


def console(*, stderr: bool = False) -> Console:
    """A console that honours NO_COLOR and prints no colour into a pipe."""
    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def print_json(value: Any) -> None:
    """Print `value` as one compact JSON object and a newline on stdout."""
    click.echo(msgspec.json.encode(value).decode("utf-8"))


def say(message: str) -> None:
    """Print talk: a line on stderr."""
    click.echo(message, err=True)
