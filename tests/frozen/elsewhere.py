"""Servers on a loop of their own in a thread, for commands that run in the test's own thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager

T = TypeVar("T")

PATIENCE_S = 120.0


@contextmanager
def elsewhere(what: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter `what` on another loop, and leave it there when the block is left."""
    entered: Future[T] = Future()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        try:
            async with what as made:
                entered.set_result(made)
                await stop.wait()
        finally:
            if not entered.done():
                entered.set_exception(RuntimeError("it did not start"))

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    try:
        yield entered.result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)
        loop.close()
