"""Bounds the connections of an HTTP server: closes those above a maximum, and silent ones.

Without it a crowd takes every file descriptor of the process: the store and the log then fail with
it, and asyncio logs a traceback for each connection that it cannot accept.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiohttp import web

from agent.relay.listen import BACKLOG

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from socket import socket
    from ssl import SSLContext

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

RESERVE: Final = 512
"""File descriptors for all but a server's connections: store, logs, and sockets to relays."""

BURST: Final = 64
"""Connections that asyncio accepts in one turn; each has a descriptor before it is counted."""

KEEPALIVE_S: Final = 30.0
"""How long a connection stays open between two HTTP requests."""

OPEN_FILES: Final = 10_240
"""Descriptors that a serving program asks for: what macOS gives at most; 4,096 are clients'."""


def raise_open_files() -> None:
    """Let this process have OPEN_FILES descriptors, or as many as the system allows."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(OSError, ValueError):  # the bound of `room` then follows the lower limit
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def room(wanted: int) -> int:
    """How many of `wanted` connections the descriptors of this process allow, at least BURST."""
    if sys.platform == "win32":
        return wanted
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(BURST, min(wanted, soft - RESERVE))


class BoundedServer(web.Server):
    """aiohttp's server with at most `most` connections, each of which asks within `silent_s`.

    A connection above the bound is closed without an answer, and nothing is logged.
    """

    def __init__(self, handler: Handler, *, most: int, silent_s: float) -> None:
        super().__init__(
            self._handle,
            access_log=None,
            keepalive_timeout=KEEPALIVE_S,
            auto_decompress=False,  # no client packs its requests
        )
        self._answer = handler
        self._most = room(most)
        self._silent_s = silent_s
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._open: set[web.RequestHandler] = set()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        if len(self._open) >= self._most:
            # Not at once: aiohttp's task of this connection has to begin before it ends.
            loop.call_soon(transport.abort)
            return
        self._open.add(handler)
        self._silent[handler] = loop.call_later(self._silent_s, transport.abort)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        self._has_asked(handler)
        self._open.discard(handler)
        super().connection_lost(handler, exc)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._has_asked(request.protocol)
        return await self._answer(request)

    def _has_asked(self, handler: web.RequestHandler) -> None:
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()


async def listen(
    runner: web.ServerRunner, listener: socket, tls: SSLContext | None = None
) -> web.SockSite:
    """Serve on a socket: BURST connections a turn, out of a queue of BACKLOG in the kernel."""
    site = web.SockSite(runner, listener, ssl_context=tls, backlog=BURST)
    await site.start()
    listener.listen(BACKLOG)
    return site
