"""The three programs, and every command of them by the words that name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from agent.cli import cli as agent_cli
from nostr_client.cli.app import cli as client_cli
from tui.cli import cli as tui_cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS: Final = {"nostr-client": client_cli, "nostr-agent": agent_cli, "nostr-tui": tui_cli}


def _walked(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for one in command.list_commands(ctx):
            found = command.get_command(ctx, one)
            assert found is not None
            yield from _walked(f"{name} {one}", found)


COMMANDS: Final = {
    name: command for program, cli in PROGRAMS.items() for name, command in _walked(program, cli)
}


def context(name: str) -> click.Context:
    """The context of a command as its program makes it: click keeps of each command the first help
    option that it makes, for whoever looks at the command next."""
    settings = PROGRAMS[name.partition(" ")[0]].context_settings
    return click.Context(COMMANDS[name], info_name=name, **settings)
