"""Starts a rebuild's child process, reads its lines, and ends it with all its processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from agent.reindex.protocol import Failed, LogText, from_line, to_line
from nostr_client.errors import NostrTallyError, clip

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agent.reindex.protocol import Job, Message

LINE_LIMIT: Final = 16 * 2**20
"""Bytes of one line: a check may report many differences."""

GRACE_S: Final = 30.0
"""Seconds that a child has to clean up, before it is killed with all that it started."""

STDERR_KEPT: Final = 50

LAST_WORDS_S: Final = 1.0
"""Seconds to read the stderr of an ended child: a process that it started may hold it open."""

COMMAND = (sys.executable, "-m", "agent.reindex.child")


class ReindexFailed(NostrTallyError):
    """The rebuild ended without a result; what was there before is untouched."""


async def messages(job: Job) -> AsyncGenerator[Message]:
    """What the child says, until it ends. Closing this ends the child.

    Raises ReindexFailed where it ended without saying why.
    """
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LINE_LIMIT,
        start_new_session=True,  # so that all that it starts can be ended with it
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    errors: deque[str] = deque(maxlen=STDERR_KEPT)
    talk = asyncio.create_task(_drain(child.stderr, errors))
    explained = False
    try:
        child.stdin.write(to_line(job))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await child.stdin.drain()  # a child that has ended has sent the reason before
        async for line in child.stdout:
            message = _read(line)
            explained = explained or isinstance(message, Failed)
            yield message
        code = await child.wait()
        if code and not explained:
            await asyncio.wait([talk], timeout=LAST_WORDS_S)
            raise ReindexFailed(_why(code, errors))
    finally:
        await asyncio.shield(_end(child))
        talk.cancel()
        await asyncio.gather(talk, return_exceptions=True)


def _read(line: bytes) -> Message:
    """A line as a message; text that Java writes to the same stdout becomes `LogText`."""
    text = line.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return LogText(clip(text))
    try:
        return from_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ReindexFailed(f"the rebuild's process said: {clip(text)}") from error


def _why(code: int, errors: deque[str]) -> str:
    last = " | ".join([text for text in errors if text.strip()][-3:])
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return clip(f"the rebuild's process {how}{': ' if last else ''}{last}")


async def _drain(stream: asyncio.StreamReader, kept: deque[str]) -> None:
    while chunk := await stream.read(65_536):
        kept.extend(chunk.decode("utf-8", "replace").splitlines())


async def _end(child: asyncio.subprocess.Process) -> None:
    """Ask, wait, kill; then whatever is left of its group."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), GRACE_S)
    if hasattr(os, "killpg"):  # not on Windows, where the child's end of stdin has to do
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    await child.wait()
