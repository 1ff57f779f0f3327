"""The three programs, and every command of them by the words that name it."""

from __future__ import annotations

import re
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


_NAMED: Final = re.compile(rf"\b(?:{'|'.join(PROGRAMS)})(?: [a-z][a-z0-9-]*)+")


def named_in(text: str) -> dict[str, str]:
    """What a text writes as a command of ours: the command, and the word that is none, if any."""
    found = {}
    for match in _NAMED.finditer(text):
        path, *words = match[0].split(" ")
        while words and isinstance(COMMANDS[path], click.Group):
            if f"{path} {words[0]}" not in COMMANDS:
                break
            path = f"{path} {words.pop(0)}"
        is_group = isinstance(COMMANDS[path], click.Group)
        found[match[0]] = words[0] if words and is_group else ""
    return found


def context(name: str) -> click.Context:
    """The context of a command as its program makes it: click keeps of each command the first help
    option that it makes, for whoever looks at the command next."""
    settings = PROGRAMS[name.partition(" ")[0]].context_settings
    return click.Context(COMMANDS[name], info_name=name, **settings)
