"""Manual pages say what `--help` says, and roff takes none of it for its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from runpy import run_path

import click
import pytest

from tests.commands import COMMANDS, PROGRAMS, context
from tests.conftest import require_tool

PAGES = run_path(str(Path(__file__).parents[1] / "scripts/manpages.py"))["pages"]()


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_every_command_and_option_is_there(program: str) -> None:
    page = PAGES[f"{program}.1"].replace("\\-", "-")
    for name, command in COMMANDS.items():
        if name.partition(" ")[0] != program or command.hidden:
            continue
        assert name == program or f".SS {name} " in page
        for parameter in command.get_params(context(name)):
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[0] in page, f"{name} {parameter.opts[0]}"


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_each_request_of_roff_is_ours(program: str) -> None:
    ours = {".TH", ".SH", ".SS", ".TP", ".B", ".PP"}
    lines = PAGES[f"{program}.1"].splitlines()
    assert {line.split()[0] for line in lines if line.startswith((".", "'"))} <= ours
    assert all(re.fullmatch(r"(?:[^\\]|\\[-e&])*", line) for line in lines)


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_groff_formats_it_without_a_word(program: str) -> None:
    done = subprocess.run(
        [require_tool("groff"), "-ww", "-Kutf8", "-Tutf8", "-man"],
        input=PAGES[f"{program}.1"], capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert not [line for line in done.stderr.splitlines() if "adjust" not in line]
    assert "OPTIONS" in done.stdout
