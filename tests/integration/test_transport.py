"""Sockets: TLS, proxy, compression, and peers that abuse each of them."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from nostr_client.codecs.nip11 import ACCEPT
from nostr_client.errors import NetworkError, ProtocolError
from nostr_client.network.relay import Relay
from nostr_client.network.transport import Transport
from nostr_client.options import ConnectionOptions, Limits, Options, Timeouts
from tests.faults import HugeFrame, SaysThenCloses
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.talking import NOTES, Naps, note, talking

if TYPE_CHECKING:
    from pathlib import Path


class Pings(Behaviour):
    """Pings and pongs without end on connect."""

    async def on_connect(self, peer: Peer) -> None:
        while not peer.ws.closed:
            await peer.ws.ping()
            await peer.ws.pong()
            await asyncio.sleep(0)


class NeverReads(Behaviour):
    """Takes one message and no more, with the connection open."""

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        transport = peer.request.transport
        if isinstance(transport, asyncio.Transport):
            transport.pause_reading()


async def test_tls_is_verified(certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    server = FaultyRelay(events=[note(1)], info={"name": "x"}, tls=serving)
    async with server:
        assert server.url.startswith("wss://")
        options = Options(connection=ConnectionOptions(tls=trusting))
        async with Relay(server.url, options=options) as relay:
            assert (await relay.count(NOTES)).count == 1
            assert (await relay.info()).name == "x"
        async with Relay(server.url) as stranger:
            with pytest.raises(NetworkError, match="certificate"):
                await stranger.count(NOTES)


async def echo(request: web.Request) -> web.WebSocketResponse:
    server = web.WebSocketResponse()
    await server.prepare(request)
    async for message in server:
        await server.send_str(message.data)
        await server.send_bytes(message.data.encode())
    return server


async def test_bytes_and_not_characters_are_counted() -> None:
    runner, url = await serve_document(echo)
    try:
        async with Transport() as transport:
            socket = await transport.connect(url)
            await socket.send("é€😀", "[]")
            heard = [await socket.receive() for _ in range(4)]
            await socket.close()
    finally:
        await runner.cleanup()
    assert heard == ["é€😀".encode()] * 2 + [b"[]"] * 2
    assert (socket.bytes_sent, socket.bytes_received) == (2 + 3 + 4 + 2, 2 * (2 + 3 + 4 + 2))


async def test_a_small_frame_that_unpacks_to_much_is_cut_off() -> None:
    options = Options(limits=Limits(message_bytes_in=100_000))
    bomb = HugeFrame(20_000_000)
    async with talking(bomb, server_args={"compress": True}, options=options) as (_, relay):
        with pytest.raises(ProtocolError, match="100000 bytes"):
            await relay.fetch(NOTES)


async def test_a_flood_of_pings_is_cut_off() -> None:
    naps = Naps(1)
    async with talking(Pings(), sleep=naps) as (_, relay):
        await naps.taken()
        assert "pings" in relay.stats.last_error
        assert relay.stats.faults == 1


async def test_a_peer_that_does_not_read_is_dropped() -> None:
    options = Options(timeouts=Timeouts(send=0.3, count=20), limits=Limits(waiting=5000))
    naps = Naps(1)
    async with talking(NeverReads(), options=options, sleep=naps) as (_, relay):
        asked = NOTES.replace(authors=["ab" * 32] * 1500)
        asking = [asyncio.ensure_future(relay.count(asked)) for _ in range(200)]
        await naps.taken()
        assert "sending" in relay.stats.last_error
        errors = await asyncio.gather(*asking, return_exceptions=True)
        assert {type(error) for error in errors} == {NetworkError}


async def test_an_answer_that_is_no_websocket() -> None:
    async with talking(server_args={"refuse": 503}) as (_, relay):
        with pytest.raises(NetworkError, match="503") as caught:
            await relay.count(NOTES)
        assert caught.value.http_status == 503


async def serve_document(respond: Any) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_get("/", respond)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"ws://127.0.0.1:{runner.addresses[0][1]}"


async def zipped(request: web.Request) -> web.Response:
    body = gzip.compress(b" " * 50_000_000)
    return web.Response(body=body, headers={"Content-Encoding": "gzip"})


async def elsewhere(request: web.Request) -> web.Response:
    raise web.HTTPFound("http://127.0.0.1:9/")


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65536)


async def mute(request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError("it waits for ever")


@pytest.mark.parametrize(
    ("respond", "error", "seconds"),
    [
        (zipped, ProtocolError, 30),
        (elsewhere, NetworkError, 30),
        (endless, ProtocolError, 30),
        (mute, NetworkError, 0.3),
    ],
)
async def test_documents_that_are_traps(
    respond: Any, error: type[Exception], seconds: float
) -> None:
    runner, url = await serve_document(respond)
    try:
        options = Options(timeouts=Timeouts(http=seconds))
        async with Relay(url, options=options) as relay:
            with pytest.raises(error):
                await relay.info()
    finally:
        await runner.cleanup()


async def test_no_cookie_and_no_version_tell_who_we_are() -> None:
    seen: list[dict[str, str]] = []

    async def note_headers(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        response = web.Response(body=b"{}")
        response.set_cookie("who", "you")
        return response

    runner, url = await serve_document(note_headers)
    try:
        async with Transport() as transport:
            for _ in range(2):
                await transport.get_document(url, accept=ACCEPT)
    finally:
        await runner.cleanup()
    assert [headers.get("Cookie") for headers in seen] == [None, None]
    assert seen[0]["User-Agent"] == "nostr-tally"
    assert seen[0]["Accept"] == "application/nostr+json"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_handshake_is_not_sent_elsewhere(status: int) -> None:
    asked: list[str] = []

    async def secret(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(text="a secret of the user's own network")

    async def moved(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"http{private[2:]}/"})

    inside, private = await serve_document(secret)
    outside, url = await serve_document(moved)
    try:
        async with Relay(url) as relay:
            with pytest.raises(NetworkError, match=f"HTTP {status}") as caught:
                await relay.connect()
        assert caught.value.http_status == status
        assert asked == []
    finally:
        await outside.cleanup()
        await inside.cleanup()


@pytest.mark.parametrize("code", [1008, 4000])
async def test_who_writes_to_a_closed_connection_hears_why_it_was_closed(code: int) -> None:
    async with (
        FaultyRelay(SaysThenCloses(code=code)) as server,
        Transport() as transport,
    ):
        socket = await transport.connect(server.url)
        for use in (socket.receive(), socket.send("[]"), socket.ping(1)):
            with pytest.raises(NetworkError) as caught:
                await use
            assert caught.value.close_code == code
