"""Run an agent as a child process: it starts and ends with this application."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from typing import IO, TYPE_CHECKING, Final, Literal

import msgspec

from agent.api.address import RunFile, addresses, reach
from nostr_client.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

STOP_S: Final = 8.0
"""How long it may take to close its store in order."""

MOST_TALK: Final = 64 * 1024
"""Bytes of what it writes to stderr that are read."""

START_S: Final = 60.0
"""How long it may take until it can be talked to."""

DEMO: Final = ("-m", "agent", "demo", "--until-eof")
OWN: Final = ("-m", "agent", "run", "--until-eof", "--json", "--set", "service.log=warning")


class _Place(msgspec.Struct):
    """What the demonstration prints: the agent's URL, and the files of its tokens."""

    api: str
    token: str
    read_token: str


class AddressInUse(msgspec.Struct):
    """The line of its log by which an agent reports that it listens elsewhere than configured."""

    key: str
    address: str
    instead: str
    event: Literal["address_in_use"]

    @property
    def text(self) -> str:
        """What happened, for people."""
        what = "API" if self.key == "api.listen" else "local relay"
        used = f"another program uses {self.address}"
        return f"{used}: the agent's {what} listens on {self.instead}"


class EmbeddedAgent:
    """A running process; `locate` says where its agent is, once it is there."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        said: IO[bytes],
        talk: IO[bytes],
        *,
        read_only: bool = False,
    ) -> None:
        """`read_only`: use the token that only reads."""
        self.process = process
        self._read_only = read_only
        self._said = said
        self._talk = talk

    def locate(self) -> tuple[str, str]:
        """URL and token. Raises NetworkError while it starts, and when it has ended, with why."""
        api, token_file = self._place()
        return reach(api, token_file)

    async def place(self) -> tuple[str, Path]:
        """URL and token file, as soon as it is there. Raises NetworkError when it has ended."""
        async with asyncio.timeout(START_S):
            while True:
                try:
                    return self._place()
                except NetworkError:
                    if self.process.returncode is not None:
                        raise
                await asyncio.sleep(0.1)

    def _place(self) -> tuple[str, Path]:
        if self.process.returncode is not None:
            raise NetworkError(f"the agent has ended: {self._last_words()}")
        line = os.pread(self._said.fileno(), 4096, 0)
        if line.endswith(b"\n"):
            found_line = msgspec.json.decode(line, type=_Place)
            found = RunFile(
                self.process.pid, found_line.api, "", found_line.token, found_line.read_token
            )
            return found.api, found.file(read_only=self._read_only)
        return self._published()

    def _published(self) -> tuple[str, Path]:
        """Where one with a configuration of its own says it: where commands look."""
        with suppress(NetworkError):  # it says how to start an agent, which is done
            found = addresses()
            if found.pid == self.process.pid:
                return found.api, found.file(read_only=self._read_only)
        raise NetworkError("the agent is starting")

    def notes(self) -> list[str]:
        """Where it listens instead of an address that another program uses, in sentences."""
        found = []
        for line in self._written().splitlines():
            with suppress(msgspec.MsgspecError):
                found.append(msgspec.json.decode(line, type=AddressInUse).text)
        return found

    def _written(self) -> str:
        return os.pread(self._talk.fileno(), MOST_TALK, 0).decode("utf-8", "replace")

    def _last_words(self) -> str:
        text = self._written()
        return (text.strip().splitlines() or [f"code {self.process.returncode}"])[-1]

    async def stop(self) -> None:
        """End it in order, at the latest after a while."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self.process.returncode is None:
            self.process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


@asynccontextmanager
async def embedded_agent(
    arguments: Sequence[str], *, read_only: bool = False
) -> AsyncIterator[EmbeddedAgent]:
    """A Python process with these arguments, until the block is left.

    `read_only`: talk to its agent with the token that only reads.
    """
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as talk:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=said,
            stderr=talk,
            start_new_session=True,  # Ctrl-C is ours alone
        )
        one = EmbeddedAgent(process, said, talk, read_only=read_only)
        try:
            yield one
        finally:
            await one.stop()


def is_running() -> bool:
    """Whether an agent of this user says that it runs, and its process is there."""
    try:
        os.kill(addresses().pid, 0)
    except (NetworkError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
