"""Running a page's commands one after the other, as its reader does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import signal
from typing import TYPE_CHECKING

from tests.docs.pages import READY
from tests.running import as_on_a_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.docs.blocks import Line
    from tests.docs.world import World

DEADLINE_S = 60
STAYS = re.compile(
    r"(?:\w+=\S+ )?(?:nostr-agent run(?!.*--once)|nostr-agent relay(?!s)"
    r"|nostr-agent logs --follow|nostr-tui\b"
    r"|nostr-client watch run(?!.*--once)|nostr-client counter watch)"
)
ASKS_THE_AGENT = re.compile(
    r"nostr-agent (retention|status|logs|backup)\b"
    r"|nostr-client (relay list|assertions status|counter link)\b"
    r"|nostr-client (sync (add|list|show|remove|cancel|run [a-z]))\b"
    r"|nostr-tui(?!.*--(demo|embedded))"
)
GOES_THROUGH_ONE = re.compile(r"nostr-client (watch|sync|relay|counter|store)\b")
"""What a page about the agent means while one runs."""
SCREEN = b"\x1b[?1049h"
DRAWN = b"Overview"


class Shell:
    """Keeps what `export` sets; has an agent run for those commands that ask one."""

    def __init__(
        self, world: World, deadline_s: float = DEADLINE_S, *, through_agent: bool = False
    ) -> None:
        self._world = world
        self._through_agent = through_agent
        self._deadline_s = deadline_s
        self._env = world.environment()
        self._agent: asyncio.subprocess.Process | None = None

    async def run(self, line: Line, code: int = 0) -> None:
        """One command as the page has it: it ends with `code`, and prints what the page shows."""
        command = self._world.substituted(line.command)
        through = self._through_agent and GOES_THROUGH_ONE.match(command)
        await self._have_agent(bool(ASKS_THE_AGENT.match(command) or through))
        if STAYS.match(command):
            text, found = await self._interrupted(command)
        else:
            text, found = await self._to_the_end(command)
        assert found == code, f"{line.where}: {command}\nended with {found}:\n{text}"
        assert "Traceback" not in text, f"{line.where}: {text}"
        self._compare(line, text)

    async def close(self) -> None:
        """No agent is left behind."""
        await self._have_agent(False)

    def _compare(self, line: Line, text: str) -> None:
        """Check each shown line: any number, any width of a column, and this home may differ."""
        for shown in line.shown:
            wanted = self._world.substituted(shown).replace("/home/you", str(self._world.home))
            words = (re.sub(r"\d+", r"\\d+", re.escape(word)) for word in wanted.split())
            pattern = f"^ *{' +'.join(words)} *$"
            assert re.search(pattern, text, re.MULTILINE), f"{line.where}: {shown}\n{text}"

    async def _to_the_end(self, command: str) -> tuple[str, int]:
        after = self._world.home / ".environment"
        script = f"set -e\n{command}\nenv -0 > {after}" if "export " in command else command
        process = await self._start("bash", "-c", script)
        async with asyncio.timeout(self._deadline_s):
            said, _ = await process.communicate()
        if after.exists():
            self._env |= dict(
                one.split("=", 1) for one in after.read_text("utf-8").rstrip("\0").split("\0")
            )
            after.unlink()
        return said.decode("utf-8", "replace"), process.returncode or 0

    async def _interrupted(self, command: str) -> tuple[str, int]:
        """Ctrl-C once it has said that it is there, in a terminal where it draws on one."""
        words = ("bash", "-c", f"exec env {command}")
        if command.startswith("nostr-tui") and "--serve" not in command:
            return await self._drawn(words)
        process = await self._start(*words)
        said = await self._heard(process, _sign_of(command))
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(DEADLINE_S):
            rest, _ = await process.communicate()
        code = process.returncode or 0
        return said + rest.decode("utf-8", "replace"), 0 if code == 128 + signal.SIGINT else code

    async def _heard(self, process: asyncio.subprocess.Process, pattern: str) -> str:
        assert process.stdout is not None
        said = b""
        async with asyncio.timeout(DEADLINE_S):
            while not re.search(pattern, said.decode("utf-8", "replace")):
                more = await process.stdout.read(4096)
                assert more, f"it ended before {pattern!r}: {said.decode('utf-8', 'replace')}"
                said += more
        return said.decode("utf-8", "replace")

    async def _drawn(self, words: Sequence[str]) -> tuple[str, int]:
        """`q` once it has drawn; the application gives the terminal back."""
        ours, theirs = pty.openpty()
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=theirs, stdout=theirs, stderr=theirs, env=self._env,
                cwd=self._world.home, start_new_session=True, preexec_fn=as_on_a_terminal,
            )  # fmt: skip
            os.close(theirs)
            async with asyncio.timeout(DEADLINE_S):
                said = await asyncio.to_thread(_quit_when_drawn, ours)
                code = await process.wait()
        finally:
            os.close(ours)
        assert SCREEN in said, said[-2000:].decode("utf-8", "replace")
        return "", code

    async def _have_agent(self, wanted: bool) -> None:
        if wanted and self._agent is None:
            self._agent = await self._start("nostr-agent", "run")
            await self._heard(self._agent, READY["nostr-agent run"])
        elif not wanted and self._agent is not None:
            agent, self._agent = self._agent, None
            agent.send_signal(signal.SIGINT)
            async with asyncio.timeout(DEADLINE_S):
                said, _ = await agent.communicate()
            assert agent.returncode == 0, said.decode("utf-8", "replace")

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._world.home,
            env=self._env,
            preexec_fn=as_on_a_terminal,
        )


def _sign_of(command: str) -> str:
    return next((sign for start, sign in READY.items() if f"{start} " in f"{command} "), ".")


def _quit_when_drawn(terminal: int) -> bytes:
    """All that is drawn, with a `q` typed when there is a page; reading ends with an error."""
    said, typed = b"", False
    with contextlib.suppress(OSError):
        while more := os.read(terminal, 65_536):
            said += more
            if not typed and DRAWN in said:
                os.write(terminal, b"q")
                typed = True
    return said
