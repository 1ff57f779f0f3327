"""npm nostr-tools, unmodified, as a client of our relay."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from agent.relay.server import serve
from nostr_client import hll
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.kit import NOW, key, signed
from tests.peers.node import run_js

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from agent.relay.server import RelayServer
    from nostr_client.codecs.event import Event

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

TARGET = "ab" * 32
PRELUDE = """
import { SimplePool } from "nostr-tools/pool";
import { Relay } from "nostr-tools/relay";
import { finalizeEvent, getPublicKey } from "nostr-tools/pure";
import * as nip45 from "nostr-tools/nip45";
import * as nip77 from "./node_modules/nostr-tools/lib/esm/nip77.js";  // not in its exports
const bytes = (hex) => Uint8Array.from(hex.match(/../g), (b) => parseInt(b, 16));
"""


@pytest.fixture(autouse=True)
def _node_with_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 20 has the WebSocket of browsers behind a flag; later ones take the flag as well."""
    monkeypatch.setenv("NODE_OPTIONS", "--experimental-websocket")


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    async with await SqliteStore.open(":memory:") as opened:
        yield opened


@pytest.fixture
async def relay(store: SqliteStore) -> AsyncIterator[RelayServer]:
    async with serve(store, port=0) as server:
        yield server


async def js(body: str, **data: Any) -> Any:
    """Run `body`, the inside of an async function of `data`, in node."""
    script = f"{PRELUDE}\nasync function main(data) {{\n{body}\n}}"
    return await asyncio.to_thread(run_js, script, data)


def plain(event: Event) -> dict[str, Any]:
    return json.loads(event.to_json())


async def fill(store: SqliteStore, events: Sequence[Event]) -> None:
    await store.save([VerifiedEvent(event) for event in events])


async def test_publish_and_subscribe_live(relay: RelayServer) -> None:
    event = signed(1, 1, [["t", "x"]], "hello \u2028 \U0001f600")
    seen = await js(
        """
        const writer = await Relay.connect(data.url), reader = await Relay.connect(data.url);
        const seen = [];
        const live = new Promise((resolve) => {
          reader.subscribe([{ kinds: [1], "#t": ["x"] }], {
            oneose: () => writer.publish(data.event).then((reason) => seen.push(reason)),
            onevent: (event) => { seen.push(event); resolve(); },
          });
        });
        await live;
        const pool = new SimplePool();
        const stored = await pool.get([data.url], { ids: [data.event.id] });
        pool.destroy(); writer.close(); reader.close();
        return { stored, event: seen.find((x) => x.id), reason: seen.find((x) => !x.id) ?? "" };
        """,
        url=relay.url,
        event=plain(event),
    )
    assert seen["event"] == seen["stored"] == plain(event)


async def test_a_refused_event_rejects_with_the_reason(relay: RelayServer) -> None:
    event = signed(1, 1, [["expiration", "1"]])
    reason = await js(
        """
        const relay = await Relay.connect(data.url);
        const reason = await relay.publish(data.event).then(() => "taken", (e) => e.message);
        relay.close();
        return reason;
        """,
        url=relay.url,
        event=plain(event),
    )
    assert reason.startswith("invalid:")


async def test_count_many_of_two_relays(store: SqliteStore, relay: RelayServer) -> None:
    """`countMany` merges our registers to those that nostr-tools makes of the same events."""
    mine = [signed(seed, 7, [["e", TARGET]]) for seed in range(1, 40)]
    others = [signed(seed, 7, [["e", TARGET]]) for seed in range(30, 70)]
    followers = [signed(seed, 3, [["p", TARGET]]) for seed in range(1, 20)]
    await fill(store, [*mine, *followers])
    async with await SqliteStore.open(":memory:") as second, serve(second, port=0) as other:
        await fill(second, others)
        answer = await js(
            """
            const pool = new SimplePool();
            const relays = data.urls;
            const reactions = await pool.countMany(relays, data.target, "reactions");
            const followers = await pool.countMany(relays, data.target, "followers");
            const none = await pool.countMany(relays, data.target, "comments");
            pool.destroy();
            const offset = nip45.computeOffset(data.target);
            const feed = (hll, key) => nip45.feedPubkey(hll, key, offset);
            const own = nip45.hllEncode(data.keys.reduce(feed, nip45.newHll()));
            return { reactions, followers, none, own };
            """,
            urls=[relay.url, other.url],
            target=TARGET,
            keys=[event.pubkey for event in mine + others],
        )
    offset = hll.offset({"#e": [TARGET]})
    assert offset is not None
    ours = hll.to_hex(hll.from_pubkeys([event.pubkey for event in mine + others], offset))
    assert answer["reactions"] == {"count": 40, "hll": answer["own"]}
    assert answer["own"] == ours
    assert answer["followers"]["count"] == 19
    assert answer["none"] == {"count": 0, "hll": "00" * 256}


async def test_auth_opens_private_messages(store: SqliteStore, relay: RelayServer) -> None:
    message = signed(1, 1059, [["p", key(2).pubkey]])
    await fill(store, [message])
    answer = await js(
        """
        const relay = await Relay.connect(data.url);
        const secret = bytes(data.secret);
        const read = () => new Promise((resolve) => {
          const ids = [];
          const sub = relay.subscribe([{ kinds: [1059], "#p": [getPublicKey(secret)] }], {
            onevent: (event) => ids.push(event.id),
            oneose: () => { resolve(ids); sub.close(); },
            onclose: (reason) => resolve(reason),
          });
        });
        const before = await read();
        const ok = await relay.auth(async (template) => finalizeEvent(template, secret));
        const after = await read();
        relay.close();
        return { before, ok, after };
        """,
        url=relay.url,
        secret=key(2)._secret.secret.hex(),
    )
    assert answer["before"].startswith("auth-required:")
    assert answer["after"] == [message.id]


async def test_negentropy_tells_both_sides_what_they_lack(
    store: SqliteStore, relay: RelayServer
) -> None:
    events = [signed(1, 1, content=str(i), created_at=NOW + i // 3) for i in range(600)]
    await fill(store, events[:500])
    local = events[100:]
    answer = await js(
        """
        const relay = await Relay.connect(data.url);
        const storage = new nip77.NegentropyStorageVector();
        for (const [at, id] of data.items) storage.insert(at, id);
        storage.seal();
        const have = [], need = [];
        await new Promise((resolve, reject) => {
          const sync = new nip77.NegentropySync(relay, storage, { kinds: [1] }, {
            onhave: (id) => have.push(id),
            onneed: (id) => need.push(id),
            onclose: (reason) => (reason ? reject(new Error(reason)) : resolve()),
          });
          sync.start();
        });
        relay.close();
        return { have, need };
        """,
        url=relay.url,
        items=[[event.created_at, event.id] for event in local],
    )
    assert sorted(answer["have"]) == sorted(event.id for event in events[500:])
    assert sorted(answer["need"]) == sorted(event.id for event in events[:100])
