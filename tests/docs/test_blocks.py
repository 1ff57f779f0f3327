"""Blocks of other languages run, load or parse; what is not run is of programs that cannot."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import sys
from typing import TYPE_CHECKING

import click
import pytest

from agent.cli import cli as agent_cli
from agent.config import parse
from nostr_client.cli.app import cli
from nostr_client.codecs.nip19 import PublicKey
from tests.docs.blocks import ANY_FENCE, FENCE, ROOT, SHELL, Block, blocks, documents, inline, lines
from tests.docs.pages import CANNOT_RUN
from tests.docs.test_pages import file_name
from tests.faulty_relay import FaultyRelay
from tests.nats_peer import running_server
from tests.running import as_on_a_terminal
from tests.worlds import TARGET, Sketches, follow
from tui.cli import cli as tui_cli

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = {"nostr-client": cli, "nostr-agent": agent_cli, "nostr-tui": tui_cli}
CHECKED = {*SHELL, "python", "toml", "text"}
ASKED = {"docs/reference/tables.md"}
"""Pages with queries, which tests/agent/reindex/test_analysis.py runs."""
DEADLINE_S = 50
where = pytest.mark.parametrize


@where("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_is_of_a_language_that_is_checked(path: Path) -> None:
    text = path.read_text("utf-8")
    found = list(FENCE.finditer(text))
    assert len(ANY_FENCE.findall(text)) == 2 * len(found), "a fence without a language"
    checked = CHECKED | ({"sql"} if str(path.relative_to(ROOT)) in ASKED else set())
    assert {match[3] for match in found} <= checked
    assert not any(match[4].strip() for match in found), "a language with attributes"


SHOWN = re.compile(r"`python \w+\.py ([^`\n]+)`")
"""How a page says that its next program is called."""


def passed(block: Block, one: str, two: str) -> list[str]:
    """What the page passes to a program: the target, and the relays in their order."""
    if "sys.argv" not in block.text:
        return []
    above = (ROOT / block.page).read_text("utf-8").split(block.text)[0]
    shown = SHOWN.search(above.rpartition("```\n")[2].partition("```python")[0])
    assert shown is not None, f"{block.where}: the page does not say how it is called"
    relays = iter((one, two))
    return [
        PublicKey(TARGET).encode() if word == "npub1…" else next(relays)
        for word in shown[1].split()
    ]


@where("block", [b for b in blocks("python") if not file_name(b)], ids=lambda block: block.where)
async def test_python_blocks_run_as_scripts(block: Block, tmp_path: Path) -> None:
    """With the arguments that the page shows, to the end or, of those that stay, a first line."""
    script = tmp_path / "script.py"
    script.write_text(block.text, "utf-8")
    folders = {name: str(tmp_path) for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    events = [follow(i) for i in range(5)]
    async with FaultyRelay(Sketches(), events=events) as one, FaultyRelay(events=events) as two:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(script),
            *passed(block, one.url, two.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
            env=os.environ | folders | {"PYTHONPATH": str(ROOT)},
            preexec_fn=as_on_a_terminal,
        )
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            first = await process.stdout.readline()
            assert first, "it says nothing"
            if block.mark == "stays":
                assert b"Traceback" not in first
                process.send_signal(signal.SIGINT)
            rest, _ = await process.communicate()
    ended = -signal.SIGINT if block.mark == "stays" else 0
    assert process.returncode == ended, (first + rest).decode()


async def test_the_program_of_counters_runs_on_nats_as_its_page_says(tmp_path: Path) -> None:
    (first, _) = (b for b in blocks("python") if b.page == "docs/how-to/counters-alone.md")
    page = (ROOT / first.page).read_text("utf-8")
    use, instead = re.search(r"use `([^`]+)`\s+instead of `([^`]+)`", page).groups()
    assert first.text.count(instead) == 1
    text = first.text.replace(instead, use).replace("SqliteCounterStore", "JetStreamCounterStore")
    with running_server() as server:
        script = tmp_path / "script.py"
        script.write_text(text.replace("nats://127.0.0.1:4222", server.url), "utf-8")
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(script), cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
    assert output == b"3\n"


@where("block", blocks("toml"), ids=lambda block: block.where)
def test_configurations_load(block: Block) -> None:
    """As agent.toml, with a key for those that the page leaves out."""
    text = block.text.replace("npub1…", PublicKey(TARGET).encode())
    parse(text, block.where)


def command_lines(mark: str | None = None) -> list[tuple[str, str]]:
    """Commands of blocks, or of those with a mark."""
    return [
        (line.where, line.command.replace("\\\n", " "))
        for block in blocks(*SHELL)
        if mark in (None, block.mark)
        for line in lines(block)
        if line.command.split(" ")[0] in PROGRAMS
    ]


def inline_commands() -> list[tuple[str, str]]:
    """Commands in sentences; the changelog tells of what was, too."""
    return [
        (str(path.relative_to(ROOT)), code)
        for path in documents()
        for code in dict.fromkeys(inline(path))
        if code.split(" ")[0] in PROGRAMS and path.name != "CHANGELOG.md"
    ]


def command_of(place: str, line: str) -> tuple[click.Command, list[str]]:
    """What a line names, and its arguments."""
    words = shlex.split(re.split(r" [|>#] ?", line)[0], comments=True)
    command: click.Command = PROGRAMS[words[0]]
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(click.Context(command), rest[0])
        assert found is not None, f"{place}: no command {rest[0]}"
        command, rest = found, rest[1:]
    return command, rest


@where(("place", "line"), [*command_lines("not run"), *inline_commands()])
def test_what_no_test_runs_is_not_refused_for_its_use(place: str, line: str) -> None:
    """A sentence that names a command need not say all that it is given."""
    command, rest = command_of(place, line)
    if rest:
        with contextlib.suppress(click.MissingParameter, click.exceptions.Exit):
            settings = PROGRAMS[line.partition(" ")[0]].context_settings
            command.make_context(command.name, rest, **settings)


@where(("place", "line"), [*command_lines(), *inline_commands()])
def test_command_lines_name_commands_and_options_that_exist(place: str, line: str) -> None:
    """Also of those that are not run."""
    command, rest = command_of(place, line)
    known = {o for p in command.params for o in [*p.opts, *p.secondary_opts]} | {"--help", "-h"}
    used = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    assert used <= known, f"{place}: unknown {sorted(used - known)}"


def starts_with(command: str, program: str) -> bool:
    return f"{command} ".startswith(f"{program} ")


@where("block", [b for b in blocks(*SHELL) if b.mark], ids=lambda block: block.where)
def test_only_what_no_test_can_run_is_not_run(block: Block) -> None:
    assert block.mark == "not run"
    assert block.reason
    for line in lines(block):
        assert any(starts_with(line.command, program) for program in CANNOT_RUN), line


def test_no_program_is_let_off_in_vain() -> None:
    marked = [line.command for b in blocks(*SHELL) if b.mark for line in lines(b)]
    for program in CANNOT_RUN:
        assert any(starts_with(command, program) for command in marked), program


def test_there_is_something_to_check() -> None:
    assert any(block.where.startswith("README.md") for block in blocks("python"))
    assert command_lines()
    assert ("docs/operations.md", "nostr-agent reindex --repair") in inline_commands()
