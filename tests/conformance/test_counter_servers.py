"""Servers that are set up in other ways: a domain, an API prefix, a token, TLS, an old version."""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import nkeys
import pytest

from nostr_client.counters.base import Outgoing
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.jetstream import JetStreamCounterStore, NatsOptions
from nostr_client.counters.jetstream.dial import read_credentials
from nostr_client.errors import CounterError, InvalidInput, NetworkError, Unsupported
from tests.conftest import require_tool
from tests.nats_peer import running_server
from tests.rights import secret_file

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
            with pytest.raises(NetworkError, match=r"no JetStream answers at \$JS\.elsewhere\.API"):
                await store.streams()


async def test_what_is_too_large_for_the_server_does_not_cost_the_connection(
    tmp_path: Path,
) -> None:
    config = tmp_path / "nats.conf"
    config.write_text("max_payload: 32KB\njetstream: enabled")
    with running_server("-c", str(config)) as server:
        async with await JetStreamCounterStore.connect(server.url) as store:
            await store.create_stream(CONFIG)
            counters = await store.counters("C")
            with pytest.raises(CounterError) as caught:
                await counters.add("c.a", 10**40_000)
            assert caught.value.code == 10054
            assert await counters.add("c.a", 1) == 1


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
    monkeypatch.setattr("nostr_client.counters.jetstream.dial.CONNECT_S", 2)
    with running_server("--auth", "s3cret") as server:
        options = NatsOptions(token="s3cret")
        async with await JetStreamCounterStore.connect(server.url, options) as store:
            assert await count(store) == 0
        with pytest.raises(NetworkError):
            await JetStreamCounterStore.connect(server.url, NatsOptions(token="wrong"))


class Keys:
    """An operator, an account and a user, as `nsc` makes them: nkeys, and tokens that they sign."""

    def __init__(self) -> None:
        self.operator, self.account, self.user = map(_pair, (OPERATOR, ACCOUNT, USER))
        self.system = _pair(ACCOUNT)

    def config(self) -> str:
        limits = dict.fromkeys(("subs", "data", "payload", "conn", "leaf", "imports"), -1)
        disk = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
        claims = {"type": "account", "version": 2, "limits": limits | {"exports": -1}}
        system = self._token(self.operator, self.system, "SYS", claims)
        claims["limits"] = limits | {"exports": -1} | disk
        account = self._token(self.operator, self.account, "COUNTS", claims)
        operator = self._token(
            self.operator, self.operator, "OPERATOR", {"type": "operator", "version": 2}
        )
        names = [pair.public_key.decode() for pair in (self.account, self.system)]
        return (
            f"jetstream: enabled\noperator: {operator}\nresolver: MEMORY\n"
            f"system_account: {names[1]}\n"
            f"resolver_preload: {{ {names[0]}: {account}, {names[1]}: {system} }}\n"
        )

    def credentials(self, signer: nkeys.KeyPair | None = None) -> str:
        claims = {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1}
        token = self._token(signer or self.account, self.user, "tester", claims)
        return (
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            "************************* IMPORTANT *************************\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.user.seed.decode()}\n"
            "------END USER NKEY SEED------\n"
        )

    def _token(
        self, issuer: nkeys.KeyPair, subject: nkeys.KeyPair, name: str, claims: dict[str, Any]
    ) -> str:
        body = {
            "jti": secrets.token_hex(16), "iat": 1_700_000_000, "name": name, "nats": claims,
            "iss": issuer.public_key.decode(), "sub": subject.public_key.decode(),
        }  # fmt: skip
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (head, body))
        return f"{signed}.{_base64(issuer.sign(signed.encode()))}"


OPERATOR, ACCOUNT, USER = (
    nkeys.PREFIX_BYTE_OPERATOR,
    nkeys.PREFIX_BYTE_ACCOUNT,
    nkeys.PREFIX_BYTE_USER,
)


def _pair(prefix: int) -> nkeys.KeyPair:
    return nkeys.from_seed(bytearray(nkeys.encode_seed(secrets.token_bytes(32), prefix)))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def test_credentials_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys()
    config, good, bad = (tmp_path / name for name in ("nats.conf", "good.creds", "bad.creds"))
    config.write_text(keys.config())
    secret_file(good, keys.credentials())
    secret_file(bad, keys.credentials(Keys().account))
    with running_server("-c", str(config)) as server:
        options = NatsOptions(credentials=str(good))
        async with await JetStreamCounterStore.connect(server.url, options) as store:
            assert await count(store) == 0
        monkeypatch.setattr("nostr_client.counters.jetstream.dial.CONNECT_S", 1)
        with pytest.raises(NetworkError):
            await JetStreamCounterStore.connect(server.url, NatsOptions(credentials=str(bad)))
        with pytest.raises(NetworkError):
            await JetStreamCounterStore.connect(server.url)


@pytest.mark.parametrize("cut", ["JWT", "SEED", "SU", "-----END", "\n"])
def test_what_is_no_file_of_credentials(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "user.creds"
    secret_file(path, Keys().credentials().replace(cut, ""))
    with pytest.raises(InvalidInput, match="no credentials"):
        read_credentials(str(path))
    path.write_text(Keys().credentials())
    assert read_credentials(str(path)).count("\n") == 6


def test_credentials_that_others_can_read_are_refused(tmp_path: Path) -> None:
    path = secret_file(tmp_path / "user.creds", Keys().credentials())
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="can be read by others"):
        read_credentials(str(path))


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
        "nostr_client.counters.jetstream.connection.JetStreamConnection.version",
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


async def test_counters_are_readable_unless_a_stream_refuses_direct_get() -> None:
    """A configuration says it where nobody does; what a server leaves out is its own no."""
    config = StreamConfig(name="D", subjects=("d.*",), allow_msg_counter=True)
    assert config.allow_direct is True
    assert StreamConfig(name="D").allow_direct is False
    plain = {"name": "D", "subjects": ("d.*",), "allow_msg_counter": True}
    assert StreamConfig.from_api(plain).allow_direct is False
    assert StreamConfig.from_api(plain).to_api() == plain
    assert config.to_api() == plain | {"allow_direct": True}
    with running_server() as server:
        async with await JetStreamCounterStore.connect(server.url) as store:
            assert (await store.create_stream(config)).config.allow_direct is True
            await (await store.counters("D")).add("d.x", 2)
            assert await (await store.counters("D")).load("d.x") == 2


async def test_a_stream_without_direct_get_is_not_bound() -> None:
    from msgspec.structs import replace

    from nostr_client.errors import CounterError

    with running_server() as server:
        async with await JetStreamCounterStore.connect(server.url) as store:
            await store.create_stream(replace(CONFIG, allow_direct=False))
            with pytest.raises(CounterError, match="allow_direct"):
                await store.counters("C")
