"""It ends with its terminal and at a signal, whatever it does, and leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.rights import secret_file
from tests.tui.backend import TOKEN
from tests.tui.pty_program import PATIENCE_S, children_of, gone, pty_program
from tui.ending import RESTORE, TERMINATED

if TYPE_CHECKING:
    from tests.tui.backend import Recorded, Served
    from tests.tui.pty_program import PtyProgram

ROOT = Path(__file__).parents[2]
ALT_SCREEN, BACK = b"\x1b[?1049h", b"\x1b[?1049l"
STAGES = {"start": (b"", ALT_SCREEN), "reading": (b"", b"launch-reactions")}
STAGES |= {"dialogue": (b"a", b"Watch something"), "question": (b"D", b"Remove the watch")}
"""What is typed once there are watches, and what has to be drawn before the end comes."""

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)

BLOCKED = """
import os, time
from tui import ending
from tui.pages.overview import Overview
def tick(self):
    os.write(2, b"it hangs now")
    time.sleep(3600)
Overview.tick, ending.GRACE_S = tick, 0.5
from tui.cli import main
main()
"""


def words_of(folder: Path, api: Served, *how: str) -> list[str]:
    token = secret_file(folder / "token", TOKEN)
    return [*(how or ("-m", "tui")), "--api", api.api.url, "--token-file", str(token)]


def env_of(folder: Path) -> dict[str, str]:
    names = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
    left_out = ("NO_COLOR", "TMUX", "CI", *names)
    clean = {k: v for k, v in os.environ.items() if k not in left_out}
    homes = dict.fromkeys(names, str(folder))
    folder.chmod(0o700)
    return clean | homes | {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}


async def reach(program: PtyProgram, stage: str) -> None:
    keys, drawn = STAGES[stage]
    if keys:
        await program.until(b"launch-reactions")
        program.type(keys)
    await program.until(drawn)


@SIGNALS
@pytest.mark.parametrize("stage", STAGES)
async def test_a_signal_ends_it_and_restores_the_terminal(
    stage: str, number: signal.Signals, tmp_path: Path, api: Served, agent: Recorded
) -> None:
    async with pty_program(words_of(tmp_path, api), env_of(tmp_path)) as program:
        await reach(program, stage)
        program.process.send_signal(number)
        assert await program.ended() == TERMINATED
        await program.until(BACK)
        assert program.is_restored


@pytest.mark.parametrize("is_controlling", [True, False], ids=["with SIGHUP", "without a signal"])
@pytest.mark.parametrize("stage", STAGES)
async def test_it_ends_with_its_terminal(
    stage: str, tmp_path: Path, api: Served, agent: Recorded, *, is_controlling: bool
) -> None:
    """A closed window or pane: the kernel signals only what the terminal controls."""
    words, env = words_of(tmp_path, api), env_of(tmp_path)
    async with pty_program(words, env, is_controlling=is_controlling) as program:
        await reach(program, stage)
        program.lose()
        await program.ended()


@SIGNALS
async def test_a_signal_ends_it_while_nobody_reads_what_it_draws(
    number: signal.Signals, tmp_path: Path, api: Served, agent: Recorded
) -> None:
    """A stopped terminal: its writes wait, and so does the event loop."""
    async with pty_program(words_of(tmp_path, api), env_of(tmp_path)) as program:
        await reach(program, "reading")
        program.hold()
        for _ in range(200):
            program.type(b"12345")
        program.process.send_signal(number)
        assert await program.ended() == TERMINATED
        assert program.is_restored


async def test_a_signal_ends_it_while_its_event_loop_hangs(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    """The end is then forced, and switches off all that was switched on."""
    (tmp_path / "hangs.py").write_text(BLOCKED)
    words = words_of(tmp_path, api, str(tmp_path / "hangs.py"))
    async with pty_program(words, env_of(tmp_path)) as program:
        await program.until(b"it hangs now")
        program.process.send_signal(signal.SIGTERM)
        assert await program.ended() == TERMINATED
        await program.until(RESTORE)
        assert program.is_restored


@pytest.mark.parametrize("is_lost", [True, False], ids=["terminal lost", "SIGTERM"])
async def test_the_agent_that_it_started_ends_with_it(tmp_path: Path, *, is_lost: bool) -> None:
    (tmp_path / "agent.toml").write_text(
        '[relays]\ndefault = ["ws://127.0.0.1:1"]\nindexers = []\n[relay]\nenabled = false\n'
        f'[api]\nlisten = "127.0.0.1:0"\n[store]\npath = "{tmp_path / "events.db"}"\n'
    )
    env = env_of(tmp_path) | {"NOSTR_AGENT_CONFIG": str(tmp_path / "agent.toml")}
    async with pty_program(["-m", "tui", "--embedded"], env) as program:
        await program.until(b"No watches yet.")
        (child,) = children_of(program.process.pid)
        if is_lost:
            program.lose()
        else:
            program.process.send_signal(signal.SIGTERM)
        await program.ended()
        await gone(child)


async def test_a_tab_ends_with_the_server_that_shows_it(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    """A server that is killed sends no signal to its tabs: their pipes are closed."""
    driver = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    tab = await asyncio.create_subprocess_exec(
        sys.executable, *words_of(tmp_path, api), env=env_of(tmp_path) | driver, **pipes
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            await tab.stdout.readuntil(b"launch-reactions")
            tab.stdin.close()
            tab._transport.get_pipe_transport(1).close()
            await tab.wait()
    finally:
        if tab.returncode is None:
            tab.kill()
            await tab.wait()
