"""Serves the relay over HTTP and WebSocket; with `bounded` the only module here with aiohttp.

async with serve(store, host="127.0.0.1", port=0) as server:
    print(server.url)
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager, contextmanager
from struct import Struct
from typing import TYPE_CHECKING, Any, Self, cast

from aiohttp import WSMsgType, web

from agent.relay import info
from agent.relay.bounded import BoundedServer, listen
from agent.relay.connection import GOING_AWAY, LAST_WORDS_S, ServerConnection
from agent.relay.context import Peer, RelayClock, RelayContext
from agent.relay.core import RelayCore
from agent.relay.guard import admit, bearer, check_listen
from agent.relay.limits import ConnectionLimiter, events_bucket
from agent.relay.listen import bind, normal_urls, own_urls, relay_url, tls_context
from agent.relay.merged import PATH, MergedSession
from agent.relay.options import RelayOptions
from agent.relay.outputs import Disconnect
from agent.relay.policy import everything
from agent.relay.session import ServerSession
from nostr_client.codecs.filters import Filter
from nostr_client.network.waiting import end

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from socket import socket
    from ssl import SSLContext

    from agent.relay.merged import MergedNumbers
    from nostr_client.codecs.event import Event
    from nostr_client.network.pacing import TokenBucket
    from nostr_client.store.base import EventStore, SaveOutcome
    from nostr_client.store.sqlite import SqliteStore


_FINAL_TEXT = 0x81


_short_header = Struct("!BB").pack
_middle_header = Struct("!BBH").pack
_long_header = Struct("!BBQ").pack


def text_frames(texts: Iterable[bytes]) -> bytes:
    """The bytes of one frame for each UTF-8 text, one after the other."""
    return b"".join([part for text in texts for part in (_headers[len(text)], text)])


class _Headers(dict[int, bytes]):
    """The header of a frame by its size. Those of short frames are remembered."""

    def __missing__(self, size: int) -> bytes:
        made = _header(size)
        if size < _SHORT:
            self[size] = made
        return made


_headers = _Headers()
_SHORT = 4_096


def _header(size: int) -> bytes:
    if size < 126:
        return _short_header(_FINAL_TEXT, size)
    if size < 65_536:
        return _middle_header(_FINAL_TEXT, 126, size)
    return _long_header(_FINAL_TEXT, 127, size)


CLOSE_S = 2.0
"""How long a client may take to answer our close frame."""

_WITHOUT_WEBSOCKET = 2
"""Sockets for each connection that is allowed: those that have not asked yet, or are refused."""

_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Allow-Methods": "GET, OPTIONS",
}


class Sender:
    """The FrameSender of one WebSocket. It packs frames where the client asked for that."""

    def __init__(self, request: web.BaseRequest, ws: web.WebSocketResponse) -> None:
        self._request = request
        self._ws = ws

    @property
    def is_free(self) -> bool:
        transport = self._request.transport
        return not (transport is None or self._ws.compress or transport.get_write_buffer_size())

    def write(self, frames: Sequence[bytes]) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing() or self._ws.closed:
            raise ConnectionResetError("the client is gone")
        transport.write(text_frames(frames))

    async def send(self, frames: Sequence[bytes]) -> None:
        if self._ws.compress:
            for frame in frames:
                await self._ws.send_frame(frame, WSMsgType.TEXT)
            return
        self.write(frames)
        del frames  # the transport has its own copy of what it could not write
        await self._request.writer.drain()


class RelayServer:
    """A running local relay; made by `serve`."""

    def __init__(self, core: RelayCore, host: str, port: int) -> None:
        access = core.options.access
        self._core = core
        self._host = host
        self._scheme = "wss" if access.tls_cert else "ws"
        self._addresses = ConnectionLimiter(core.options.limits)
        self._handlers: set[asyncio.Task[Any]] = set()
        self.port = port
        self.url = core.url

    @property
    def counted(self) -> Mapping[str, int]:
        """What was done and cut since the start, by name."""
        return self._core.context.counted

    @property
    def connections(self) -> int:
        """Open connections."""
        return self._addresses.connections

    @property
    def subscriptions(self) -> int:
        """Open subscriptions of all connections."""
        return len(self._core.hub)

    @property
    def count_seconds(self) -> Sequence[float]:
        """How long each of the newest COUNTs took, from frame to answer."""
        return tuple(self._core.context.count_seconds)

    def announce(self, events: Sequence[Event]) -> None:
        """Send events that another part has stored to subscribers, after their commit."""
        self._core.announce(events)

    def is_wanted(self, event: Event) -> bool:
        """Whether a subscription matches `event`."""
        return next(self._core.hub.match(event), None) is not None

    def is_taking(self, event: Event) -> bool:
        """Whether `event`, this very object, came from a client and is being committed now."""
        return self._core.ingest.is_saving(event)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request: a WebSocket, the NIP-11 document, or a word to a person."""
        merged = request.path == PATH and self._core.merged is not None
        if request.path != "/" and not merged:
            return web.Response(status=404, text="The relay is at /.\n")
        if merged and not self.counts_for_all:
            return web.Response(status=404, text="No watch has merged = true.\n")
        if request.method == "OPTIONS":
            return web.Response(status=204, headers=_CORS)
        token = bearer(request.headers.get("Authorization"), request.query.get("token"))
        host = request.headers.get("Host", "")
        origin = request.headers.get("Origin")
        websocket = web.WebSocketResponse().can_prepare(request).ok
        entry = admit(
            host, origin if websocket else None, token, self._core.options.access, self._host
        )
        if entry.refusal:
            self._core.context.counted["refused_connections"] += 1
            return web.Response(status=403, text=entry.refusal + "\n")
        if websocket and self._core.stopped:
            return web.Response(status=503, text="The relay broke down.\n")
        if websocket:
            session = MergedSession if merged else ServerSession
            return await self._websocket(request, host, entry.read_only_reason, session)
        if info.wants_info(request.headers.get("Accept")):
            found = info.merged_document(self._core.options) if merged else self.document()
            return web.json_response(found, content_type=info.ACCEPT, headers=_CORS)
        return web.Response(text="This is a Nostr relay; use a Nostr client.\n", headers=_CORS)

    @property
    def counts_for_all(self) -> bool:
        """Whether the path of merged numbers has any."""
        return self._core.merged is not None and self._core.merged.is_on

    def document(self) -> dict[str, object]:
        """The NIP-11 document."""
        options = self._core.options
        restricted = options.write_policy is not everything or options.access.token is not None
        search = self._core.context.search
        return info.document(options, search=search, write_restricted=restricted)

    async def _websocket(
        self,
        request: web.BaseRequest,
        host: str,
        read_only_reason: str,
        session: type[ServerSession],
    ) -> web.StreamResponse:
        address = request.remote or ""
        refusal = self._addresses.refusal(address)
        if refusal:
            self._core.context.counted["refused_connections"] += 1
            return web.Response(status=429, text=refusal + "\n")
        share = self._addresses.enter(address, self._now())
        peer = self._peer(address, share.bucket, host, read_only_reason)
        with self._counted_in(address):
            return await self._serve(request, session(self._core.context, peer))

    @contextmanager
    def _counted_in(self, address: str) -> Iterator[None]:
        """This task handles a connection of `address`, which has been let in."""
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
        try:
            yield
        finally:
            self._addresses.leave(address)
            self._handlers.discard(cast("asyncio.Task[Any]", task))

    def _peer(self, address: str, shared: TokenBucket, host: str, reason: str) -> Peer:
        limits = self._core.options.limits
        return Peer(
            address=address,
            challenge=secrets.token_hex(16),
            bucket=events_bucket(limits.events_per_s, limits, self._now()),
            address_bucket=shared,
            urls=frozenset(normal_urls([f"{self._scheme}://{host}"])),
            read_only_reason=reason,
        )

    async def _serve(self, request: web.BaseRequest, session: ServerSession) -> web.StreamResponse:
        options = self._core.options
        ws = web.WebSocketResponse(
            timeout=CLOSE_S,
            heartbeat=options.limits.heartbeat_s,
            compress=options.compress,
            max_msg_size=options.limits.message_bytes,
        )
        try:
            await ws.prepare(request)
        except ConnectionError:  # the client has disconnected: nothing to log
            return web.Response()
        connection = ServerConnection(self._core, session, Sender(request, ws))
        self._core.context.counted["connections"] += 1
        end = await connection.run(_Frames(ws))
        if end is not None:
            await self._close(request, ws, end)
        return ws

    async def _close(
        self, request: web.BaseRequest, ws: web.WebSocketResponse, end: Disconnect
    ) -> None:
        """Say why and go; a client that does not even take the close frame is cut off."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await ws.close(code=end.code, message=end.reason.encode()[:120])
        except TimeoutError:
            pass
        finally:
            if request.transport is not None:
                request.transport.abort()

    async def goodbye(self) -> None:
        """Close every connection with 1001, and wait until the clients have gone."""
        self._core.end_all(Disconnect(GOING_AWAY, "the relay goes away"))
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=LAST_WORDS_S + CLOSE_S)

    def _now(self) -> float:
        return self._core.context.clock.monotonic()


@asynccontextmanager
async def serve(
    store: EventStore,
    *,
    host: str = "127.0.0.1",
    port: int = 4869,
    options: RelayOptions | None = None,
    clock: RelayClock | None = None,
    on_break: Callable[[], object] | None = None,
    on_event: Callable[[str, str], None] | None = None,
    merged: MergedNumbers | None = None,
) -> AsyncIterator[RelayServer]:
    """Serve `store` as a relay while the block runs; port 0 takes a free one.

    `on_break` is called when the relay can do nothing any more (its ingest broke): leave the block
    then, which raises why. `on_event` gets the id of each valid event of a client, and the relay's
    own URL, before it is saved. `merged`: what COUNT is answered with on `/merged`; by default that
    path does not exist.

    Leaving the block refuses new connections, answers every EVENT that was taken, and closes all
    sockets with 1001. Raises InvalidInput when the address needs TLS, a token or a policy that
    `options` lack, NetworkError when it cannot be bound.
    """
    options = options or RelayOptions()
    has_policy = options.write_policy is not everything
    check_listen(host, options.access, has_policy=has_policy)
    tls = tls_context(options.access)
    listener = bind(host, port)
    port = listener.getsockname()[1]
    context = RelayContext(
        options=options,
        urls=frozenset(normal_urls(own_urls(options, host, port))),
        search=store.has_search,
        clock=clock or RelayClock(),
    )
    store.answer_for(context.urls)
    core = RelayCore(
        store, context, relay_url("wss" if tls else "ws", host, port), on_event, merged
    )
    server = RelayServer(core, host, port)
    async with _running(core, server, listener, tls, on_break):
        yield server


@asynccontextmanager
async def _running(
    core: RelayCore,
    server: RelayServer,
    listener: socket,
    tls: SSLContext | None,
    on_break: Callable[[], object] | None,
) -> AsyncIterator[None]:
    limits = core.options.limits
    most = limits.connections * _WITHOUT_WEBSOCKET
    http = BoundedServer(server.handle, most=most, silent_s=limits.handshake_s)
    runner = web.ServerRunner(http, shutdown_timeout=CLOSE_S)
    await runner.setup()
    working = asyncio.create_task(core.run())
    if on_break is not None:
        working.add_done_callback(lambda _: on_break())
    try:
        site = await listen(runner, listener, tls)
        try:
            yield
        finally:
            await site.stop()
            await core.drain(CLOSE_S)
            await server.goodbye()
    finally:
        await end(working)
        await runner.cleanup()
        await core.close()


class _Frames:
    """The frames of one WebSocket until it closes. A generator would cost a tenth of a REQ."""

    def __init__(self, ws: web.WebSocketResponse) -> None:
        self._receive = ws.receive

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str | bytes:
        while True:
            message = await self._receive()
            if message.type in _WITH_DATA:
                data: str | bytes = message.data
                return data
            if message.type in _ENDS:
                raise StopAsyncIteration


_WITH_DATA = (WSMsgType.TEXT, WSMsgType.BINARY)
_ENDS = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED)


AT_ONCE = 500
"""Events of one read of the store."""

WAITING = 20_000
"""Events that wait to be announced; above it the oldest go: a live feed is no backlog."""


@asynccontextmanager
async def following(store: SqliteStore, server: RelayServer) -> AsyncIterator[None]:
    """While the block runs, `server` announces what other parts store, after its commit.

    It announces what its own clients send by itself. Costs nothing without subscriptions.
    """
    follower = _Follower(store, server)
    store.on_batch.append(follower.hook)
    working = asyncio.create_task(follower.run())
    try:
        yield
    finally:
        store.on_batch.remove(follower.hook)
        working.cancel()
        await asyncio.wait({working})


class _Follower:
    """From the writer's thread, inside its transaction, to the loop after the commit."""

    def __init__(self, store: SqliteStore, server: RelayServer) -> None:
        self._store = store
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._events: list[Event] = []
        self._some = asyncio.Event()

    def hook(self, _: sqlite3.Connection, batch: Sequence[tuple[Event, SaveOutcome]]) -> None:
        """Called by the store; the transaction is still open."""
        events = [event for event, outcome in batch if outcome.stored]
        if events:
            self._loop.call_soon_threadsafe(self._note, events)

    def _note(self, events: list[Event]) -> None:
        if self._server.subscriptions:
            self._events += [event for event in events if not self._server.is_taking(event)]
            del self._events[:-WAITING]
            self._some.set()

    async def run(self) -> None:
        """Announce, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            noted, self._events = self._events, []
            wanted = {event.id: event for event in noted if self._server.is_wanted(event)}
            # Writes end in order: when this one is done, those of `noted` are, or were undone.
            await self._store.database.write(lambda _: None)
            self._server.announce(await self._kept(wanted))

    async def _kept(self, events: dict[str, Event]) -> list[Event]:
        """Those that the store has: a hook also sees batches that are undone after it."""
        ids = list(events)
        kept: list[Event] = []
        for at in range(0, len(ids), AT_ONCE):
            some = Filter(ids=ids[at : at + AT_ONCE])
            held = {event.id for event in await self._store.query([some])}
            kept += [events[event_id] for event_id in some.ids or () if event_id in held]
        return kept
