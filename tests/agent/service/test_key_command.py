"""A program that prints a key may prompt on the terminal of an agent that a person started."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROMPTS = ("sh", "-c", "printf 'passphrase: ' >/dev/tty && read -r typed </dev/tty && echo $typed")
"""What `pass`, `age` and other programs do: they prompt on the terminal, and print on stdout."""

AGENT = """
import asyncio, os, subprocess, sys
from agent.service.process.key_command import printed_key
from nostr_client.errors import InvalidInput

terminal = os.open(os.ttyname(0), os.O_RDWR)  # a session takes the terminal that it opens first

async def main():
    asked = asyncio.ensure_future(printed_key(tuple(sys.argv[2:]), "key_command"))
    if sys.argv[1] == "cancelled":
        while os.tcgetpgrp(terminal) == os.getpgrp():
            await asyncio.sleep(0)
        asked.cancel()
    try:
        print("printed", (await asked).strip())
    except (InvalidInput, asyncio.CancelledError) as error:
        print(type(error).__name__, error)

if sys.argv[1] == "background":
    other = subprocess.Popen(["sleep", "600"], process_group=0)
    import signal
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(terminal, other.pid)
before = os.tcgetpgrp(terminal)
asyncio.run(main())
print("as before", os.tcgetpgrp(terminal) == before, flush=True)
if sys.argv[1] == "background":
    other.kill()
"""


class Terminal:
    """An agent on a terminal, and the person who reads and types there."""

    def __init__(self, process: asyncio.subprocess.Process, ours: int) -> None:
        self.process = process
        self._ours = ours

    async def shows(self, text: str) -> None:
        """Wait until the program has written a text to the terminal."""
        seen = b""
        while text.encode() not in seen:
            seen += await asyncio.to_thread(os.read, self._ours, 4096)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    async def printed(self) -> str:
        said, _ = await self.process.communicate()
        return said.decode()


@asynccontextmanager
async def agent(how: str, *command: str) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", AGENT, how, *command),
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


async def test_a_program_may_prompt_on_the_terminal_of_an_agent_in_the_foreground() -> None:
    async with agent("foreground", *PROMPTS) as terminal:
        await terminal.shows("passphrase: ")
        terminal.type("the key\n")
        assert await terminal.printed() == "printed the key\nas before True\n"


async def test_a_program_that_is_ended_gives_the_terminal_back() -> None:
    async with agent("cancelled", *PROMPTS) as terminal:
        assert await terminal.printed() == "CancelledError \nas before True\n"


async def test_a_program_of_an_agent_in_the_background_has_no_terminal() -> None:
    """It would be stopped there, and wait for an answer that nobody can give."""
    async with agent("background", *PROMPTS) as terminal:
        said = await terminal.printed()
        assert said.startswith("InvalidInput key_command ended with ")
        assert said.endswith("as before True\n")
