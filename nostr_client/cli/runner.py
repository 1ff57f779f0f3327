"""From click's plain functions into asyncio."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from nostr_client.cli.locked import with_hint
from nostr_client.errors import StoreLocked

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end; Ctrl-C cancels it and is raised again.

    A store that another process writes is told with the agent's command for the same.
    """
    try:
        return asyncio.run(coroutine)
    except StoreLocked as error:
        raise with_hint(error) from error


def run_async_until_sigterm(coroutine: Coroutine[Any, Any, T]) -> T:
    """As `run_async`; SIGTERM too cancels it, and is raised as Ctrl-C is: exit code 130."""
    return run_async(_until_sigterm(coroutine))


async def _until_sigterm(coroutine: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(coroutine)
    with suppress(NotImplementedError):  # no signals of that kind on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
