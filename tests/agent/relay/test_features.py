"""What a relay can be opened with: search, TLS; and requests to vanish."""

from __future__ import annotations

import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from agent.relay.options import RelayAccess, RelayOptions
from agent.relay.server import RelayServer, serve
from nostr_client.errors import InvalidInput
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import connect
from tests.agent.relay.kit import NOW, key, signed
from tests.conftest import require_tool

if TYPE_CHECKING:
    from pathlib import Path


async def test_search_where_the_store_has_it() -> None:
    found, other = signed(content="the quick brown fox"), signed(content="a lazy dog")
    async with (
        await SqliteStore.open(":memory:", search=True) as store,
        serve(store, port=0) as server,
        connect(server.url) as client,
    ):
        assert 50 in server.document()["supported_nips"]
        for event in (found, other):
            await client.publish(event)
        assert await client.stored({"search": "brown"}) == [found.id]
        assert (await client.ask("COUNT", "q", {"search": "brown"}))[2]["count"] == 1
        await client.ask("REQ", "live", {"search": "nothing like it"})
        assert (await client.publish(signed(content="new")))[0] == "OK"


async def test_a_request_to_vanish(store: SqliteStore, relay: RelayServer) -> None:
    event = signed(1)
    async with connect(relay.url) as client:
        await client.publish(event)
        await client.publish(signed(1, 62, [["relay", "ALL_RELAYS"]], created_at=NOW + 1))
        assert await client.stored({"kinds": [1]}) == []
        assert (await client.publish(event))[2:] == [False, "blocked: its author asked to vanish"]


async def test_a_wrap_that_its_recipient_deleted_is_refused_in_these_words(
    relay: RelayServer,
) -> None:
    wrap, note = signed(2, 1059, [["p", key(1).pubkey]]), signed(1)
    async with connect(relay.url) as client:
        for event in (wrap, note):
            await client.publish(event)
        await client.publish(signed(1, 5, [["e", wrap.id], ["e", note.id]], created_at=NOW + 1))
        said = [(await client.publish(event))[3] for event in (wrap, note)]
    assert said == [
        "blocked: its author or its recipient asked for its deletion",
        "blocked: its author asked for its deletion",
    ]


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate of 127.0.0.1, and its key."""
    cert, secret = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [require_tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-out", cert, "-keyout", secret],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    return cert, secret


async def test_tls(store: SqliteStore, tmp_path: Path) -> None:
    cert, secret = certificate(tmp_path)
    trust = ssl.create_default_context(cafile=cert)
    access = RelayAccess(tls_cert=cert, tls_key=secret)
    async with (
        serve(store, port=0, options=RelayOptions(access=access)) as server,
        connect(server.url, ssl=trust) as client,
    ):
        assert server.url.startswith("wss://")
        assert (await client.publish(signed()))[2] is True
    secret.chmod(0o640)
    with pytest.raises(InvalidInput, match="can be read by others"):
        async with serve(store, port=0, options=RelayOptions(access=access)):
            pass
    secret.chmod(0o600)
    swapped = RelayOptions(access=RelayAccess(tls_cert=secret, tls_key=cert))
    with pytest.raises(InvalidInput):
        async with serve(store, port=0, options=swapped):
            pass
