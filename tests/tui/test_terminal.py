"""In a real terminal, by tmux: start, type, read the screen, leave it as it was."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import require_tool
from tests.rights import secret_file
from tests.tui.backend import TOKEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.tui.backend import Recorded, Served

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0

BREAKS = """
import sys
from tui.pages.overview import Overview
def tick(self): raise RuntimeError("broken on purpose")
Overview.tick = tick
from tui.cli import main
main()
"""


class Terminal:
    """A shell in a tmux of its own."""

    def __init__(self, tmux: str, folder: Path, **env: str) -> None:
        self._tmux = [tmux, "-L", f"tally-{uuid.uuid4().hex[:8]}", "-f", "/dev/null"]
        clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TMUX", "CI")}
        self._env = clean | {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"} | env
        self._folder = folder

    async def run(self, *args: str, program: tuple[str, ...] = ()) -> str:
        """What tmux, or another program, says."""
        process = await asyncio.create_subprocess_exec(
            *(program or self._tmux),
            *args,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._env,
            cwd=self._folder,
        )
        async with asyncio.timeout(PATIENCE_S):
            said, _ = await process.communicate()
        return said.decode("utf-8", "replace")

    async def type(self, text: str, *keys: str) -> None:
        """A text, then keys by name."""
        await self.run("send-keys", "-t", "t", "-l", text)
        if keys:
            await self.press(*keys)

    async def press(self, *keys: str) -> None:
        await self.run("send-keys", "-t", "t", *keys)

    async def screen(self, *more: str) -> str:
        return await self.run("capture-pane", "-p", "-t", "t", *more)

    async def until(self, *texts: str, there: bool = True) -> str:
        """The screen once all texts are there (or none any more); fails after a while.

        What is drawn in one turn may come to the terminal in several.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    shown = await self.screen()
                    if all((text in shown) is there for text in texts):
                        return shown
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(await self.screen()) from None

    async def restored(self) -> None:
        """The shell is back: what it showed before, its echo, its cursor, and no mouse."""
        await self.until("before-it-began")
        await self.type("stty -a; echo code=$? and-after", "Enter")
        shown = await self.until("code=0 and-after")
        assert " echo " in shown
        assert " icanon " in shown
        flags = "#{alternate_on} #{mouse_any_flag} #{cursor_flag}"
        assert await self.run("display-message", "-p", "-t", "t", flags) == "0 0 1\n"

    async def pid(self) -> int:
        """The process that the shell waits for."""
        shell = await self.run("display-message", "-p", "-t", "t", "#{pane_pid}")
        return int(await self.run("-P", shell.strip(), program=(require_tool("pgrep"),)))


@asynccontextmanager
async def terminal(folder: Path, **env: str) -> AsyncIterator[Terminal]:
    """A shell that has said something; gone after the block."""
    one = Terminal(require_tool("tmux"), folder, **env)
    await one.run("new-session", "-d", "-s", "t", "-x", "100", "-y", "30", "sh")
    try:
        await one.type("echo before-it-began", "Enter")
        await one.until("before-it-began")
        yield one
    finally:
        await one.run("kill-server")


async def begin(terminal: Terminal, api: Served, folder: Path, how: str = "-m tui") -> None:
    secret_file(folder / "token", TOKEN)
    options = f"--api {api.api.url} --token-file {folder / 'token'}"
    await terminal.type(f"{sys.executable} {how} {options}; echo left-with=$?", "Enter")


async def test_it_is_used_and_left_and_the_terminal_is_as_before(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    async with terminal(tmp_path) as shell:
        await begin(shell, api, tmp_path)
        shown = await shell.until("launch-reactions", "● live")
        assert "before-it-began" not in shown
        await shell.press("/")
        await shell.type("zaps")
        await shell.until("launch-reactions", there=False)
        await shell.press("Escape")
        await shell.until("launch-reactions")
        await shell.press("2")
        await shell.until("2310 ms")
        await shell.press("q")
        await shell.until("left-with=0")
        await shell.restored()


async def test_a_signal_ends_it_in_order(tmp_path: Path, api: Served, agent: Recorded) -> None:
    async with terminal(tmp_path) as shell:
        await begin(shell, api, tmp_path)
        await shell.until("launch-reactions")
        os.kill(await shell.pid(), signal.SIGTERM)
        await shell.until("left-with=143")
        await shell.restored()


async def test_an_error_of_ours_ends_it_in_order_and_is_told(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    (tmp_path / "breaks.py").write_text(BREAKS)
    async with terminal(tmp_path) as shell:
        await begin(shell, api, tmp_path, str(tmp_path / "breaks.py"))
        await shell.until("left-with=1")
        assert "broken on purpose" in await shell.screen("-S", "-200")
        await shell.type("clear; echo before-it-began", "Enter")
        await shell.restored()


async def test_no_colour_and_ascii_where_the_terminal_asks_for_it(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    async with terminal(tmp_path, NO_COLOR="1", LC_ALL="C") as shell:
        await begin(shell, api, tmp_path)
        await shell.until("~ 184,312", ">= 58")
        coloured = await shell.screen("-e")
        assert "[38;" not in coloured
        assert "[48;" not in coloured
        await shell.press("q")
        await shell.until("left-with=0")
