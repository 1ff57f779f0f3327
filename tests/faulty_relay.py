"""A relay for tests that misbehaves on purpose: an aiohttp server on a port of its own.

`FaultyRelay(behaviour, events=...)` serves `events` by NIP-01 and NIP-45, except where the
behaviour says otherwise. Behaviours are small classes; `tests.faults` has the known faults.

    async with FaultyRelay(SilentCount(), events=events) as relay:
        await client.count(..., relays=[relay.url])
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from aiohttp import WSCloseCode, WSMsgType, web

from nostr_client.codecs.filters import Filter

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable
    from types import TracebackType

    from nostr_client.codecs.event import Event


class Peer:
    """One client as the relay sees it."""

    def __init__(
        self, ws: web.WebSocketResponse, request: web.BaseRequest, relay: FaultyRelay
    ) -> None:
        self.ws = ws
        self.request = request
        self.relay = relay
        self.subscriptions: dict[str, list[Filter]] = {}
        self.authenticated: str | None = None

    async def send(self, *parts: Any) -> None:
        """Send one message as JSON."""
        await self.send_text(json.dumps(parts, ensure_ascii=False))

    async def send_text(self, text: str) -> None:
        """Send a text frame as it stands; a client that is gone is not an error."""
        if not self.ws.closed:
            try:
                await self.ws.send_str(text)
            except ConnectionError:
                return

    async def send_event(self, sub_id: str, event: Event) -> None:
        """Send one event for a subscription."""
        await self.send_text(f'["EVENT",{json.dumps(sub_id)},{event.to_json()}]')

    def raw(self, data: bytes) -> None:
        """Write bytes below the WebSocket layer."""
        transport = self.request.transport
        if transport is not None:
            transport.write(data)

    def abort(self) -> None:
        """Cut the TCP connection without a close frame (1006)."""
        transport = self.request.transport
        if transport is not None:
            transport.abort()

    async def close(self, code: int = WSCloseCode.GOING_AWAY, reason: str = "") -> None:
        """Close with a code and a reason."""
        await self.ws.close(code=code, message=reason.encode())


class Behaviour:
    """An honest relay; override what shall be wrong. One instance may serve many connections."""

    async def on_connect(self, peer: Peer) -> None:
        """Called before the first message is read."""

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        """Called for each message of the client."""
        handlers = {
            "REQ": self.on_req,
            "COUNT": self.on_count,
            "EVENT": self.on_event,
            "CLOSE": self.on_close,
            "AUTH": self.on_auth,
        }
        handler = handlers.get(message[0], self.on_other)
        await handler(peer, message)

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        """Stored events, newest first, then EOSE; stays open for new ones."""
        filters = [Filter.from_json(one) for one in message[2:]]
        peer.subscriptions[message[1]] = filters
        for event in peer.relay.query(filters):
            await peer.send_event(message[1], event)
        await peer.send("EOSE", message[1])

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        """The number of events that match any filter."""
        filters = [Filter.from_json(one).replace(limit=None) for one in message[2:]]
        await peer.send("COUNT", message[1], {"count": len(peer.relay.query(filters))})

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        """OK, true; nothing is stored."""
        await peer.send("OK", message[1]["id"], True, "")

    async def on_close(self, peer: Peer, message: list[Any]) -> None:
        """Forget the subscription."""
        peer.subscriptions.pop(message[1], None)

    async def on_auth(self, peer: Peer, message: list[Any]) -> None:
        """Believe it."""
        peer.authenticated = message[1]["pubkey"]
        await peer.send("OK", message[1]["id"], True, "")

    async def on_other(self, peer: Peer, message: list[Any]) -> None:
        """NEG messages and what else there is."""
        await peer.send("NOTICE", f"unknown command {message[0]}")


class FaultyRelay:
    """See the module. `received` has every message of every client, `connections` their number."""

    def __init__(
        self,
        behaviour: Behaviour | None = None,
        *,
        events: Iterable[Event] = (),
        info: dict[str, Any] | bytes | None = None,
        compress: bool = False,
        pongs: bool = True,
        refuse: int = 0,
        date: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.behaviour = behaviour or Behaviour()
        self.events = list(events)
        self.info = info
        self.received: list[list[Any]] = []
        self.accepts: list[str] = []
        self.headers: list[dict[str, str]] = []
        """Those of every handshake and request."""
        self.asked_for_info = asyncio.Event()
        self.connections = 0
        self.peers: list[Peer] = []
        self.url = ""
        self.pongs = pongs
        self.pings = 0
        self.refuse = refuse
        """HTTP status that every handshake gets instead of a WebSocket; 0 for none."""
        self.date = date
        """What its handshakes say that the time is; None: the time."""
        self._compress = compress
        self._tls = tls
        self._port = 0
        self._runner: web.ServerRunner | None = None
        self._heard = asyncio.Condition()

    def query(self, filters: list[Filter]) -> list[Event]:
        """Events that match any filter, newest first, each filter cut at its limit."""
        found: dict[str, Event] = {}
        for one in filters:
            matching = [event for event in self.events if one.matches(event)]
            matching.sort(key=lambda event: (-event.created_at, event.id))
            found |= {event.id: event for event in matching[: one.limit]}
        return list(found.values())

    async def start(self) -> None:
        """Listen; after a `stop` on the same port again."""
        server = web.Server(self._serve, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"ws{'s' if self._tls else ''}://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        """Cut every connection and stop listening."""
        for peer in self.peers:
            peer.abort()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def broadcast(self, event: Event) -> None:
        """Store an event and send it to every subscription that it matches."""
        self.events.append(event)
        for peer in self.peers:
            for sub_id, filters in list(peer.subscriptions.items()):
                if any(one.matches(event) for one in filters):
                    await peer.send_event(sub_id, event)

    def verbs(self) -> Counter[str]:
        """How many messages of each kind were received."""
        return Counter(message[0] for message in self.received)

    async def heard(self, verb: str, times: int = 1, *, within: float = 10.0) -> list[list[Any]]:
        """Wait until `times` messages of a kind have come; the deadline is in seconds."""
        async with asyncio.timeout(within), self._heard:
            await self._heard.wait_for(lambda: self.verbs()[verb] >= times)
        return [message for message in self.received if message[0] == verb]

    async def pinged(self, times: int, *, within: float = 10.0) -> None:
        """Wait until `times` pings have come in all."""
        async with asyncio.timeout(within), self._heard:
            await self._heard.wait_for(lambda: self.pings >= times)

    async def connected(self, times: int = 1, *, within: float = 10.0) -> None:
        """Wait until `times` connections have been made in all."""
        async with asyncio.timeout(within), self._heard:
            await self._heard.wait_for(lambda: self.connections >= times)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return self._document(request)
        if self.refuse:
            return web.Response(status=self.refuse)
        ws = web.WebSocketResponse(compress=self._compress, max_msg_size=0, autoping=False)
        if self.date is not None:
            ws.headers["Date"] = self.date
        await ws.prepare(request)
        peer = Peer(ws, request, self)
        self.peers.append(peer)
        await self._note(connection=1)
        try:
            await self._converse(peer)
        finally:
            self.peers.remove(peer)
        return ws

    async def _converse(self, peer: Peer) -> None:
        """Each message in a task of its own, so that a CLOSE is heard amid a flood."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.behaviour.on_connect(peer))
            async for message in peer.ws:
                if message.type is WSMsgType.TEXT:
                    group.create_task(self._take(peer, json.loads(message.data)))
                elif message.type is WSMsgType.PING:
                    await self._pinged(peer, message.data)

    async def _pinged(self, peer: Peer, data: bytes) -> None:
        self.pings += 1
        await self._note()
        if self.pongs:
            await peer.ws.pong(data)

    async def _take(self, peer: Peer, message: list[Any]) -> None:
        self.received.append(message)
        await self._note()
        await self.behaviour.on_message(peer, message)

    async def _note(self, connection: int = 0) -> None:
        async with self._heard:
            self.connections += connection
            self._heard.notify_all()

    def _document(self, request: web.BaseRequest) -> web.Response:
        self.accepts.append(request.headers.get("Accept", ""))
        self.asked_for_info.set()
        if self.info is None or self.accepts[-1] != "application/nostr+json":
            return web.Response(text="use a Nostr client")
        body = self.info if isinstance(self.info, bytes) else json.dumps(self.info).encode()
        return web.Response(body=body, content_type="application/nostr+json")
