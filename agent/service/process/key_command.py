"""Run the program that prints a key, as a shell runs a program: it may prompt on the terminal.

The program leads a process group of its own, so that it ends with all programs that it started. If
the agent runs in the foreground of a terminal, the program's group gets the terminal until it ends.
Otherwise nobody could answer: the program gets a session without a terminal.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from nostr_client.errors import InvalidInput
from nostr_client.paths import LONGEST_SECRET

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Iterator

COMMAND_S: Final = 30.0
"""Seconds until the program must have printed the key, with a person's answer to its prompt."""


async def printed_key(command: tuple[str, ...], name: str) -> str:
    """Return what a program prints within COMMAND_S; without a shell, and with nothing on stdin.

    `name`: the key of the configuration, for errors. If it is cancelled, the program is ended at
    once, with the programs that it started. Raises InvalidInput.
    """
    with _foreground_terminal() as terminal:
        process = await _started(command, name, in_session=terminal is not None)
        try:
            if terminal is not None:
                _lend(terminal, process.pid)
            async with asyncio.timeout(COMMAND_S):
                printed, _ = await process.communicate()
        except TimeoutError as error:
            raise InvalidInput(f"{name}: took more than {COMMAND_S:g} s") from error
        finally:
            if process.returncode is None:
                await _end(process)
    if process.returncode:
        raise InvalidInput(f"{name} ended with {process.returncode}")
    return printed[:LONGEST_SECRET].decode("ascii", "replace")


async def _started(command: tuple[str, ...], name: str, *, in_session: bool) -> Process:
    """Start a program as the leader of a group in our session, or of a session of its own."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=nothing,
            stdout=pipe,
            stderr=nothing,
            process_group=0 if in_session else None,
            start_new_session=not in_session,
        )
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{name}: {type(error).__name__}") from error


@contextmanager
def _foreground_terminal() -> Iterator[int | None]:
    """Give the terminal that the agent runs in the foreground of, or None; take it back after."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        ours = os.getpgrp()
        if os.tcgetpgrp(terminal) != ours:
            yield None
            return
        try:
            yield terminal
        finally:
            _give(terminal, ours)
    finally:
        os.close(terminal)


def _lend(terminal: int, group: int) -> None:
    """Give a terminal to a group, and go on with one that asked the terminal before it had it."""
    _give(terminal, group)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGCONT)


def _give(terminal: int, group: int) -> None:
    """Put a group into the foreground; a terminal that hung up has none."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        with suppress(OSError):
            os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _end(process: Process) -> None:
    """End a program that leads a group, with all programs of that group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
