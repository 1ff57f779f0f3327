"""Write manual pages of the programs: `python scripts/manpages.py FOLDER`.

The text is that of `--help`, one page a program, a section for each command.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.cli import cli as agent_cli
from nostr_client import __version__
from nostr_client.cli.app import cli as client_cli
from tui.cli import cli as tui_cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS: dict[str, click.Command] = {
    "nostr-client": client_cli,
    "nostr-agent": agent_cli,
    "nostr-tui": tui_cli,
}


def pages() -> dict[str, str]:
    """The text of every page, in the language of man(7), by its file name."""
    return {f"{name}.1": "\n".join(_page(name, one)) for name, one in PROGRAMS.items()}


def _page(name: str, command: click.Command) -> Iterator[str]:
    first, _, rest = inspect.cleandoc(command.help or "").partition("\n\n")
    yield f'.TH {name.upper()} 1 "" "nostr-tally {__version__}"'
    yield f".SH NAME\n{_text(name)} \\- {_text(' '.join(first.split()).rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield f".B {_text(name)}\n{_text(_usage(name, command))}"
    if rest:
        yield f".SH DESCRIPTION\n{_paragraphs(rest)}"
    yield from _options(command, name)
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for words, one in _commands(name, command):
            yield f".SS {_text(words)} {_text(_usage(words, one))}"
            yield _paragraphs(inspect.cleandoc(one.help or ""))
            yield from _listed(one, words)


def _commands(name: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = _context(name, group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if command is None or command.hidden:
            continue
        yield f"{name} {word}", command
        if isinstance(command, click.Group):
            yield from _commands(f"{name} {word}", command)


def _context(name: str, command: click.Command) -> click.Context:
    """The context that the program makes: click keeps the first help option of each command."""
    settings = PROGRAMS[name.partition(" ")[0]].context_settings
    return click.Context(command, info_name=name, **settings)


def _usage(name: str, command: click.Command) -> str:
    return " ".join(command.collect_usage_pieces(_context(name, command)))


def _options(command: click.Command, name: str) -> Iterator[str]:
    yield ".SH OPTIONS"
    yield from _listed(command, name)


def _listed(command: click.Command, name: str) -> Iterator[str]:
    context = _context(name, command)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield f".TP\n.B {_text(record[0])}\n{_text(record[1])}"


def _paragraphs(text: str) -> str:
    parts = (" ".join(part.split()) for part in text.replace("\b", "").split("\n\n"))
    return "\n.PP\n".join(_text(part) for part in parts if part)


def _text(text: str) -> str:
    """Text of which roff takes no letter for its own: backslashes, dashes, a dot in front."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", plain)


def main() -> None:
    """Write the pages into the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
