"""npm nostr-tools and nostr-sdk, unmodified, read the merged number of a watch."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import nostr_sdk as sdk
import pytest

from nostr_client import hll
from nostr_client.watch import Watch
from tests.agent.service.kit import an_agent
from tests.faulty_relay import FaultyRelay
from tests.peers.node import run_js
from tests.worlds import TARGET, Sketches, follow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

PARTS = (range(300), range(200, 500), range(450, 700))
TOOLS = """
import { SimplePool } from "nostr-tools/pool";
import { Relay } from "nostr-tools/relay";
async function main({ url, target }) {
  const relay = await Relay.connect(url);
  const alone = await relay.count([{ kinds: [3], "#p": [target] }], {});
  const refused = await relay.count([{ kinds: [3] }], {}).then(() => "", (e) => String(e));
  relay.close();
  const pool = new SimplePool();
  const many = await pool.countMany([url], target, "followers");
  pool.destroy();
  return { alone, refused, many };
}
"""


@asynccontextmanager
async def merged(folder: Path) -> AsyncIterator[tuple[str, int]]:
    """The URL of an agent's merged numbers, and that of its one watch."""
    relays = [FaultyRelay(Sketches(), events=[follow(n) for n in part]) for part in PARTS]
    async with relays[0], relays[1], relays[2], an_agent(folder) as agent:
        urls = tuple(relay.url for relay in relays)
        await agent.client.add_watch(
            Watch(name="me", query="followers", target=TARGET, relays=urls, live=False, merged=True)
        )
        state = await agent.until(lambda one: one.answered == len(urls), "me")
        assert state.figure is not None
        yield f"{agent.service.backend.relay_url}/merged", state.figure.value


async def test_nostr_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_OPTIONS", "--experimental-websocket")
    async with merged(tmp_path) as (url, number):
        seen = await asyncio.to_thread(run_js, TOOLS, {"url": url, "target": TARGET})
    everyone = {follow(n).pubkey for part in PARTS for n in part}
    offset = hll.offset({"kinds": [3], "#p": [TARGET]})
    assert offset is not None
    registers = hll.to_hex(hll.from_pubkeys(map(bytes.fromhex, everyone), offset))
    assert seen["alone"] == number
    assert seen["many"]["hll"] == registers
    assert "not watched" in seen["refused"]


async def test_nostr_sdk(tmp_path: Path) -> None:
    sdk.uniffi_set_event_loop(asyncio.get_running_loop())
    client = sdk.ClientBuilder().build()
    async with merged(tmp_path) as (url, number):
        await client.add_relay(sdk.RelayUrl.parse(url))
        await client.connect()
        try:
            peer = await client.relay(sdk.RelayUrl.parse(url))
            query = sdk.Filter().kind(sdk.Kind(3)).pubkey(sdk.PublicKey.parse(TARGET))
            assert await peer.count_events(query, timedelta(seconds=10)) == number
        finally:
            await client.shutdown()
