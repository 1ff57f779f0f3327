"""The in-memory transport: it is to a `Host` what `network.transport` is to a socket.

Only bytes are left out: frames are texts, in order, each a little later than it was sent. Sizes and
closed connections end as they do over a socket.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Protocol

from nostr_client.errors import NetworkError, ProtocolError
from nostr_client.network.transport import Transport, WebSocket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nostr_client.options import Options


class Host(Protocol):
    """A relay as the wire sees it."""

    latency: float
    """Seconds from a message to what answers it."""

    @property
    def reachable(self) -> bool:
        """Whether a connection can be made now."""
        ...

    def document(self) -> dict[str, object] | None:
        """The NIP-11 document, if it serves one."""
        ...

    def open(self, send: Callable[[str], None], cut: Callable[[], None]) -> Line:
        """Take a connection; `send` hands a frame to the client, `cut` ends the connection."""
        ...


class Line(Protocol):
    """One connection, from the relay's side."""

    def receive(self, text: str) -> None:
        """Take a frame of the client."""
        ...

    def was_read(self, text: str) -> None:
        """The client has read a frame."""
        ...

    def close(self) -> None:
        """The connection is gone."""
        ...


class MemorySocket(WebSocket):
    """The client's end of a connection to a `Host`."""

    def __init__(self, host: Host, url: str, options: Options) -> None:
        self.date = None
        self.bytes_sent = 0
        self.bytes_received = 0
        self._host = host
        self._url = url
        self._most = options.limits.message_bytes_in
        self._frames: asyncio.Queue[str | None] = asyncio.Queue()
        self._under_way: deque[list[str]] = deque()
        self._fresh: list[str] | None = None
        self._closed = False
        self._line = host.open(self._deliver, self.cut)

    def _deliver(self, text: str) -> None:
        """Pass a frame on after the latency, those of one moment together."""
        if self._fresh is None:
            self._fresh = []
            self._under_way.append(self._fresh)
            loop = asyncio.get_running_loop()
            loop.call_later(self._host.latency, self._arrive)
            loop.call_soon(self._depart)
        self._fresh.append(text)

    def _depart(self) -> None:
        self._fresh = None

    def _arrive(self) -> None:
        """Timers of one moment have no order among them, and frames have: the oldest arrives."""
        for text in self._under_way.popleft() if self._under_way else ():
            self._frames.put_nowait(text)

    async def receive(self) -> bytes:
        """The next frame. Raises NetworkError at the end, ProtocolError for one that is too big."""
        text = await self._frames.get()
        if text is None:
            raise NetworkError("the relay closed the connection (1006)", relay=self._url)
        data = text.encode()
        if len(data) > self._most:
            raise ProtocolError(f"a frame of more than {self._most} bytes", relay=self._url)
        self.bytes_received += len(data)
        self._line.was_read(text)
        return data

    async def send(self, *texts: str) -> None:
        """Hand frames to the relay."""
        for text in texts:
            if self._closed or not self._host.reachable:
                raise NetworkError("sending: the connection is gone", relay=self._url)
            self.bytes_sent += len(text.encode())
            self._line.receive(text)

    async def ping(self, timeout: float) -> None:
        """Every pong comes."""
        await asyncio.sleep(self._host.latency)

    async def close(self, code: int = 1000) -> None:
        """Close, at once."""
        self._closed = True
        self._line.close()

    def cut(self) -> None:
        """The relay ends the connection, and what is under way is lost."""
        self._under_way.clear()
        self._frames.put_nowait(None)


class MemoryTransport(Transport):
    """Connections to hosts by URL; whatever else is named cannot be reached."""

    def __init__(self, hosts: Mapping[str, Host], options: Options) -> None:
        self.options = options
        self._hosts = hosts
        self.sockets: list[MemorySocket] = []

    async def connect(self, url: str) -> WebSocket:
        """Open a connection. Raises NetworkError."""
        host = self._reach(url)
        await asyncio.sleep(host.latency)
        socket = MemorySocket(host, url, self.options)
        self.sockets.append(socket)
        return socket

    async def get_document(self, url: str, *, accept: str) -> bytes:
        """The NIP-11 document. Raises NetworkError where there is none."""
        document = self._reach(url).document()
        if document is None:
            raise NetworkError("reading a document: HTTP 404", relay=url, http_status=404)
        return json.dumps(document).encode()

    def _reach(self, url: str) -> Host:
        host = self._hosts.get(url.rstrip("/"))
        if host is None or not host.reachable:
            raise NetworkError("connecting: refused", relay=url)
        return host

    async def close(self) -> None:
        """Nothing is shared."""
