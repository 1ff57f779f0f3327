"""Open WebSockets and get documents from a relay with aiohttp. `sessions` makes the connections.

aiohttp's types and errors do not leave this module. A failure is a NetworkError or a ProtocolError
with the original error as its cause.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, Self

import aiohttp
from yarl import URL

from nostr_client.errors import NetworkError, ProtocolError, clip, without_tls
from nostr_client.network.access.sessions import Sessions
from nostr_client.network.pacing import RateWindow
from nostr_client.network.waiting import within
from nostr_client.options import Options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_FAILURES: Final = (aiohttp.ClientError, OSError, ValueError)
_CONTROLS_PER_MINUTE: Final = 600  # libraries in use send up to one each second
_TOO_BIG: Final = aiohttp.WSCloseCode.MESSAGE_TOO_BIG
_DATE: Final = re.compile(
    r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT", re.ASCII
)
_dates: Final[ContextVar[list[str] | None]] = ContextVar("dates", default=None)
_BAD_TEXT: Final = aiohttp.WSCloseCode.INVALID_TEXT


class _Wrapped:
    """Turns failures into NetworkError, with the peer's close code if `ws` already has one.

    It has no state, so one object serves every frame. A generator for each frame would cost more
    than most frames.
    """

    __slots__ = ("_doing", "_url", "_ws")

    def __init__(
        self, url: str, doing: str, ws: aiohttp.ClientWebSocketResponse | None = None
    ) -> None:
        self._url, self._doing, self._ws = url, doing, ws

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and (failure := self._failure(error)) is not None:
            raise failure from error

    def _failure(self, error: BaseException) -> NetworkError | None:
        url, doing = self._url, self._doing
        if isinstance(error, NetworkError):  # an error without a relay is the proxy's
            return None if error.relay else NetworkError(f"{doing}: {error}", relay=url)
        if isinstance(error, TimeoutError):
            return NetworkError(f"{doing} took too long", relay=url)
        if not isinstance(error, _FAILURES):
            return None
        return NetworkError(
            f"{doing}: {_describe(error)}",
            relay=url,
            close_code=None if self._ws is None else self._ws.close_code,
            http_status=getattr(error, "status", None),
        )


def _describe(error: BaseException) -> str:
    text = clip(without_tls(error)) or type(error).__name__
    if isinstance(error, aiohttp.WSServerHandshakeError | aiohttp.ClientResponseError):
        return f"HTTP {error.status} {clip(error.message, 100)}"
    return text


class WebSocket:
    """One open connection.

    `Transport.connect` makes it. Allow one reader and one writer at a time.
    """

    def __init__(
        self,
        ws: aiohttp.ClientWebSocketResponse,
        url: str,
        options: Options,
        date: float | None = None,
    ) -> None:
        self.date = date
        """The peer's clock in the handshake, in Unix seconds, or None without a Date header."""
        self._ws = ws
        self._url = url
        self._options = options
        self._reading = _Wrapped(url, "reading")
        self._sending = _Wrapped(url, "sending", ws)
        self._pongs: dict[bytes, asyncio.Future[None]] = {}
        self._controls = RateWindow(_CONTROLS_PER_MINUTE, 60.0)
        self.bytes_sent = 0
        self.bytes_received = 0

    async def receive(self) -> str | bytes:
        """Return the next text or binary message. Answers pings that come before.

        Raises NetworkError at the end, for every close code. Raises ProtocolError for bytes that no
        WebSocket peer may send. Safe to cancel.
        """
        while True:
            with self._reading:
                message = await self._ws.receive()
            if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                data: str | bytes = message.data
                self.bytes_received += len(data)
                return data
            await self._control(message)

    async def _control(self, message: aiohttp.WSMessage) -> None:
        if self._controls.exceeded(asyncio.get_running_loop().time()):
            text = f"more than {_CONTROLS_PER_MINUTE} pings and pongs in a minute"
            raise ProtocolError(text, relay=self._url)
        if message.type is aiohttp.WSMsgType.PING:
            with _Wrapped(self._url, "answering a ping", self._ws):
                async with asyncio.timeout(self._options.timeouts.send):
                    await self._ws.pong(message.data)
        elif message.type is aiohttp.WSMsgType.PONG:
            waiter = self._pongs.pop(bytes(message.data), None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        elif message.type is aiohttp.WSMsgType.ERROR:
            raise self._broken(message.data) from message.data
        else:
            code = self._ws.close_code or aiohttp.WSCloseCode.ABNORMAL_CLOSURE
            text = f"the relay closed the connection ({int(code)})"
            raise NetworkError(text, relay=self._url, close_code=int(code))

    def _broken(self, error: object) -> NetworkError | ProtocolError:
        code = getattr(error, "code", None)
        if code == _TOO_BIG:
            most = self._options.limits.message_bytes_in
            return ProtocolError(f"a frame of more than {most} bytes", relay=self._url)
        if code is not None:
            what = "text that is not UTF-8" if code == _BAD_TEXT else clip(str(error))
            return ProtocolError(f"broken WebSocket frame: {what}", relay=self._url)
        return NetworkError(f"reading: {clip(str(error))}", relay=self._url)

    async def send(self, *texts: str) -> None:
        """Send text messages within one deadline.

        Raises NetworkError, also if the peer reads nothing.
        """
        with self._sending:
            await within(self._options.timeouts.send, self._send(texts))

    async def _send(self, texts: Sequence[str]) -> None:
        for text in texts:
            await self._ws.send_str(text)
            self.bytes_sent += len(text)

    async def ping(self, timeout: float) -> None:
        """Send a ping and wait for its pong, which `receive` reads. Raises NetworkError."""
        payload = os.urandom(8)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs[payload] = waiter
        try:
            with _Wrapped(self._url, "waiting for a pong", self._ws):
                async with asyncio.timeout(timeout):
                    await self._ws.ping(payload)
                    await waiter
        finally:
            self._pongs.pop(payload, None)

    async def close(self, code: int = aiohttp.WSCloseCode.OK) -> None:
        """Close the connection.

        Waits at most `Timeouts.close` for the peer's close. Never raises.
        """
        try:
            async with asyncio.timeout(2 * self._options.timeouts.close):
                await self._ws.close(code=code)
        except (TimeoutError, *_FAILURES):
            return  # the socket is closed in both cases


class Transport:
    """Makes connections with one set of options. Close it last. It belongs to the loop of first
    use.

    `public_only`: refuse every address that is not public, for relays that strangers name. The
    check covers every name and redirect. A proxy resolves names itself, so relays that strangers
    name are then refused by their names (`ConnectionOptions.strangers_by_proxy`).
    """

    def __init__(self, options: Options | None = None, *, public_only: bool = False) -> None:
        self.options = options or Options()
        self._sessions = Sessions(
            self.options.connection,
            public_only=public_only,
            headers={"User-Agent": self.options.connection.user_agent},
            # a small document needs no compression, and compressed data could expand without bound
            auto_decompress=False,
            trace_configs=[_tracing()],
        )

    async def connect(self, url: str) -> WebSocket:
        """Open a WebSocket to `url` (ws or wss). Raises NetworkError."""
        options = self.options
        session = self._sessions.session_for(url)
        dates: list[str] = []
        _dates.set(dates)
        with _Wrapped(url, "connecting"):
            async with asyncio.timeout(options.timeouts.connect):
                ws = await session.ws_connect(
                    # keeps the spelling, as yarl would change `%7E` and `..`
                    URL(url, encoded=True),
                    compress=15 if options.connection.compress else 0,
                    max_msg_size=options.limits.message_bytes_in,
                    autoping=False,
                    timeout=aiohttp.ClientWSTimeout(ws_close=options.timeouts.close),
                )
        return WebSocket(ws, url, options, _unix_time(dates[-1] if dates else ""))

    async def get_document(self, url: str, *, accept: str) -> bytes:
        """Get a small document from the URL of a relay or a wallet, with exactly this Accept
        header.

        Redirects are not followed, so that a server cannot send the client to another host. Raises
        NetworkError, with the `location` of a redirect. Raises ProtocolError if the body is longer
        than `Limits.info`.
        """
        session = self._sessions.session_for(url)
        with _Wrapped(url, "reading a document"):
            async with (
                asyncio.timeout(self.options.timeouts.http),
                session.get(
                    _http(url),
                    headers={"Accept": accept, "Accept-Encoding": "identity"},
                    allow_redirects=False,
                ) as response,
            ):
                if response.status != 200:
                    text = f"reading a document: HTTP {response.status}"
                    location = response.headers.get("Location")
                    raise NetworkError(
                        text, relay=url, http_status=response.status, location=location
                    )
                return await _read_capped(response.content, self.options.limits.info, url)

    async def close(self) -> None:
        """Close every connection."""
        await self._sessions.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _unix_time(date: str) -> float | None:
    """Return an HTTP date (RFC 9110, IMF-fixdate) in Unix seconds, or None for other text."""
    if not _DATE.fullmatch(date):
        return None
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


def _tracing() -> aiohttp.TraceConfig:
    """Refuse redirects, and note the Date header of a handshake.

    `ws_connect` follows redirects, and a relay must not send the client to another host, such as
    one in the user's network. Browsers do not follow them either. `ws_connect` does not return the
    Date header.
    """

    async def hear(
        session: aiohttp.ClientSession, context: object, params: aiohttp.TraceRequestEndParams
    ) -> None:
        found = _dates.get()
        if found is not None:
            found.append(params.response.headers.get("Date", ""))

    async def refuse(
        session: aiohttp.ClientSession, context: object, params: aiohttp.TraceRequestRedirectParams
    ) -> None:
        response = params.response
        response.close()
        raise aiohttp.ClientResponseError(
            response.request_info, (), status=response.status, message="a redirect"
        )

    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(refuse)
    config.on_request_end.append(hear)
    return config


async def _read_capped(stream: aiohttp.StreamReader, most: int, url: str) -> bytes:
    body = bytearray()
    async for chunk in stream.iter_any():
        body += chunk
        if len(body) > most:
            raise ProtocolError(f"a document of more than {most} bytes", relay=url)
    return bytes(body)


def _http(url: str) -> URL:
    """Return a relay's URL as an HTTP URL with the same spelling.

    Quote a wallet's URL, because a stranger wrote it.
    """
    if url.startswith(("ws://", "wss://")):
        return URL(f"http{url[2:]}", encoded=True)
    return URL(url)
