"""Servers that are set up in other ways: a domain, an API prefix, a token, TLS, an old version."""

from __future__ import annotations

import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from nostr_client.counters.base import NoStream, Outgoing
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.jetstream import JetStreamCounterStore, NatsOptions
from nostr_client.errors import InvalidInput, NetworkError, Unsupported
from tests.conftest import require_tool
from tests.nats_peer import running_server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop

CONFIG = StreamConfig(
    name="C", subjects=("c.*",), allow_msg_counter=True, allow_direct=True, allow_atomic=True
)


async def count(store: JetStreamCounterStore) -> int:
    await store.create_stream(CONFIG)
    counters = await store.counters("C")
    await counters.add("c.a", 4)
    assert [value async for _, value in counters.load_many("c.*")] == [4]
    return await counters.reset("c.a")


async def test_a_domain(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    config.write_text("jetstream { domain: hub }")
    with running_server("-c", str(config)) as server:
        options = NatsOptions(domain="hub")
        async with await JetStreamCounterStore.connect(server.url, options) as store:
            assert await count(store) == 0
            ack = await (await store.counters("C")).publish("c.b", 1)
            assert ack.domain == "hub"
        elsewhere = NatsOptions(domain="elsewhere", timeout_s=2)
        async with await JetStreamCounterStore.connect(server.url, elsewhere) as store:
            with pytest.raises(NoStream):
                await store.streams()


async def test_an_api_prefix_of_another_account(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    config.write_text(
        """
        accounts {
          COUNTS: {
            jetstream: enabled
            users: [{user: a, password: a}]
            exports: [{service: "$JS.API.>", response_type: stream}, {service: "c.*"}]
          }
          USERS: {
            users: [{user: b, password: b}]
            imports: [
              {service: {account: COUNTS, subject: "$JS.API.>"}, to: "counts.>"}
              {service: {account: COUNTS, subject: "c.*"}}
            ]
          }
        }
        """
    )
    with running_server("-c", str(config)) as server:
        url = server.url.replace("://", "://b:b@")
        options = NatsOptions(api_prefix="counts")
        async with await JetStreamCounterStore.connect(url, options) as store:
            assert await count(store) == 0


async def test_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nostr_client.counters.jetstream.connection.CONNECT_S", 2)
    with running_server("--auth", "s3cret") as server:
        options = NatsOptions(token="s3cret")
        async with await JetStreamCounterStore.connect(server.url, options) as store:
            assert await count(store) == 0
        with pytest.raises(NetworkError):
            await JetStreamCounterStore.connect(server.url, NatsOptions(token="wrong"))


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody else trusts, and its key."""
    key, made = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        require_tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", str(key), "-out", str(made),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return made, key


async def test_tls(certificate: tuple[Path, Path]) -> None:
    made, key = certificate
    trusted = ssl.create_default_context(cafile=str(made))
    with running_server("--tls", "--tlscert", str(made), "--tlskey", str(key)) as server:
        url = server.url.replace("nats://", "tls://")
        async with await JetStreamCounterStore.connect(url, NatsOptions(tls=trusted)) as store:
            assert await count(store) == 0


async def test_old_servers_are_refused_or_used_with_care(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is what the connection says; the server behind it is a new one."""
    version = (2, 14, 2)
    monkeypatch.setattr(
        "nostr_client.counters.jetstream.connection.Connection.version",
        property(lambda self: version),
    )
    with running_server() as server:
        async with await JetStreamCounterStore.connect(server.url) as store:
            assert store.caution is not None
            assert "2.14.2" in store.caution
            assert await count(store) == 0
            with pytest.raises(InvalidInput, match="bugs that break counters"):
                await store.publish_batch([Outgoing("c.a", (("Nats-Incr", "+1"),))], "b")
        version = (2, 11, 4)
        with pytest.raises(Unsupported):
            await JetStreamCounterStore.connect(server.url)


async def test_a_stream_without_direct_get_is_not_bound() -> None:
    from msgspec.structs import replace

    from nostr_client.errors import CounterError

    with running_server() as server:
        async with await JetStreamCounterStore.connect(server.url) as store:
            await store.create_stream(replace(CONFIG, allow_direct=False))
            with pytest.raises(CounterError, match="allow_direct"):
                await store.counters("C")
