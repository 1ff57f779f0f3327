"""The documents' code runs as it stands, and their command lines exist."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from agent.cli import cli as agent_cli
from nostr_client.cli.app import cli
from nostr_client.nip19 import PublicKey
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, Sketches, follow
from tui.cli import cli as tui_cli

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+://|#)([^)#]+)[^)]*\)")
PROGRAMS = {"nostr-client": cli, "nostr-agent": agent_cli, "nostr-tui": tui_cli}


class Block(NamedTuple):
    where: str
    language: str
    text: str


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def blocks(language: str) -> list[Block]:
    found = []
    for path in documents():
        text = path.read_text("utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            if match[1] == language and "fragment" not in match[2]:
                found.append(Block(f"{path.relative_to(ROOT)}:{line}", match[1], match[3]))
    return found


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.where)
async def test_python_blocks_run_as_scripts(block: Block, tmp_path: Path) -> None:
    """As `script.py NPUB RELAY RELAY`; mark a block `python fragment` when it cannot run alone."""
    script = tmp_path / "script.py"
    script.write_text(block.text, "utf-8")
    folders = {name: str(tmp_path) for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    events = [follow(i) for i in range(5)]
    async with FaultyRelay(Sketches(), events=events) as one, FaultyRelay(events=events) as two:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(script),
            PublicKey(TARGET).encode(),
            one.url,
            two.url,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
            env=os.environ | folders | {"PYTHONPATH": str(ROOT)},
        )
        async with asyncio.timeout(50):
            said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert said, "it says nothing"


def command_lines() -> list[tuple[str, str]]:
    lines = []
    for block in blocks("console"):
        for line in block.text.replace("\\\n", " ").splitlines():
            bare = line.removeprefix("$ ").strip()
            if bare.split(" ")[0] in PROGRAMS:
                lines.append((block.where, bare))
    return lines


@pytest.mark.parametrize(("where", "line"), command_lines())
def test_command_lines_name_commands_and_options_that_exist(where: str, line: str) -> None:
    words = shlex.split(re.split(r" [|>#] ?", line)[0], comments=True)
    command: click.Command = PROGRAMS[words[0]]
    rest = words[1:]
    while isinstance(command, click.Group) and rest:
        found = command.get_command(click.Context(command), rest[0])
        assert found is not None, f"{where}: no command {rest[0]}"
        command, rest = found, rest[1:]
    known = {o for p in command.params for o in [*p.opts, *p.secondary_opts]} | {"--help", "-h"}
    used = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    assert used <= known, f"{where}: unknown {sorted(used - known)}"


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def test_there_is_something_to_check() -> None:
    assert any(block.where.startswith("README.md") for block in blocks("python"))
    assert command_lines()
