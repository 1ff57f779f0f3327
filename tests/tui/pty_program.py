"""A program in a terminal of its own: what it draws, its signals, and the loss of the terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import sys
import termios
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

PATIENCE_S: Final = 120.0
"""Seconds after which something is taken to hang."""

_LAUNCH: Final = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal on stdin the controlling one: its loss is then a SIGHUP."""

_SIZE: Final = struct.pack("HHHH", 30, 100, 0, 0)


class PtyProgram:
    """A process, and the other end of its terminal."""

    def __init__(self, process: asyncio.subprocess.Process, master: int, slave: int) -> None:
        self.process, self.drawn = process, b""
        self._news = asyncio.Event()
        self._master, self._slave = master, slave
        self.before = termios.tcgetattr(slave)
        self._is_read = False

    def read(self) -> None:
        """Read from now on what it draws, as a terminal does."""
        if not self._is_read:
            self._is_read = True
            asyncio.get_running_loop().add_reader(self._master, self._take)

    def hold(self) -> None:
        """Read no more: what it draws waits."""
        if self._is_read:
            self._is_read = False
            asyncio.get_running_loop().remove_reader(self._master)

    def _take(self) -> None:
        with suppress(OSError):
            self.drawn += os.read(self._master, 65_536)
        self._news.set()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    async def until(self, text: bytes) -> None:
        """Wait until it has drawn a text, be it its last words."""
        self.read()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while text not in self.drawn:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(self.drawn[-3000:].decode("utf-8", "replace")) from None

    async def ended(self) -> int:
        """The exit code, as soon as it has ended."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    @property
    def is_restored(self) -> bool:
        """Whether the terminal has the settings that it had before."""
        return termios.tcgetattr(self._slave) == self.before

    def lose(self) -> None:
        """Close the terminal, as a window that is closed."""
        self.hold()
        os.close(self._slave)
        os.close(self._master)
        self._master = self._slave = -1

    async def close(self) -> None:
        self.hold()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        for one in (self._master, self._slave):
            if one >= 0:
                os.close(one)


@asynccontextmanager
async def pty_program(
    words: Sequence[str], env: Mapping[str, str], *, is_controlling: bool = True
) -> AsyncIterator[PtyProgram]:
    """A Python program with these arguments, gone after the block.

    `is_controlling`: False for a terminal whose loss sends no signal.
    """
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, _SIZE)
    launch = [sys.executable, "-c", _LAUNCH] if is_controlling else []
    process = await asyncio.create_subprocess_exec(
        *(*launch, sys.executable, *words),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=dict(env),
        start_new_session=not is_controlling,
    )
    program = PtyProgram(process, master, slave)
    try:
        program.read()
        yield program
    finally:
        await program.close()


async def gone(pid: int) -> None:
    """Wait until a process has ended that may be another one's child."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process, ended.set)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()
    finally:
        loop.remove_reader(process)
        os.close(process)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that have not ended."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
