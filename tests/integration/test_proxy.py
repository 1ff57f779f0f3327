"""Relays, documents, webhooks and agents through a real SOCKS5 and HTTP proxy."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from agent.alerts import webhook
from agent.api.client import AgentClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import verify
from nostr_client.count.wallets import WalletStatus
from nostr_client.count.wallets.asking import Wallets
from nostr_client.errors import InvalidInput, NetworkError, RelayRefused
from nostr_client.network.pool import RelayPool
from nostr_client.network.relay import Relay
from nostr_client.network.transport import Transport
from nostr_client.options import ConnectionOptions, Options, Timeouts
from tests.faults import WantsAuth
from tests.faulty_relay import FaultyRelay
from tests.proxied import PASSWORD, RealProxy, real_proxy, unused_port
from tests.talking import NOTES, SIGNER, note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def proxy() -> AsyncIterator[RealProxy]:
    async with real_proxy() as one:
        yield one


def through(proxy: str, **more: object) -> Options:
    return Options(connection=ConnectionOptions(proxy=proxy, **more))


def named(relay: FaultyRelay, host: str = "relay.test") -> str:
    return relay.url.replace("127.0.0.1", host)


@pytest.mark.parametrize("kind", ["socks", "http"])
async def test_all_that_a_relay_is_asked_goes_through_the_proxy(kind: str) -> None:
    """The name is known to the proxy alone; user and password reach the proxy and no relay."""
    async with (
        real_proxy(credentials=True) as proxy,
        FaultyRelay(events=[note(1)], info={"name": "x"}) as server,
    ):
        url = named(server)
        async with Relay(url, options=through(getattr(proxy, kind))) as relay:
            assert (await relay.count(NOTES)).count == 1
            assert (await relay.info()).name == "x"
            assert (await relay.publish(verify(note(2)))).accepted
        assert set(proxy.asked) == {url.removeprefix("ws://")}
        for peer in server.headers:
            assert "Proxy-Authorization" not in peer
            assert PASSWORD not in str(peer)


@pytest.mark.parametrize("kind", ["socks", "http", "https"])
async def test_tls_is_verified_through_a_proxy_and_to_it(
    kind: str, certificate: tuple[Path, Path]
) -> None:
    key, cert = certificate
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with (
        FaultyRelay(events=[note(1)], tls=serving) as server,
        real_proxy(certificate=certificate if kind == "https" else None) as proxy,
    ):
        url = getattr(proxy, kind)
        async with Relay(server.url, options=through(url, tls=trusting)) as relay:
            assert (await relay.count(NOTES)).count == 1
        assert len(proxy.asked) == 1
        async with Relay(server.url, options=through(url)) as relay:
            with pytest.raises(NetworkError, match="certificate"):
                await relay.count(NOTES)
        assert server.connections == 1


@pytest.mark.parametrize("scheme", ["socks5h", "socks5", "http"])
async def test_a_proxy_that_is_down_is_an_error_and_nothing_goes_beside_it(scheme: str) -> None:
    port = unused_port()
    async with FaultyRelay(events=[note(1)], info={"name": "x"}) as server:
        options = through(f"{scheme}://bob:{PASSWORD}@127.0.0.1:{port}")
        async with Relay(server.url, options=options) as relay:
            said = rf"the proxy at 127\.0\.0\.1:{port} cannot be reached \(Connection refused\)"
            for ask in (relay.count(NOTES), relay.info()):
                with pytest.raises(NetworkError, match=said) as failed:
                    await ask
                assert PASSWORD not in str(failed.value)
                assert failed.value.relay == server.url
        assert server.connections == 0


async def test_the_reason_of_a_proxy_that_cannot_be_reached() -> None:
    """A name with several addresses has several errors and no number."""
    for host, reason in (
        ("proxy.invalid", "its name is not known"),
        ("localhost", "Connection refused|no address of it answers"),
    ):
        async with Relay("ws://a.test", options=through(f"http://{host}:{unused_port()}")) as relay:
            with pytest.raises(NetworkError, match=rf"cannot be reached \(({reason})\)"):
                await relay.count(NOTES)


async def test_an_answer_that_comes_through_the_proxy_keeps_its_status(proxy: RealProxy) -> None:
    async with Transport(through(proxy.socks)) as transport, FaultyRelay(refuse=503) as server:
        with pytest.raises(NetworkError, match="HTTP 503") as failed:
            await transport.connect(named(server))
    assert failed.value.http_status == 503


@pytest.mark.parametrize("kind", ["socks", "http"])
async def test_a_proxy_that_wants_other_credentials_says_so(kind: str) -> None:
    async with real_proxy(credentials=True) as proxy, FaultyRelay(events=[note(1)]) as server:
        url = getattr(proxy, kind).replace(PASSWORD, "wr0ng-pass")
        async with Relay(named(server), options=through(url)) as relay:
            with pytest.raises(NetworkError, match=r"the proxy at 127\.0\.0\.1") as failed:
                await relay.count(NOTES)
            assert "wr0ng-pass" not in str(failed.value)
        assert server.connections == 0


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize(
    "answer",
    [b"", b"\x05", b"\x05\x00\x05\x00\x00\x09", b"\xff" * 40, b"HTTP/1.1\r\n", b"HTTP/1.1 x y\r\n"],
)  # fmt: skip
async def test_what_is_no_proxy_is_an_error_of_the_proxy(scheme: str, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Relay("ws://a.test", options=through(f"{scheme}://127.0.0.1:{port}")) as one:
        with pytest.raises(NetworkError, match=rf"the proxy at 127\.0\.0\.1:{port} did not"):
            await one.count(NOTES)


async def test_a_host_behind_the_proxy_that_is_not_there_is_an_error(proxy: RealProxy) -> None:
    options = through(proxy.socks)
    async with Relay(f"ws://relay.test:{unused_port()}", options=options) as relay:
        with pytest.raises(NetworkError, match="connecting"):
            await relay.count(NOTES)


async def test_an_option_is_for_this_machine_too_and_no_proxy_excludes_it(
    proxy: RealProxy,
) -> None:
    async with FaultyRelay(events=[note(1)]) as server:
        async with Relay(server.url, options=through(proxy.http)) as relay:
            await relay.count(NOTES)
        assert len(proxy.asked) == 1
        options = through(proxy.http, no_proxy=("127.0.0.0/8",))
        async with Relay(server.url, options=options) as relay:
            await relay.count(NOTES)
        assert len(proxy.asked) == 1


async def test_the_environment_is_heard_and_spares_this_machine(
    proxy: RealProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy.socks)
    async with FaultyRelay(events=[note(1)]) as server:
        for host in ("relay.test", "127.0.0.1"):
            async with Relay(named(server, host)) as relay:
                assert (await relay.count(NOTES)).count == 1
        assert [one.partition(":")[0] for one in proxy.asked] == ["relay.test"]
        direct = Options(connection=ConnectionOptions(proxy="none"))
        async with Relay(named(server, "localhost"), options=direct) as relay:
            assert (await relay.count(NOTES)).count == 1
        assert len(proxy.asked) == 1


async def test_a_broken_variable_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"ftp://bob:{PASSWORD}@proxy.example:1")
    with pytest.raises(InvalidInput, match=r"\$ALL_PROXY: a proxy speaks") as wrong:
        Transport()
    assert PASSWORD not in str(wrong.value)


async def test_a_strangers_relay_is_refused_where_the_proxy_resolves_its_name(
    proxy: RealProxy,
) -> None:
    async with FaultyRelay(events=[note(1)]) as server:
        async with RelayPool(options=through(proxy.socks)) as pool:
            for host in ("relay.test", "127.0.0.1", "localhost", f"{'a' * 56}.onion"):
                relay = pool.relay(named(server, host), stranger=True)
                with pytest.raises(NetworkError, match=r"address|name of the local network"):
                    await relay.count(NOTES)
        assert proxy.asked == []
        options = through(proxy.socks, strangers_by_proxy=True)
        async with RelayPool(options=options) as pool:
            relay = pool.relay(named(server), stranger=True)
            assert (await relay.count(NOTES)).count == 1
            relay = pool.relay(named(server, "127.0.0.1"), stranger=True)
            with pytest.raises(NetworkError, match="not a public address"):
                await relay.count(NOTES)
        assert len(proxy.asked) == 1


async def test_a_strangers_open_connection_is_signed_for_once_the_user_names_the_relay(
    proxy: RealProxy,
) -> None:
    options = through(proxy.socks, strangers_by_proxy=True)
    async with (
        FaultyRelay(WantsAuth(), events=[note(1)]) as server,
        RelayPool(options=options, signer=SIGNER) as pool,
    ):
        relay = pool.relay(named(server), stranger=True)
        with pytest.raises(RelayRefused, match="auth-required"):
            await relay.fetch(NOTES)
        assert server.verbs()["AUTH"] == 0
        assert pool.relay(named(server)) is relay
        assert len((await relay.fetch(NOTES)).events) == 1
        assert server.verbs()["AUTH"] == 1
        assert server.connections == 1


async def test_an_onion_host_goes_to_the_proxy_unresolved(proxy: RealProxy) -> None:
    host = f"{'b' * 56}.onion"
    options = Options(
        connection=ConnectionOptions(proxy=proxy.socks), timeouts=Timeouts(connect=10)
    )
    async with Relay(f"ws://{host}", options=options) as relay:
        with pytest.raises(NetworkError):
            await relay.count(NOTES)
    assert set(proxy.asked) == {f"{host}:80"}


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_wallet_is_asked_through_the_proxy_once_its_name_is_allowed(
    proxy: RealProxy, allowed: bool
) -> None:
    """A profile names the wallet's host, so it is a stranger's."""
    content = json.dumps({"lud16": "bob@wallet.test"})
    profile = SIGNER.sign_now(EventTemplate(kind=0, content=content, created_at=1)).event
    options = through(proxy.socks, strangers_by_proxy=allowed)
    async with FaultyRelay(events=[profile]) as server, RelayPool(options=options) as pool:
        wallets = Wallets(pool.transport(stranger=True), now=lambda: 1.0)
        (found,) = await wallets.look_up([SIGNER.pubkey], [pool.relay(named(server))], 20)
    asked = [one for one in proxy.asked if one.startswith("wallet")]
    if allowed:
        assert asked == ["wallet.test:443"]
    else:
        assert (found.status, asked) == (WalletStatus.REFUSED, [])
        assert "the proxy resolves wallet.test" in found.reason


async def test_webhooks_and_other_agents_go_through_it(proxy: RealProxy) -> None:
    asked: list[str] = []

    async def take(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.json_response({"code": "x", "message": "no"}, status=404)

    runner = web.ServerRunner(web.Server(take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    connection = ConnectionOptions(proxy=proxy.socks)
    try:
        with pytest.raises(NetworkError, match="HTTP 404"):
            await webhook.post(f"http://hook.test:{port}/h", b"{}", connection)
        with pytest.raises(NetworkError, match="address cannot be checked"):
            await webhook.post(f"http://hook.test:{port}/h", b"{}", connection, public_only=True)
        client = AgentClient(f"http://agent.test:{port}", "token", connection=connection)
        async with client:
            with pytest.raises(Exception, match="no"):
                await client.status()
    finally:
        await runner.cleanup()
    assert asked == ["/h", "/v1/status"]
    assert proxy.asked == [f"hook.test:{port}", f"agent.test:{port}"]


async def test_a_webhook_by_a_proxy_that_is_down_names_hosts_alone() -> None:
    connection = ConnectionOptions(proxy=f"http://bob:{PASSWORD}@127.0.0.1:{unused_port()}")
    with pytest.raises(NetworkError) as failed:
        await webhook.post("https://hook.example.com/T0ken", b"{}", connection)
    said = str(failed.value)
    assert "webhook at hook.example.com: the proxy at 127.0.0.1:" in said
    assert PASSWORD not in said
    assert "T0ken" not in said
