"""Nothing that can be typed is without help: commands, options and arguments of every program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.commands import COMMANDS, PROGRAMS, context


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_and_option_says_what_it_is(name: str) -> None:
    command = COMMANDS[name]
    assert command.help, name
    assert len(command.get_short_help_str(200)) < 90, "the first sentence stands in a list"
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{name} {parameter.opts[0]}"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_argument_is_in_the_usage(name: str) -> None:
    command = COMMANDS[name]
    usage = command.get_usage(context(name))
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            shown = parameter.make_metavar(context(name))
            assert shown in usage
            assert shown.startswith(("[", "{")) or parameter.required, "it may be left out"


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_programs_tell_their_exit_codes(program: str) -> None:
    assert "Exit codes: 0 ok, 1 failure, " in (PROGRAMS[program].help or "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", list(PROGRAMS))
def test_every_program_completes_itself_in_a_shell(program: str, shell: str) -> None:
    variable = f"_{program.upper().replace('-', '_')}_COMPLETE"
    done = subprocess.run(
        [Path(sys.executable).with_name(program)],
        env={**os.environ, variable: f"{shell}_source"},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{variable}={shell}_complete" in done.stdout
