"""A command group that imports a subcommand when it is run, not when help is shown."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class Entry(NamedTuple):
    """Where a subcommand lives, as `module:attribute`, and its line in the group's help."""

    target: str
    help: str


class LazyGroup(click.Group):
    """A click group over a table of entries: `--help` and completion of names import nothing."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry] | None = None, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._entries = dict(entries or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._entries, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, entry.help) for name, entry in self._entries.items()]
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str()))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
